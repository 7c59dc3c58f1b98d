"""From what a person types to one tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebuddy_mcp_tools.cli.output import ExitCode, fail
from codebuddy_mcp_tools.cli.session import Session
from codebuddy_mcp_tools.cli.status import load
from codebuddy_mcp_tools.config import fold_name
from codebuddy_mcp_tools.types import Admission

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import MCPTool, ToolProvider


def find_tool(session: Session, provider: ToolProvider, text: str) -> MCPTool:
    """The tool a person means, its server connected; other servers only when the name does not tell the server.

    Raises:
        typer.Exit: no tool, or several; near misses are printed. Code 3: its server waits for approval.
    """
    server = _server_in(session, text)
    for status in provider.status():
        if status.name == server and status.admission is Admission.PENDING:
            raise fail(f'server "{server}" {status.message}', ExitCode.NEEDS_ANSWER)
    load(provider, server)
    resolution = provider.catalog.resolve(text)
    if resolution.tool is not None:
        return resolution.tool
    if resolution.denied:
        raise fail(f'"{text}" is denied by the permission rules; codebuddy-mcp doctor shows them')
    if resolution.ambiguous:
        raise fail(f'"{text}" is the name of several tools; say which: {", ".join(resolution.near)}')
    near = (
        f"did you mean {' or '.join(resolution.near[:3])}?" if resolution.near else "codebuddy-mcp search finds tools"
    )
    raise fail(f'no tool is called "{text}"; {near}{_silent(provider)}')


def _server_in(session: Session, text: str) -> str | None:
    """The one configured server that a full tool name, or `server.tool`, begins with."""
    folded = fold_name(text)
    starts = {
        name: prefix
        for name in session.configuration.entries
        for prefix in (f"mcp__{fold_name(name)}__", f"mcp_{fold_name(name)}_", f"{fold_name(name)}_")
        if folded.startswith(prefix)
    }
    longest = max(map(len, starts.values()), default=0)
    named = [name for name, prefix in starts.items() if len(prefix) == longest]
    is_full = folded.startswith("mcp__") or any(text.startswith(f"{name}.") for name in named)
    return named[0] if len(named) == 1 and is_full else None


def _silent(provider: ToolProvider) -> str:
    down = [server.name for server in provider.status() if server.admission is Admission.ADMITTED and server.last_error]
    return f" (not connected: {', '.join(down)})" if down else ""
