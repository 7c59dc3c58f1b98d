"""Where an entry of a scope is written.

Policy (CodeBuddy Code page, "Write rules"): the first existing file of a scope, else its first file is created.
Inside a file the entry goes where the servers of that file already are, so that adding one does not hide the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codebuddy_mcp_tools.config.entries import EDITOR_KEYS, looks_like_server
from codebuddy_mcp_tools.config.files import Document, Places, first_existing, read_document
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON, Scope


@dataclass(frozen=True, slots=True)
class Target:
    """A table of servers in a file: `set_value(target.path, (*target.keys, name), entry)`."""

    path: Path
    keys: tuple[str, ...]
    servers: Mapping[str, JSON]
    """What stands there now."""


def target_of(places: Places, scope: Scope) -> Target:
    """The place where `scope` keeps its servers.

    Raises:
        ConfigError: the scope has no file here. A file that cannot be read raises when it is written to.
    """
    if scope is Scope.LOCAL:
        return _local(places)
    if scope is Scope.WORKSPACE and places.workspace_editor is not None:
        return _editor(read_document(places.workspace_editor))
    paths = {Scope.USER: places.user, Scope.PROJECT: places.project}.get(scope, ())
    if not paths:
        raise ConfigError(f"the {scope.value} scope has no file to write without a workspace")
    document = read_document(first_existing(paths) or paths[0])
    keys = _servers_key(document.table)
    return Target(document.path, keys, _at(document.table, keys))


def _servers_key(table: Mapping[str, JSON]) -> tuple[str, ...]:
    if "mcpServers" not in table and isinstance(table.get("servers"), Mapping):
        return ("servers",)
    if "mcpServers" not in table and any(looks_like_server(value) for value in table.values()):
        return ()
    return ("mcpServers",)


def _local(places: Places) -> Target:
    if places.workspace is None:
        raise ConfigError("the local scope needs a workspace")
    document = read_document(places.legacy)
    projects = document.table.get("projects")
    known = projects if isinstance(projects, Mapping) else {}
    spellings = [*places.workspace_keys(), *(key for key in known if places.is_workspace(key))]
    key = next((spelling for spelling in spellings if spelling in known), places.workspace_keys()[0])
    keys = ("projects", key, "mcpServers")
    return Target(document.path, keys, _at(document.table, keys))


def _editor(document: Document) -> Target:
    key = next((key for key in EDITOR_KEYS if key in document.table), EDITOR_KEYS[0])
    return Target(document.path, (key,), _at(document.table, (key,)))


def _at(table: JSON, keys: tuple[str, ...]) -> Mapping[str, JSON]:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else {}
