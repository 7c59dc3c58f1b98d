"""What every command starts from: workspace, settings, configuration, approvals.

Policy: everything is read when it is first needed and once. Reading starts no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from codebuddy_mcp_tools.cli.output import ExitCode, fail
from codebuddy_mcp_tools.config import Configuration, Places, ServerEntry, Settings, load_configuration, load_settings
from codebuddy_mcp_tools.policy import ServerApprovals
from codebuddy_mcp_tools.types import Admission, Diagnostic

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import ToolProvider

_UNANSWERED = (Admission.PENDING, Admission.REJECTED)


@dataclass
class Session:
    """One run of the command line."""

    workspace: Path
    settings_source: str | None = None
    modifiers: tuple[str, ...] = ()
    """`Defer(…)` and `NoDefer(…)` of this run."""

    @cached_property
    def places(self) -> Places:
        """The files of the user and the workspace."""
        return Places.of(self.workspace)

    @property
    def state_dir(self) -> Path:
        """Approvals, pins, tokens and saved results."""
        return self.places.home / ".codebuddy"

    @cached_property
    def settings(self) -> Settings:
        """Settings of all layers, `--settings` included.

        Raises:
            typer.Exit: `--settings` cannot be read: what it was to forbid must not run.
        """
        settings = load_settings(self.workspace, source=self.settings_source)
        for diagnostic in settings.diagnostics if self.settings_source else ():
            if diagnostic.severity == "error" and str(diagnostic.path) in ("--settings", self.settings_source):
                raise fail(str(diagnostic), ExitCode.USAGE)
        return settings

    @cached_property
    def configuration(self) -> Configuration:
        """All server entries; an unapproved project entry does not shadow one of another scope."""
        return load_configuration(
            workspace=self.workspace,
            settings=self.settings,
            approved=lambda entry: self.approvals.state(entry, self.settings) not in _UNANSWERED,
        )

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is to be said about settings and servers."""
        said = (*self.settings.diagnostics, *self.configuration.diagnostics, *self.approvals.diagnostics)
        return tuple(dict.fromkeys(said))

    @property
    def unlogged(self) -> tuple[Diagnostic, ...]:
        """`diagnostics` without those that a provider logs itself."""
        logged = {d for d in self.configuration.diagnostics if d.severity != "note"}
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic not in logged)

    @cached_property
    def approvals(self) -> ServerApprovals:
        """The stored answers of this workspace."""
        return ServerApprovals(self.state_dir, self.places.workspace)

    def admission(self, entry: ServerEntry) -> Admission:
        """Whether an entry may be started."""
        return self.approvals.state(entry, self.configuration.settings)

    def provider(self, *, watch: bool = False) -> ToolProvider:
        """A provider for this workspace; nothing is started before it is asked for tools."""
        from codebuddy_mcp_tools.tools import ToolProvider  # noqa: PLC0415 - LangChain is slow to import

        return ToolProvider(
            workspace=self.workspace, settings=self.configuration.settings, defer=self.modifiers, watch=watch
        )

    def server_name(self, name: str) -> str:
        """The configured spelling of a server's name.

        Raises:
            UnknownServerError: nothing is configured under it.
        """
        return self.configuration.entry(name).name


def session_of(context: typer.Context) -> Session:
    """The session of a running command."""
    session = context.find_root().obj
    if not isinstance(session, Session):
        raise TypeError("the command was not started by the codebuddy-mcp application")
    return session


def parse_modifiers(text: str) -> Sequence[str]:
    """The modifiers in what `--tools` takes (`default,Defer(mcp__x__*)`).

    Raises:
        ConfigError: one of them cannot be read; the message quotes it.
    """
    from codebuddy_mcp_tools.policy.exposure import parse_modifiers as parse  # noqa: PLC0415

    parse([text])
    return (text,)
