"""Every server entry of every scope, with its place in the file.

Policy: a file or an entry that cannot be read is a diagnostic and hides nothing else. Other hosts' shapes (`servers`, a
map without any key round it) are read, and it is said which shape was expected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.config.entry import parse_server
from codebuddy_mcp_tools.config.files import Document, Places, first_existing, read_document
from codebuddy_mcp_tools.config.models import HttpServer, ServerConfig, SseServer, StdioServer
from codebuddy_mcp_tools.errors import ConfigError
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


class EntryCollector:
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
        """Servers given in code; the whole content of a `.mcp.json` is taken for the servers in it.

        Raises:
            ConfigError: this is no mapping of names to servers.
        """
        if not isinstance(servers, Mapping):
            raise ConfigError(
                f"servers must be a mapping of names to servers, not {type(servers).__name__}{_hint(servers)}"
            )
        for name, given in _unwrapped(servers).items():
            if not isinstance(name, str):
                raise ConfigError(f"the name of a server must be text, not {type(name).__name__} ({name!r})")
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
            if isinstance(table, Mapping) and "mcpServers" in table:
                self._add_table(table["mcpServers"], Scope.LOCAL, document, ("projects", key, "mcpServers"))
            if isinstance(table, Mapping):
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
        """`disabledMcpServers` beside servers: the user's own counts everywhere, a project's for its own servers."""
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
        if document is None:
            return diagnostic
        line, column = document.place(diagnostic.pointer)
        return replace(diagnostic, line=line, column=column)


def _hint(given: object) -> str:
    """What somebody who gives a file's name wants instead."""
    is_file = isinstance(given, (str, Path))
    return "; to read a project's .mcp.json, pass workspace=FOLDER" if is_file else ""


def _unwrapped(servers: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands under the `mcpServers` of a whole file; anything else as it is."""
    inner = servers.get("mcpServers")
    return inner if len(servers) == 1 and isinstance(inner, Mapping) and not looks_like_server(inner) else servers


def looks_like_server(value: JSON) -> bool:
    """Whether a value without any key round it is plainly a server entry."""
    return isinstance(value, Mapping) and any(isinstance(value.get(key), str) for key in ("command", "url"))
