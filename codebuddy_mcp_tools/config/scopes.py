"""Which servers there are: every scope's entries, and the order in which they stand for one name.

Policy (DESIGN section 2): servers given in code > local > workspace editor settings > project `.mcp.json` > user. A whole entry
replaces another, no fields are merged. A file or an entry that cannot be read is a diagnostic and hides nothing else. An
entry that a project's own files define does not shadow one of another scope as long as nobody has approved it. Nothing here
starts, looks up or expands anything.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from codebuddy_mcp_tools.config import jsonc
from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.config.entry import parse_server
from codebuddy_mcp_tools.config.files import Document, Places, first_existing, read_document
from codebuddy_mcp_tools.config.layers import settings_at
from codebuddy_mcp_tools.config.models import HttpServer, ServerConfig, SseServer, StdioServer
from codebuddy_mcp_tools.config.names import fold_name
from codebuddy_mcp_tools.config.settings import Settings
from codebuddy_mcp_tools.errors import ConfigError, UnknownServerError
from codebuddy_mcp_tools.types import JSON, Diagnostic, Scope

PROJECT_SCOPES = frozenset({Scope.PROJECT, Scope.WORKSPACE})
"""Scopes whose files belong to the project: a stranger may have written them."""
EDITOR_KEYS = ("codebuddy.mcp.servers", "sidecar.mcpServers")
_ORDER = {scope: place for place, scope in enumerate(Scope)}  # the enum is written highest priority first


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server as one place defines it."""

    name: str
    scope: Scope
    config: ServerConfig | None
    """`None` when the entry cannot be used; `error` says why."""
    raw: Mapping[str, JSON] = field(repr=False)
    """The entry as written, unexpanded. It may hold secrets."""
    path: Path | None = None
    pointer: str = ""
    error: str | None = None
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)

    @property
    def is_project_owned(self) -> bool:
        """Whether the project's own files define it, so that it needs an approval."""
        return self.scope in PROJECT_SCOPES


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
    settings_source: str | Path | Mapping[str, JSON] | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    approved: Callable[[ServerEntry], bool] | None = None,
    user_files: bool | None = None,
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
        user_files: read the user's own files; by default when a workspace is given.
    """
    variables = os.environ if environ is None else environ
    places = Places.of(workspace, home=home, environ=variables)
    reading = _Reading(places.workspace)
    reading.add_code(servers or {})
    files: tuple[Path, ...] = ()
    if workspace is not None or user_files:
        files = places.all
        reading.add_files(places)
    if settings is None:
        settings = settings_at(places if files else None, settings_source, variables)
    candidates = reading.candidates()
    return Configuration(
        candidates=candidates,
        entries={name: choose(found, approved) for name, found in candidates.items()},
        diagnostics=(*reading.diagnostics, *settings.diagnostics, *_same_spelling(candidates)),
        settings=settings.model_copy(
            update={"disabled_mcp_servers": tuple(dict.fromkeys((*settings.disabled_mcp_servers, *reading.disabled)))}
        ),
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


class _Reading:
    """Collects entries scope by scope."""

    def __init__(self, workspace: Path | None) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.disabled: list[str] = []
        self._workspace = workspace
        self._entries: list[ServerEntry] = []

    def candidates(self) -> dict[str, tuple[ServerEntry, ...]]:
        groups: dict[str, list[ServerEntry]] = defaultdict(list)
        for entry in sorted(self._entries, key=lambda entry: _ORDER[entry.scope]):  # stable inside a scope
            groups[entry.name].append(entry)
        return {name: tuple(found) for name, found in groups.items()}

    def add_code(self, servers: Mapping[str, ServerConfig | Mapping[str, JSON]]) -> None:
        for name, given in servers.items():
            if isinstance(given, (StdioServer, SseServer, HttpServer)):
                raw = given.model_dump(by_alias=True, exclude_unset=True) | {"type": given.type}
                self._add(name, raw, Scope.CODE, None, "")
            else:
                self._add(name, given, Scope.CODE, None, "")

    def add_files(self, places: Places) -> None:
        user = first_existing(places.user)
        legacy = read_document(places.legacy)
        self._add_local(legacy, places)
        user_document = legacy if user == places.legacy else read_document(user) if user else None
        if user_document is not None and user_document is not legacy:
            self._add_local(user_document, places)
        if places.workspace_editor is not None:
            self._add_editor(read_document(places.workspace_editor), Scope.WORKSPACE)
        if project := first_existing(places.project):
            self._add_file(read_document(project), Scope.PROJECT)
        if user_document is not None:
            self._add_file(user_document, Scope.USER)
        self._add_editor(read_document(places.user_editor), Scope.USER)
        self._say_unread(places, legacy, user)

    def _say_unread(self, places: Places, legacy: Document, user: Path | None) -> None:
        if legacy.problem is not None and user != places.legacy:
            self.diagnostics.append(legacy.problem)
        foreign = places.workspace / ".vscode" / "mcp.json" if places.workspace else None
        if foreign is not None and foreign.exists():
            message = 'not read: VS Code keeps its own servers here; copy them to .mcp.json under "mcpServers"'
            self.diagnostics.append(Diagnostic("note", message, foreign))

    def _add_local(self, document: Document, places: Places) -> None:
        projects = document.table.get("projects")
        if not isinstance(projects, Mapping):
            return
        keys = [*places.workspace_keys(), *projects]
        for key in dict.fromkeys(key for key in keys if key in projects and places.is_workspace(key)):
            table = projects[key]
            if isinstance(table, Mapping):
                self._add_table(table.get("mcpServers"), Scope.LOCAL, document, ("projects", key, "mcpServers"))
                self._add_disabled(table, Scope.LOCAL)

    def _add_editor(self, document: Document, scope: Scope) -> None:
        if document.problem is not None:
            self.diagnostics.append(replace(document.problem, severity="warning"))
        for key in EDITOR_KEYS:
            if key in document.table:
                self._add_table(document.table[key], scope, document, (key,))

    def _add_file(self, document: Document, scope: Scope) -> None:
        if document.problem is not None:
            self.diagnostics.append(document.problem)
            return
        table = document.table
        if "mcpServers" in table:
            self._add_table(table["mcpServers"], scope, document, ("mcpServers",))
        if isinstance(table.get("servers"), Mapping):
            self._say("note", 'found "servers", expected "mcpServers"; it is read', document, ("servers",))
            self._add_table(table["servers"], scope, document, ("servers",))
        elif "mcpServers" not in table:
            self._add_bare(document, scope)
        if table.get("inputs"):
            self._say("warning", '"inputs" is not supported: ${input:…} is not filled in', document, ("inputs",))
        self._add_disabled(table, scope)

    def _add_bare(self, document: Document, scope: Scope) -> None:
        """A file that is the map of servers itself, without the key round it."""
        bare = {name: value for name, value in document.table.items() if looks_like_server(value)}
        if bare:
            self._say(
                "warning", 'expected "mcpServers" round the servers; read without it', document, (next(iter(bare)),)
            )
        for name, value in bare.items():
            self._add(name, value, scope, document, join_pointer(name))

    def _add_table(self, table: JSON, scope: Scope, document: Document, at: tuple[str, ...]) -> None:
        if not isinstance(table, Mapping):
            what = "empty" if table is None else "not an object of servers by name"
            self._say("warning" if table is None else "error", f'"{at[-1]}" is {what}', document, at)
            return
        for name, raw in table.items():
            if not isinstance(raw, Mapping) and name.startswith(("_", "//", "#", "$")):
                continue  # a comment in the shape of a key
            self._add(name, raw, scope, document, join_pointer(*at, name))

    def _add(self, name: str, raw: JSON, scope: Scope, document: Document | None, pointer: str) -> None:
        path = document.path if document else None
        values = raw if isinstance(raw, Mapping) else {}
        try:
            config, said = parse_server(name, raw, path=path, pointer=pointer, base=self._workspace)
        except ConfigError as error:
            problem = Diagnostic("error", str(error), path, error.pointer, server=name)
            placed = self._place(problem, document)
            self.diagnostics.append(placed)
            entry = ServerEntry(name, scope, None, values, path, pointer, str(error), (placed,))
        else:
            notes = tuple(self._place(diagnostic, document) for diagnostic in said)
            self.diagnostics.extend(notes)
            entry = ServerEntry(name, scope, config, values, path, pointer, None, notes)
        self._entries.append(entry)

    def _add_disabled(self, table: Mapping[str, JSON], scope: Scope) -> None:
        """`disabledMcpServers` beside servers: the user's own counts everywhere, a project's for the project's servers."""
        names = table.get("disabledMcpServers")
        listed = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        if scope not in PROJECT_SCOPES:
            self.disabled.extend(listed)
            return
        for place, entry in enumerate(self._entries):
            if entry.scope in PROJECT_SCOPES and entry.config is not None and entry.name in listed:
                self._entries[place] = replace(entry, config=entry.config.model_copy(update={"enabled": False}))

    def _say(self, severity: str, message: str, document: Document, at: tuple[str, ...]) -> None:
        self.diagnostics.append(self._place(Diagnostic(severity, message, document.path, join_pointer(*at)), document))

    @staticmethod
    def _place(diagnostic: Diagnostic, document: Document | None) -> Diagnostic:
        if document is None or not document.text:
            return diagnostic
        line, column = jsonc.locate(document.text, diagnostic.pointer)
        return replace(diagnostic, line=line, column=column)


def looks_like_server(value: JSON) -> bool:
    """Whether a value without any key round it is plainly a server entry."""
    return isinstance(value, Mapping) and any(isinstance(value.get(key), str) for key in ("command", "url"))


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
    changed = tuple(
        name
        for name in after
        if name in before and (after[name].scope, after[name].raw, after[name].error, after[name].config)
        != (before[name].scope, before[name].raw, before[name].error, before[name].config)
    )  # fmt: skip
    return Changes(
        tuple(name for name in after if name not in before),
        tuple(name for name in before if name not in after),
        changed,
    )
