"""The question that is put to a person: may this server start, may this call run?

Policy: complete and escaped. A command is shown with every argument, never cut (SEP-1024); what a terminal would not
print is written out; values of environment variables, headers and URL queries are not shown, their names are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from codebuddy_mcp_tools.policy.text import show
from codebuddy_mcp_tools.types import JSON, Scope, ToolInfo, Transport


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What somebody is asked to approve: the start of a server, or with `tool` set one call of a tool."""

    server: str
    scope: Scope | None = None
    """Where the server is defined; `None` for a tool call."""
    transport: Transport | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = None
    """Unexpanded; literal user-info and query values are masked."""
    env_names: tuple[str, ...] = ()
    header_names: tuple[str, ...] = ()
    fingerprint: str = ""
    """What the answer is bound to."""
    workspace: Path | None = None
    source: Path | None = None
    """The file that defines the server."""
    warnings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables whose values the server would get."""
    tool: str | None = None
    """The tool of a call, by the server's own name."""
    arguments: Mapping[str, JSON] | None = field(default=None, repr=False)
    """The arguments of a call, as they would be sent."""
    reason: str = ""
    """Why the question is asked, for a call."""

    @classmethod
    def for_tool(cls, tool: ToolInfo, arguments: Mapping[str, JSON], *, reason: str = "") -> Self:
        """The question about one call of a tool."""
        return cls(server=tool.server, tool=tool.name, arguments=dict(arguments), reason=reason)

    def text(self) -> str:
        """Several lines for a terminal or a dialog; nothing in it can act on the terminal or is left out."""
        return "\n".join(self._call_lines() if self.tool is not None else self._server_lines())

    def _server_lines(self) -> Iterator[str]:
        kind = self.transport.value if self.transport else "MCP"
        does = "start a program on this computer" if self.transport is Transport.STDIO else "connect to a remote server"
        scope = f" of {self.scope.value} scope" if self.scope else ""
        yield f"The {kind} server {_quoted(self.server)}{scope} wants to {does}."
        for label, value in self._facts():
            yield f"  {label:<11}{value}"
        for number, arg in enumerate(self.args, 1):
            yield f"  {f'argument {number}':<11} {_quoted(arg)}"
        for warning in self.warnings:
            yield f"  ! {show(warning)}"

    def _facts(self) -> Iterator[tuple[str, str]]:
        paths = (("defined in", self.source), ("workspace", self.workspace))
        texts = (("command", self.command), ("directory", self.cwd), ("url", self.url))
        names = (("env", self.env_names), ("headers", self.header_names), ("uses", self.variables))
        yield from ((f"{label}", f" {_quoted(str(path))}") for label, path in paths if path is not None)
        yield from ((label, f" {_quoted(text)}") for label, text in texts if text is not None)
        yield from ((label, " " + ", ".join(map(show, values))) for label, values in names if values)

    def _call_lines(self) -> Iterator[str]:
        yield f"The tool {_quoted(self.tool or '')} of the MCP server {_quoted(self.server)} wants to run."
        if self.reason:
            yield f"  because     {show(self.reason)}"
        for name, value in (self.arguments or {}).items():
            yield f"  {show(str(name))}: {show(_json(value))}"


def _quoted(text: str) -> str:
    return '"' + show(text).replace('"', '\\"') + '"'


def _json(value: JSON) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
