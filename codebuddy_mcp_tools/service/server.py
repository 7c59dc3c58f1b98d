"""One configured server: its entry, its sessions, its newest tool list, and what is wrong with it.

Everything that changes is changed on the owner loop; any thread may read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient, Timeouts
from codebuddy_mcp_tools.config import ServerEntry, Settings, StdioServer, expand_server
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import OutboundRules, Redactor
from codebuddy_mcp_tools.service.loading import Loading
from codebuddy_mcp_tools.service.vetting import Vetted
from codebuddy_mcp_tools.types import Admission, ClientState, Scope, ServerInfo, ServerStatus, ToolInfo, ToolListing

MAIN_SESSION = ""
"""Key of the session that everybody shares; other keys are LangGraph thread ids."""
MAX_SUSPICIONS = 10
"""Suspicious results that the status names."""

_LOOPBACK_SCOPES = frozenset({Scope.CODE, Scope.LOCAL, Scope.USER})


class ClientFactory(Protocol):
    """Makes the client of one session; tests and a second SDK implementation put theirs here."""

    def __call__(self, spec: ConnectionSpec) -> MCPClient: ...


def connection_spec(
    entry: ServerEntry,
    settings: Settings,
    *,
    workspace: Path | None,
    environ: Mapping[str, str],
    redactor: Redactor,
    state_dir: Path,
) -> ConnectionSpec:
    """What a client needs to open a session: variables put in, limits and outbound rules settled.

    Raises:
        ConfigError: the url or a header still holds an unset variable, so that nothing must be sent there.
    """
    if entry.config is None:
        raise ConfigError(
            entry.error or f"server {entry.name!r} cannot be used", path=entry.path, pointer=entry.pointer
        )
    expanded = expand_server(entry.config, environ)
    redactor.add(*expanded.secrets)
    config = expanded.config
    if isinstance(config, StdioServer):
        config = config.model_copy(update={"cwd": _working_directory(config.cwd, workspace)})
    elif expanded.missing:
        names = ", ".join(expanded.missing)
        raise ConfigError(
            f"server {entry.name!r} is not dialled: its url or headers need {names}, which is not set; "
            "set the variable or give a default as ${NAME:-value}",
            path=entry.path,
            pointer=entry.pointer,
        )
    return ConnectionSpec(
        name=entry.name,
        config=config,
        scope=entry.scope,
        timeouts=Timeouts(
            connect=config.start_timeout_s or settings.start_timeout_ms / 1000,
            call=config.call_timeout_s or settings.tool_timeout_ms / 1000,
        ),
        reconnect_delays=settings.reconnect_delays_s,
        breaker_threshold=config.breaker_threshold or settings.breaker_threshold,
        breaker_cooldown=config.breaker_cooldown_s or settings.breaker_cooldown_s,
        cache_ttl=settings.tool_cache_ttl_s,
        outbound=OutboundRules(
            allow_loopback=entry.scope in _LOOPBACK_SCOPES,
            allowed_hosts=settings.allowed_hosts,
            trust_env=settings.trust_env,
        ),
        tokens_dir=state_dir / "oauth",
    )


def _working_directory(cwd: str | None, workspace: Path | None) -> str | None:
    if cwd is None:
        return str(workspace) if workspace else None
    path = os.path.expanduser(cwd)
    return path if workspace is None else os.path.join(workspace, path)


class ConfiguredServer:
    """The record of one server name."""

    def __init__(self, entry: ServerEntry, admission: Admission, reason: str | None) -> None:
        self.entry = entry
        self.admission = admission
        self.reason = reason
        """Why it is not admitted, and what to do; `None` when it is."""
        self.clients: dict[str, MCPClient] = {}
        self.listing: ToolListing | None = None
        self._listed: dict[str, ToolInfo] = {}
        self.held_back: frozenset[str] = frozenset()
        """Tools whose definition changed after approval, under the `block` policy."""
        self.warnings: tuple[str, ...] = ()
        self.problem: str | None = None
        self.problem_at: datetime | None = None
        self.loading = Loading()
        self.adopting = asyncio.Lock()
        """Held on the owner loop while a list is looked at: lists are adopted one after another."""
        self._suspicions: list[str] = []

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def client(self) -> MCPClient | None:
        """The shared session's client, when one was made."""
        return self.clients.get(MAIN_SESSION)

    def surplus(self, limit: int) -> list[MCPClient]:
        """Take out the sessions beyond `limit` that were used longest ago; never the shared one."""
        own = [session for session in self.clients if session != MAIN_SESSION]
        return [self.clients.pop(session) for session in own[: max(0, len(own) - limit)]]

    @property
    def is_down(self) -> bool:
        """It was tried and is not connected: nobody should wait for it again."""
        return self.problem is not None and (self.client is None or self.client.state is not ClientState.CONNECTED)

    def fail(self, line: str) -> bool:
        """Note what went wrong; `True` when it is not what was noted last."""
        is_news = line != self.problem
        self.problem, self.problem_at = line, datetime.now(UTC)
        self.loading.attempt_failed()
        return is_news

    def adopt(self, vetted: Vetted) -> None:
        """Take a new list, and what was found in it, in one."""
        self.listing, self.held_back, self.warnings = vetted.listing, vetted.held_back, vetted.warnings
        # of a name listed twice, the first
        self._listed = {tool.name: tool for tool in reversed(vetted.listing.tools)}

    def suspect(self, line: str) -> bool:
        """Note what looked like an attempt to instruct the model; `True` when it is news. The newest few are kept."""
        is_news = line not in self._suspicions
        self._suspicions = [*(known for known in self._suspicions if known != line), line][-MAX_SUSPICIONS:]
        return is_news

    def exposed_tools(self) -> tuple[ToolInfo, ...]:
        """The tools that the entry's own settings and the pins let through, in the server's order."""
        config = self.entry.config
        if self.listing is None or config is None or self.admission is not Admission.ADMITTED:
            return ()
        return tuple(t for t in self.listing.tools if config.offers(t.name) and t.name not in self.held_back)

    def exposed_listing(self) -> ToolListing:
        """The newest listing with only the exposed tools in it."""
        listing = self.listing or ToolListing(self.name, ())
        return replace(listing, tools=self.exposed_tools())

    def info(self) -> ServerInfo | None:
        """What the server said of itself, once a session was open."""
        return self.client.snapshot().server_info if self.client else None

    def definition(self, tool: str) -> ToolInfo | None:
        """The tool as the newest list has it: permission, order and retry go by that, not by what it once was."""
        return self._listed.get(tool)

    def offers(self, tool: str) -> bool:
        """Whether a call of this tool makes sense now; unknown before the first list, so `True`."""
        config = self.entry.config
        if config is None or not config.offers(tool) or tool in self.held_back:
            return False
        return self.listing is None or tool in self._listed

    def call_timeout(self, tool: str) -> float | None:
        """The deadline the file sets for this tool in seconds, `None` for the server's."""
        return None if self.entry.config is None else self.entry.config.tool(tool).call_timeout_s

    def status(self, count_tokens: Callable[[str], int] | None = None) -> ServerStatus:
        """A snapshot; touches nothing."""
        exposed = self.exposed_tools()
        status = ServerStatus(
            name=self.name,
            scope=self.entry.scope,
            admission=self.admission,
            transport=self.entry.config.transport if self.entry.config else None,
            source=self.entry.path,
            message=self.reason or self.problem,
            last_error=self.problem,
            last_error_at=self.problem_at,
            tools_total=len(self.listing.tools) if self.listing else 0,
            tools_exposed=len(exposed),
            context_tokens=count_tokens(self.name) if count_tokens else 0,
            warnings=self._warnings(),
        )
        if self.client is None:
            return status
        snapshot = self.client.snapshot()
        connected = snapshot.state is ClientState.CONNECTED
        return replace(
            status,
            state=snapshot.state,
            message=self.reason or self.problem or (None if connected else snapshot.last_error) or self._waiting(),
            last_error=snapshot.last_error or self.problem,
            last_error_at=snapshot.last_error_at or self.problem_at,
            attempts=snapshot.attempts,
            breaker=snapshot.breaker_state,
            retry_after=snapshot.retry_after,
            connected_since=snapshot.connected_since,
            server_info=snapshot.server_info,
            pid=snapshot.pid,
            stderr_tail=snapshot.stderr_tail,
        )

    def _waiting(self) -> str | None:
        return f"{self.name}: still waiting for its tools" if self.loading.is_running else None

    def _warnings(self) -> tuple[str, ...]:
        of_list = self.listing.problems if self.listing else ()
        of_entry = tuple(str(d) for d in self.entry.diagnostics if d.severity != "note")
        return (*of_entry, *of_list, *self.warnings, *self._suspicions)
