"""`doctor`: where everything comes from, what is wrong, and what to do about each of it."""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebuddy_mcp_tools.cli import findings, status
from codebuddy_mcp_tools.cli.findings import Finding
from codebuddy_mcp_tools.cli.listing import JsonOption, describe, state_of, target
from codebuddy_mcp_tools.cli.output import ExitCode, console, print_json, safe, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.config import ServerEntry, placeholders
from codebuddy_mcp_tools.config.files import first_existing, read_document
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.policy import report_shadowing
from codebuddy_mcp_tools.types import Diagnostic, ServerStatus

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import ToolProvider

_PACKAGES = (
    "codebuddy-mcp-tools",
    "mcp",
    "langchain-core",
    "langgraph",
    "langchain-mcp-adapters",
    "langchain",
    "pydantic",
)
_FINDING_LOGGERS = ("codebuddy_mcp_tools.service.registry", "codebuddy_mcp_tools.tools.assembly")
_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}
_DIAGNOSTIC_REMEDY = {
    "error": "correct that line; nothing else in the file is affected",
    "warning": "correct it there, or take it out",
    "note": "nothing has to be done",
}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("doctor")(doctor)


def doctor(
    context: typer.Context,
    as_json: JsonOption = False,
    connect: Annotated[bool, typer.Option("--connect/--no-connect", help="Start the approved servers.")] = True,
) -> None:
    """Check everything: files, settings, variables, approvals, rules, servers. Exit code 1: an error was found."""
    session = session_of(context)
    servers, rules, cost = _ask(session) if connect else ([], [], None)
    found = _distinct(_findings(session, servers, rules))
    if as_json:
        print_json(_as_json(session, servers, found, cost))
    else:
        _print(session, servers, found, cost)
    if any(finding.severity == "error" for finding in found):
        raise typer.Exit(ExitCode.FAILED)


def _ask(session: Session) -> tuple[list[ServerStatus], list[Diagnostic], dict[str, int] | None]:
    """Connect; the servers, the rules that do nothing, and what the tools cost."""
    with _only_findings(), status.provider_of(session) as provider:
        status.load(provider)
        infos = [tool.info for tool in provider.tools_now() if hasattr(tool, "info")]
        core = [tool.name for tool in (*provider.core_tools, *provider.catalog.tools())]
        shadowing = report_shadowing(infos, servers=provider.service.names, core_tools=core)
        exposure = provider.catalog.rules.lint(infos, provider.service.names)
        return provider.status(), [*provider.permissions.lint(infos), *exposure, *shadowing], _cost(provider)


@contextmanager
def _only_findings() -> Iterator[None]:
    """Keeps what is among the findings out of the log, where it would be told a second time."""
    loggers = [logging.getLogger(name) for name in _FINDING_LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _cost(provider: ToolProvider) -> dict[str, int]:
    cost = provider.catalog.cost()
    return {"full": cost.full, "stub": cost.stub, "shown": cost.shown}


def _distinct(found: Iterator[Finding]) -> list[Finding]:
    """Without what says the same of the same subject again; the first has the better suggestion."""
    return list({(finding.subject, finding.message): finding for finding in reversed(list(found))}.values())[::-1]


def _findings(session: Session, servers: Sequence[ServerStatus], rules: Sequence[Diagnostic]) -> Iterator[Finding]:
    configuration = session.configuration
    world = findings.World(os.environ, sys.platform, session.places.workspace, configuration.settings)
    entry_errors = {entry.error for entry in configuration.entries.values()}
    for diagnostic in (*session.diagnostics, *rules):
        if diagnostic.message not in entry_errors:
            where = diagnostic.server or (str(diagnostic.path) if diagnostic.path else "settings")
            yield Finding(diagnostic.severity, where, str(diagnostic), _DIAGNOSTIC_REMEDY[diagnostic.severity])
    yield from _unread_servers(session)
    for entry in configuration.entries.values():
        yield from findings.check_entry(entry, world)
        yield from findings.check_admission(entry, session.admission(entry))
    yield from findings.check_names(configuration.settings, tuple(configuration.entries))
    for server in servers:
        entry_of = configuration.entries.get(server.name)
        yield from findings.check_status(server, entry_of.config if entry_of else None)


def versions() -> dict[str, str]:
    """Versions of what matters here; packages that are missing are left out."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def variables_of(entry: ServerEntry, environ: Mapping[str, str]) -> dict[str, str]:
    """Each variable an entry names, and where its value would come from. No value is shown."""
    config = entry.config
    if config is None:
        return {}
    if isinstance(config, StdioServer):
        texts = [config.command, *config.args, *config.env.values()]
    else:
        texts = [config.url, *config.headers.values(), *config.env.values()]
    origin: dict[str, str] = {}
    for text in texts:
        for name in placeholders(text):
            own = "the entry's env" if name in config.env else "default" if f"${{{name}:-" in text else "not set"
            origin.setdefault(name, "environment" if name in environ else own)
    return origin


def _files(session: Session) -> Iterator[tuple[str, str]]:
    """Every file that is looked at, and what came of it."""
    places = session.places
    for label, paths in (("user", places.user), ("project", places.project)):
        chosen = first_existing(paths)
        for path in paths:
            use = f"{label}: read" if path == chosen else "not read" if os.path.lexists(path) else "absent"
            yield str(path), f"{use}; local: read" if path == places.legacy and path.exists() else use
    others = [places.workspace_editor, places.user_editor, *places.project_settings, places.user_settings]
    for other in others:
        if other is not None:
            yield str(other), "read" if os.path.lexists(other) else "absent"


def _unread_servers(session: Session) -> Iterator[Finding]:
    """Servers in files that are not read, because another file of the scope comes first."""
    places = session.places
    for paths in (places.user, places.project):
        chosen = first_existing(paths)
        for path in paths:
            names = read_document(path).table.get("mcpServers") if path != chosen else None
            if isinstance(names, Mapping) and names:
                message = f"its servers are not read, because {chosen} comes first: {', '.join(names)}"
                yield Finding("warning", str(path), message, f"move them to {chosen}")


def _settings(session: Session) -> dict[str, dict[str, Any]]:
    settings = session.configuration.settings
    values = settings.model_dump(mode="json", by_alias=True)
    names = {info.alias or name: name for name, info in type(settings).model_fields.items()}
    return {key: {"value": value, "from": settings.origins.get(names[key], "default")} for key, value in values.items()}


def _as_json(
    session: Session, servers: Sequence[ServerStatus], found: Sequence[Finding], cost: Mapping[str, int] | None
) -> dict[str, Any]:
    entries = [entry for candidates in session.configuration.candidates.values() for entry in candidates]
    return {
        "versions": versions(),
        "workspace": session.workspace,
        "files": [{"path": path, "use": use} for path, use in _files(session)],
        "settings": _settings(session),
        "servers": [{**describe(session, entry), "variables": variables_of(entry, os.environ)} for entry in entries],
        "status": [status.describe(server) for server in servers],
        "token_cost": cost,
        "findings": [
            {"severity": f.severity, "subject": f.subject, "message": f.message, "suggestion": f.suggestion}
            for f in found
        ],
    }


def _print(
    session: Session, servers: Sequence[ServerStatus], found: Sequence[Finding], cost: Mapping[str, int] | None
) -> None:
    _section("Versions", [f"{name} {number}" for name, number in versions().items()])
    _section("Files", [f"{path}  ({use})" for path, use in _files(session)])
    set_ones = {key: item for key, item in _settings(session).items() if item["from"] != "default"}
    lines = [f"{key} = {item['value']}  ({item['from']})" for key, item in set_ones.items()]
    _section("Settings", lines or ["defaults"])
    _section("Servers", list(_server_lines(session)) or ["none"])
    if servers:
        _section("State", [_state_line(server) for server in servers])
    if cost is not None:
        _section("Token cost", [f"full schemas {cost['full']:,}, stubs {cost['stub']:,}, shown now {cost['shown']:,}"])
    say("")
    for finding in found:
        line = f"{finding.severity}: {finding.subject}: {finding.message}"
        console().print(safe(line), style=_COLOURS[finding.severity])
        say(f"    → {finding.suggestion}")
    say(_summary(found))


def _section(title: str, lines: Sequence[str]) -> None:
    say(title, style="bold")
    for line in lines:
        say(f"  {line}")


def _server_lines(session: Session) -> Iterator[str]:
    for candidates in session.configuration.candidates.values():
        for entry in candidates:
            yield f"{entry.name}: {state_of(session, entry)}  ({entry.scope.value}, {entry.path}#{entry.pointer})"
            yield f"  {target(entry)}"
            for name, origin in variables_of(entry, os.environ).items():
                yield f"  ${{{name}}}: {origin}"


def _state_line(server: ServerStatus) -> str:
    info = f", {server.server_info.name} {server.server_info.version}" if server.server_info else ""
    tools = f"{server.tools_exposed} of {server.tools_total} tools"
    return f"{server.name}: {status.word(server)}, breaker {server.breaker.value}, {tools}{info}"


def _summary(found: Sequence[Finding]) -> str:
    if not found:
        return "Nothing is wrong."
    counts = {severity: sum(f.severity == severity for f in found) for severity in ("error", "warning", "note")}
    return ", ".join(f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items() if count)
