"""Which servers there are: every scope's entries, and the order in which they stand for one name.

Policy (DESIGN section 2): servers given in code > local > workspace editor settings > project `.mcp.json` > user. A
whole entry replaces another, no fields are merged. A file or an entry that cannot be read is a diagnostic and hides
nothing else. An entry that a project's own files define does not shadow one of another scope as long as nobody has
approved it. Nothing here starts, looks up or expands anything.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from codebuddy_mcp_tools.config.entries import PROJECT_SCOPES, EntryCollector, ServerEntry
from codebuddy_mcp_tools.config.files import Places
from codebuddy_mcp_tools.config.layers import SettingsSource, settings_at
from codebuddy_mcp_tools.config.models import ServerConfig
from codebuddy_mcp_tools.config.names import fold_name
from codebuddy_mcp_tools.config.settings import Settings
from codebuddy_mcp_tools.errors import ConfigError, UnknownServerError
from codebuddy_mcp_tools.types import JSON, Diagnostic

__all__ = [
    "PROJECT_SCOPES",
    "Changes",
    "Configuration",
    "ServerEntry",
    "choose",
    "compare",
    "load_configuration",
]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that was found, in the order that decides."""

    candidates: Mapping[str, tuple[ServerEntry, ...]]
    """Server name to every entry of that name, highest priority first."""
    entries: Mapping[str, ServerEntry]
    """Server name to the entry that counts."""
    diagnostics: tuple[Diagnostic, ...]
    settings: Settings
    workspace: Path | None = None
    files: tuple[Path, ...] = ()
    """Every file that was looked at, whether it exists or not."""

    @property
    def shadowed(self) -> Mapping[str, tuple[ServerEntry, ...]]:
        """Server name to the entries that do not count; only names that have some."""
        losers = {
            name: tuple(entry for entry in found if entry is not self.entries[name])
            for name, found in self.candidates.items()
        }
        return {name: found for name, found in losers.items() if found}

    def entry(self, name: str) -> ServerEntry:
        """The entry of a name, in any spelling that folds to it (`Google Sheets` is `google_sheets`).

        Raises:
            UnknownServerError: no entry, or several fold to this spelling.
        """
        if name in self.entries:
            return self.entries[name]
        same = [entry for known, entry in self.entries.items() if fold_name(known) == fold_name(name)]
        if len(same) == 1:
            return same[0]
        known = ", ".join(self.entries) or "none"
        problem = "is ambiguous" if same else "is not configured"
        raise UnknownServerError(f'server "{name}" {problem}; configured servers: {known}', server=name)


def choose(candidates: Iterable[ServerEntry], approved: Callable[[ServerEntry], bool] | None = None) -> ServerEntry:
    """The entry that counts among those of one name, given highest priority first.

    A project's entry that is not approved steps back behind entries of other scopes; alone, it counts (as pending).
    """
    ordered = tuple(candidates)
    if approved is None:
        return ordered[0]
    trusted = (entry for entry in ordered if not entry.is_project_owned or approved(entry))
    return next(trusted, ordered[0])


def load_configuration(
    servers: Mapping[str, ServerConfig | Mapping[str, JSON]] | None = None,
    *,
    workspace: str | Path | None = None,
    settings: Settings | None = None,
    settings_source: SettingsSource | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    approved: Callable[[ServerEntry], bool] | None = None,
) -> Configuration:
    """Read every scope. Never raises for what a file or an entry says.

    Args:
        servers: servers given in code, the highest scope.
        workspace: the project's folder; given, the scope files are read.
        settings: replaces the settings files.
        settings_source: what `--settings` takes; not looked at when `settings` is given.
        home: the user's home folder instead of the process's.
        environ: environment variables instead of the process's.
        approved: says whether a project's entry has been approved; without it priority alone decides.

    Raises:
        ConfigError: `settings` are no `Settings`.
    """
    if settings is not None and not isinstance(settings, Settings):
        raise ConfigError(
            f"settings must be Settings, not {type(settings).__name__}: Settings.model_validate(…) makes them"
        )
    variables = os.environ if environ is None else environ
    places = Places.of(workspace, home=home, environ=variables)
    collected = EntryCollector(places.workspace)
    if places.workspace is not None and not places.workspace.is_dir():
        problem = "the workspace is no folder, so no project files were read"
        collected.diagnostics.append(Diagnostic("error", problem, places.workspace))
    collected.add_code(servers or {})
    files: tuple[Path, ...] = ()
    if workspace is not None:
        files = places.all
        collected.add_files(places)
    if settings is None:
        settings = settings_at(places if files else None, settings_source, variables)
    candidates = collected.candidates()
    disabled = tuple(dict.fromkeys((*settings.disabled_mcp_servers, *collected.disabled)))
    return Configuration(
        candidates=candidates,
        entries={name: choose(found, approved) for name, found in candidates.items()},
        diagnostics=tuple(dict.fromkeys((*collected.diagnostics, *settings.diagnostics, *_same_spelling(candidates)))),
        settings=settings.model_copy(update={"disabled_mcp_servers": disabled}),
        workspace=places.workspace,
        files=files,
    )


def _same_spelling(names: Iterable[str]) -> Iterator[Diagnostic]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[fold_name(name)].append(name)
    for same in groups.values():
        if len(same) > 1:
            shown = ", ".join(f'"{name}"' for name in same)
            yield Diagnostic("warning", f"servers {shown} are one name to permission rules; rename one", server=same[0])


@dataclass(frozen=True, slots=True)
class Changes:
    """How two configurations differ, by server name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def compare(old: Configuration, new: Configuration) -> Changes:
    """Which servers must be connected, closed, or connected anew when `new` takes the place of `old`.

    Only what an entry says counts; moving it to another line, or a comment, changes nothing.
    """
    before, after = old.entries, new.entries
    return Changes(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(name for name in after if name in before and _content(after[name]) != _content(before[name])),
    )


def _content(entry: ServerEntry) -> tuple[object, ...]:
    return entry.scope, entry.raw, entry.error, entry.config
