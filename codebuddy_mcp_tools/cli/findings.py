"""What `doctor` finds wrong with an entry before anything is started, and what to do about it.

Policy: every finding has a suggestion. Pure functions of an entry and the world they are given, so that a Windows
rule is tested on Linux. No secret is in a finding.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from codebuddy_mcp_tools.config import ServerEntry, Settings, expand_server
from codebuddy_mcp_tools.config.display import is_secret_name
from codebuddy_mcp_tools.config.models import HttpServer, ServerConfig, SseServer, StdioServer
from codebuddy_mcp_tools.errors import BlockedURLError, ConfigError
from codebuddy_mcp_tools.policy import OutboundRules, command_argument
from codebuddy_mcp_tools.policy.fingerprint import working_directory
from codebuddy_mcp_tools.types import Admission, Scope, ServerStatus

_INSTALL = {
    "node": "install Node.js (https://nodejs.org), or give the full path of node",
    "npx": "install Node.js (https://nodejs.org), which brings npx",
    "npm": "install Node.js (https://nodejs.org), which brings npm",
    "uvx": "install uv (https://docs.astral.sh/uv), which brings uvx",
    "uv": "install uv (https://docs.astral.sh/uv)",
    "docker": "Docker is missing: install Docker, and start it",
    "python": "there may only be a python3: write that, or the full path",
    "bunx": "install Bun (https://bun.sh)",
    "deno": "install Deno (https://deno.com)",
}
_WINDOWS_SCRIPTS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx"})
_LOOPBACK_SCOPES = frozenset({Scope.CODE, Scope.LOCAL, Scope.USER})
_BIG = 12_800
"""Tokens of tool schemas that are much: a tenth of a 128k context window."""

Which = Callable[[str, str | None], str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong or odd, and what to do."""

    severity: str
    subject: str
    message: str
    suggestion: str


@dataclass(frozen=True, slots=True)
class World:
    """What the checks look at besides the entry."""

    environ: Mapping[str, str]
    platform: str
    workspace: Path | None
    settings: Settings
    which: Which = lambda command, path: shutil.which(command, path=path)


def check_entry(entry: ServerEntry, world: World) -> Iterator[Finding]:
    """Everything that can be said of an entry without starting it."""
    if entry.config is None:
        yield Finding("error", entry.name, entry.error or "cannot be used", f"correct {entry.path or 'the entry'}")
        return
    if not entry.config.enabled:
        return
    try:
        expanded = expand_server(entry.config, world.environ)
    except ConfigError as error:
        yield Finding("error", entry.name, str(error), "make the variables refer to each other less")
        return
    yield from _missing(entry, expanded.missing)
    yield from _literal_secrets(entry)
    if isinstance(expanded.config, StdioServer):
        yield from _command(entry.name, expanded.config, world)
    else:
        yield from _url(entry, expanded.config, world)


def _missing(entry: ServerEntry, missing: tuple[str, ...]) -> Iterator[Finding]:
    if missing:
        remote = not isinstance(entry.config, StdioServer)
        effect = "it is not dialled" if remote else "the placeholder is passed on as it is"
        yield Finding(
            "error" if remote else "warning",
            entry.name,
            f"Missing environment variables: {', '.join(missing)}; {effect}",
            f"set them, or give a default: ${{{missing[0]}:-value}}",
        )


def _literal_secrets(entry: ServerEntry) -> Iterator[Finding]:
    config = entry.config
    if config is None or not entry.is_project_owned:
        return
    values = {**config.env, **getattr(config, "headers", {})}
    names = [name for name, value in values.items() if is_secret_name(name) and value and "${" not in value]
    if names:
        variable = re.sub(r"[^A-Z0-9_]", "_", names[0].upper())
        yield Finding(
            "warning",
            entry.name,
            f"a secret stands in a file of the project: {', '.join(names)}",
            f"keep it out of version control: write ${{{variable}}} and set that variable",
        )


def _command(name: str, config: StdioServer, world: World) -> Iterator[Finding]:
    base = _base_name(config.command)
    if world.platform == "win32" and base in _WINDOWS_SCRIPTS:
        yield Finding(
            "warning",
            name,
            f"{base} is a script on Windows and may not start by itself",
            f'"command": "cmd", "args": ["/c", "{base}", …]',
        )
    if config.cwd and not os.path.isdir(working_directory(config.cwd, world.workspace)):
        yield Finding("error", name, f"the working directory {config.cwd} does not exist", "correct cwd")
    if not _is_found(config, world):
        suggestion = _INSTALL.get(base, "install it, correct the name, or give its full path")
        yield Finding("error", name, f"command not found: {config.command}", suggestion)


def _base_name(command: str) -> str:
    return re.sub(r"\.(exe|cmd|bat)$", "", PureWindowsPath(command).name.lower())


def _is_found(config: StdioServer, world: World) -> bool:
    path = config.env.get("PATH", world.environ.get("PATH"))
    is_path = "/" in config.command or "\\" in config.command
    there = is_path and os.path.exists(os.path.join(world.workspace or "", config.command))
    return there or bool(world.which(config.command, path))


def _url(entry: ServerEntry, config: SseServer | HttpServer, world: World) -> Iterator[Finding]:
    if isinstance(config, HttpServer) and re.search(r"/sse/?(\?|$)", config.url):
        yield Finding("warning", entry.name, "the url looks like one of the older SSE transport", 'write "type": "sse"')
    if "${" in config.url:
        return
    rules = OutboundRules(allow_loopback=entry.scope in _LOOPBACK_SCOPES, allowed_hosts=world.settings.allowed_hosts)
    try:
        rules.check_url(config.url)
    except BlockedURLError as error:
        suggestion = 'add the host to "allowedHosts" in ~/.codebuddy/settings.json if you trust it'
        if entry.is_project_owned:
            suggestion += ", or define the server in user or local scope"
        yield Finding("error", entry.name, str(error), suggestion)


def check_admission(entry: ServerEntry, admission: Admission) -> Iterator[Finding]:
    """Why an entry that is right does not start."""
    approve = f"codebuddy-mcp approve {command_argument(entry.name)}"
    if admission is Admission.PENDING:
        yield Finding("warning", entry.name, "waits for approval, so it is not started", approve)
    elif admission is Admission.REJECTED:
        yield Finding(
            "note",
            entry.name,
            "was refused, by an answer or by disabledMcpjsonServers",
            f"{approve}, or take it out of that list",
        )
    elif admission is Admission.DISABLED:
        remedy = "take out disabled/enabled of the entry, or the name in disabledMcpServers"
        yield Finding("note", entry.name, "is disabled", remedy)


def check_names(settings: Settings, names: tuple[str, ...]) -> Iterator[Finding]:
    """Names in settings that no server has."""
    lists = {
        "enabledMcpjsonServers": settings.enabled_mcpjson_servers,
        "disabledMcpjsonServers": settings.disabled_mcpjson_servers,
        "disabledMcpServers": settings.disabled_mcp_servers,
    }
    for key, listed in lists.items():
        unknown = [name for name in listed if name not in names]
        if unknown:
            message = f"names no server of this workspace: {', '.join(unknown)}"
            yield Finding("note", key, message, "correct or remove it")


def check_status(status: ServerStatus, config: ServerConfig | None) -> Iterator[Finding]:
    """What a server that was tried came to."""
    error = status.last_error
    if status.admission is Admission.ADMITTED and error and not status.connected_since:
        yield Finding("error", status.name, error.removeprefix(f"{status.name}: "), _remedy(error, config))
    if status.retry_after is not None:
        message = f"the circuit breaker is {status.breaker.value} for another {status.retry_after:.0f} s"
        yield Finding("warning", status.name, message, "put right what is wrong with the server, then try again")
    for warning in status.warnings:
        yield Finding("warning", status.name, warning, "see the server's documentation")
    if status.context_tokens > _BIG:
        yield Finding(
            "warning",
            status.name,
            f"its tools cost about {status.context_tokens:,} tokens in every request",
            '"defer_loading": true for the server, or "toolAllowlist"',
        )


def _remedy(error: str, config: ServerConfig | None) -> str:
    if isinstance(config, StdioServer):
        if _base_name(config.command) == "docker" and config.args[:3] == ("mcp", "gateway", "run"):
            return "the Docker gateway answered nothing: is Docker running, with the MCP toolkit enabled?"
        return "run the command by hand in a terminal; its last lines on stderr say more"
    if isinstance(config, HttpServer) and re.search(r"\b(404|405|406)\b", error):
        return 'the server may speak the older transport: try "type": "sse"'
    if isinstance(config, SseServer) and re.search(r"\b(400|404|405)\b", error):
        return 'the server may speak the newer transport: try "type": "http"'
    if re.search(r"\b40[13]\b", error):
        return "the server wants credentials: set its header, or log in with codebuddy-mcp login"
    return "check the address, the network and whether the server runs"
