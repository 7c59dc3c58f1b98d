"""`list` and `get`: what is configured, where, and what counts. Nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from codebuddy_mcp_tools.cli.output import as_json, fail, print_json, print_table, remark, report, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.config import ServerEntry, display_args, display_command, display_url
from codebuddy_mcp_tools.config.display import MASK
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.policy.approvals import pending_message
from codebuddy_mcp_tools.types import Admission

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_STATES = {
    Admission.ADMITTED: "ready",
    Admission.PENDING: "pending approval",
    Admission.REJECTED: "not approved",
    Admission.DISABLED: "disabled",
    Admission.INVALID: "invalid",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("list")(list_servers)
    app.command("get")(get_server)


def list_servers(context: typer.Context, as_json_: JsonOption = False) -> None:
    """List the servers of all scopes, and which entry of a name counts. Starts nothing."""
    session = session_of(context)
    found = session.configuration
    entries = [entry for candidates in found.candidates.values() for entry in candidates]
    if as_json_:
        described = [describe(session, entry) for entry in entries]
        print_json({"servers": described, "diagnostics": [as_json(diagnostic) for diagnostic in session.diagnostics]})
        return
    report(session.diagnostics)
    if not entries:
        say_none(session)
        return
    print_table(
        ("name", "scope", "type", "state", "target", "file"),
        [
            (
                entry.name,
                entry.scope.value,
                _type(entry),
                state_of(session, entry),
                target(entry),
                str(entry.path or ""),
            )
            for entry in entries
        ],
    )
    pending = [name for name, entry in found.entries.items() if session.admission(entry) is Admission.PENDING]
    if pending:
        remark(pending_message(pending), style="yellow")


def get_server(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The server's name; any spelling that rules accept.")],
    as_json_: JsonOption = False,
) -> None:
    """Show one server: every entry of its name, the one that counts first. Starts nothing."""
    session = session_of(context)
    winner = session.configuration.entry(name)
    losers = [entry for entry in session.configuration.candidates[winner.name] if entry is not winner]
    if as_json_:
        print_json([describe(session, entry) for entry in (winner, *losers)])
        return
    for place, entry in enumerate((winner, *losers)):
        if place:
            say("")
        for label, value in _facts(session, entry):
            say(f"{label + ':':<13}{value}")
    report(diagnostic for diagnostic in session.diagnostics if diagnostic.server == winner.name)


def say_none(session: Session) -> None:
    """That there is no server, and what to do about it.

    Raises:
        typer.Exit: there may be some, in a file that cannot be read.
    """
    if any(diagnostic.severity == "error" for diagnostic in session.diagnostics):
        raise fail("no servers could be read; mend what is named above")
    say("No servers are configured. Add one: codebuddy-mcp add NAME -- COMMAND [ARGS]")


def is_winner(session: Session, entry: ServerEntry) -> bool:
    """Whether this entry is the one of its name that counts."""
    return session.configuration.entries[entry.name] is entry


def state_of(session: Session, entry: ServerEntry) -> str:
    """In a word or two, what would happen if tools were asked for now."""
    state = _STATES[session.admission(entry)]
    if is_winner(session, entry):
        return state
    winner = session.configuration.entries[entry.name]
    shadowed = f"shadowed by {winner.scope.value}"
    return shadowed if state == "ready" else f"{state}, {shadowed}"


def target(entry: ServerEntry) -> str:
    """Command or URL, without secrets."""
    if entry.config is None:
        return entry.error or ""
    if isinstance(entry.config, StdioServer):
        return display_command(entry.config.command, entry.config.args)
    return display_url(entry.config.url)


def _type(entry: ServerEntry) -> str:
    return entry.config.transport.value if entry.config else "?"


def _facts(session: Session, entry: ServerEntry) -> Iterator[tuple[str, str]]:
    yield "name", entry.name
    yield "scope", entry.scope.value
    yield "state", state_of(session, entry)
    yield "file", f"{entry.path}#{entry.pointer}" if entry.path else "given in code"
    config = entry.config
    if config is None:
        yield "error", entry.error or ""
        return
    yield "type", config.transport.value
    yield "command" if isinstance(config, StdioServer) else "url", target(entry)
    for label, names in (("env", config.env), ("headers", getattr(config, "headers", {}))):
        if names:
            yield label, ", ".join(f"{name}={MASK}" for name in names)
    for key, value in _settings(entry).items():
        yield key, str(value)
    if config.unknown_keys:
        yield "unknown keys", ", ".join(config.unknown_keys)


def _settings(entry: ServerEntry) -> dict[str, Any]:
    """Everything the entry sets besides how to reach the server; nothing of it is secret."""
    if entry.config is None:
        return {}
    known = entry.config.model_dump(
        by_alias=True,
        exclude_unset=True,
        exclude={"type", "command", "args", "env", "url", "headers", "oauth", *entry.config.unknown_keys},
    )
    tools = known.get("tools")
    if isinstance(tools, dict):
        known["tools"] = {name: entry.config.tool(name).model_dump(by_alias=True, exclude_unset=True) for name in tools}
    return known


def describe(session: Session, entry: ServerEntry) -> dict[str, Any]:
    """An entry as a JSON object; every secret is `***`."""
    config = entry.config
    described: dict[str, Any] = {
        "name": entry.name,
        "scope": entry.scope.value,
        "counts": is_winner(session, entry),
        "admission": session.admission(entry).value,
        "path": entry.path,
        "pointer": entry.pointer,
        "error": entry.error,
        "diagnostics": [as_json(diagnostic) for diagnostic in entry.diagnostics],
    }
    if config is None:
        return described
    described["type"] = config.transport.value
    if isinstance(config, StdioServer):
        described |= {"command": config.command, "args": list(display_args(config.args)), "cwd": config.cwd}
    else:
        described |= {"url": display_url(config.url), "headers": dict.fromkeys(config.headers, MASK)}
        described["oauth"] = config.oauth is not None
    described["env"] = dict.fromkeys(config.env, MASK)
    described["unknown_keys"] = list(config.unknown_keys)
    return described | {"settings": _settings(entry)}
