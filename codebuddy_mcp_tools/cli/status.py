"""`status`: connecting to the servers and showing how they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codebuddy_mcp_tools.cli.listing import JsonOption, say_none
from codebuddy_mcp_tools.cli.output import ExitCode, console, print_json, print_table, remark, report, safe
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.types import Admission, CircuitState, ClientState, ServerStatus

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import ToolProvider

COLUMNS = ("server", "scope", "type", "state", "tools", "tokens", "up", "breaker", "what is wrong")
_TICK = 0.1
_WATCH = 1.0
_COLOURS = {"connected": "green", "connecting": "yellow", "error": "red", "pending": "yellow", "invalid": "red"}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("status")(status)


def status(
    context: typer.Context,
    as_json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it until interrupted.")] = False,
) -> None:
    """Connect to the enabled and approved servers, and show how they are.

    Exit code 1: a server that should run does not.
    """
    session = session_of(context)
    report(session.unlogged)
    with provider_of(session, watch=watch) as provider:
        load(provider)
        if watch:
            _watch(provider, as_json=as_json)
            return
        found = provider.status()
        _show(found, as_json=as_json)
        if not found and not as_json:
            say_none(session)
    if any(is_broken(server) for server in found):
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def provider_of(session: Session, *, watch: bool = False) -> Iterator[ToolProvider]:
    """A provider that is closed afterwards, however that comes about."""
    provider = session.provider(watch=watch)
    try:
        yield provider
    finally:
        provider.close()


def load(provider: ToolProvider, server: str | None = None) -> list[Any]:
    """The tools of one server or of all; in a terminal the state of the servers is shown while that lasts."""
    out = console(stderr=True)
    pool = ThreadPoolExecutor(1, "codebuddy-mcp-load")
    try:
        loading = pool.submit(provider.get_tools, server)
        if not out.is_terminal:
            return loading.result()
        with Live(console=out, transient=True, refresh_per_second=10) as live:
            return _wait(loading, lambda: live.update(_picture(provider.status())))
    finally:
        pool.shutdown(wait=False)  # whoever interrupts does not want to wait; closing the provider ends the load


def _wait(loading: Future[list[Any]], show: Callable[[], None]) -> list[Any]:
    while True:
        try:
            return loading.result(_TICK)
        except NotYet:
            if loading.done():  # the load itself ended with a TimeoutError
                raise
            show()


def is_broken(server: ServerStatus) -> bool:
    """A server that should run and does not."""
    if server.admission is Admission.INVALID:
        return True
    return server.admission is Admission.ADMITTED and server.state is not ClientState.CONNECTED


def word(server: ServerStatus) -> str:
    """The state in a word."""
    return server.state.value if server.admission is Admission.ADMITTED else server.admission.value


def row(server: ServerStatus, now: datetime) -> tuple[str, ...]:
    """One line of the table; see `COLUMNS`."""
    up = _duration((now - server.connected_since).total_seconds()) if server.connected_since else ""
    breaker = server.breaker.value
    if server.breaker is not CircuitState.CLOSED and server.retry_after:
        breaker += f", again in {_duration(server.retry_after)}"
    tools = f"{server.tools_exposed}/{server.tools_total}" if server.tools_total != server.tools_exposed else ""
    return (
        server.name,
        server.scope.value,
        server.transport.value if server.transport else "?",
        word(server),
        tools or str(server.tools_exposed),
        str(server.context_tokens),
        up,
        breaker,
        (server.message or "; ".join(server.warnings)).removeprefix(f"{server.name}: "),
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s" if minutes else f"{rest}s"


def _picture(servers: Sequence[ServerStatus]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for server in servers:
        cells = [Text(safe(cell)) for cell in row(server, datetime.now(UTC))]
        cells[3].stylize(_COLOURS.get(word(server), ""))
        table.add_row(*cells)
    return table


def _show(servers: Sequence[ServerStatus], *, as_json: bool) -> None:
    out = console()
    if as_json:
        print_json([describe(server) for server in servers])
    elif not servers:
        return
    elif out.is_terminal:
        out.print(_picture(servers))
    else:
        print_table(COLUMNS, [row(server, datetime.now(UTC)) for server in servers])


def describe(server: ServerStatus) -> dict[str, Any]:
    """A status as a JSON object."""
    info = server.server_info
    return {
        "name": server.name,
        "scope": server.scope.value,
        "admission": server.admission.value,
        "state": server.state.value,
        "transport": server.transport.value if server.transport else None,
        "source": server.source,
        "message": server.message,
        "last_error": server.last_error,
        "last_error_at": server.last_error_at,
        "attempts": server.attempts,
        "breaker": server.breaker.value,
        "retry_after": server.retry_after,
        "connected_since": server.connected_since,
        "tools_total": server.tools_total,
        "tools_exposed": server.tools_exposed,
        "context_tokens": server.context_tokens,
        "server_info": {"name": info.name, "version": info.version, "protocol": info.protocol_version}
        if info
        else None,
        "pid": server.pid,
        "warnings": list(server.warnings),
        "stderr_tail": list(server.stderr_tail),
    }


def _watch(provider: ToolProvider, *, as_json: bool) -> None:
    """Show the state until interrupted: live in a terminal, elsewhere each time it changes."""
    out = console()
    try:
        if out.is_terminal and not as_json:
            with Live(_picture(provider.status()), console=out, refresh_per_second=4) as live:
                while True:
                    time.sleep(_WATCH)
                    live.update(_picture(provider.status()))
        shown: list[str] = []
        while True:
            found = provider.status()
            key = [f"{word(server)} {server.message} {server.tools_exposed}" for server in found]
            if key != shown:
                _show(found, as_json=as_json)
                shown = key
            time.sleep(_WATCH)
    except KeyboardInterrupt:
        remark("stopped", style="dim")
