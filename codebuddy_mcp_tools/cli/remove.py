"""`remove`: taking a server out of the file of a scope."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from codebuddy_mcp_tools.cli.output import fail, remark, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.config import ServerEntry, remove_value
from codebuddy_mcp_tools.config.document import split_pointer


class FileScope(StrEnum):
    """Scopes that live in files."""

    LOCAL = "local"
    WORKSPACE = "workspace"
    PROJECT = "project"
    USER = "user"


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("remove")(remove)


def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The server's name.")],
    scope: Annotated[FileScope | None, typer.Option("--scope", "-s", help="The scope to remove it from.")] = None,
) -> None:
    """Remove a server. Without --scope, only when one scope has it."""
    session = session_of(context)
    found = _entries(session, name)
    chosen = [entry for entry in found if scope is None or entry.scope.value == scope.value]
    if not chosen:
        known = ", ".join(dict.fromkeys(entry.scope.value for entry in found))
        raise fail(f'there is no server "{name}" in {scope.value if scope else "any"} scope; it is in: {known}')
    if len(chosen) > 1:
        places = "; ".join(f"{entry.scope.value} ({entry.path})" for entry in chosen)
        raise fail(f'"{name}" is in several places: {places}. Say which: codebuddy-mcp remove "{name}" --scope SCOPE')
    entry = chosen[0]
    if entry.path is None or not remove_value(entry.path, split_pointer(entry.pointer)):
        raise fail(f'"{entry.name}" is no longer in {entry.path}')
    say(f'Removed "{entry.name}" from {entry.scope.value} scope: {entry.path}')
    rest = [other for other in found if other is not entry]
    if rest:
        remark(f'"{entry.name}" is still in {", ".join(other.scope.value for other in rest)} scope', style="dim")


def _entries(session: Session, name: str) -> list[ServerEntry]:
    candidates = session.configuration.candidates
    return list(candidates[name if name in candidates else session.server_name(name)])
