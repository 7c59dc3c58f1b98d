"""The sessions of the servers: made when first needed, for admitted servers only, bounded in number, ended together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.client import ClientEvent, ConnectionSpec, MCPClient, OwnerLoop, ServerHandlers
from codebuddy_mcp_tools.errors import ConfigError, ServerNotApprovedError
from codebuddy_mcp_tools.policy import Redactor
from codebuddy_mcp_tools.service.registry import ServerRegistry
from codebuddy_mcp_tools.service.server import MAIN_SESSION, ClientFactory, ConfiguredServer, connection_spec
from codebuddy_mcp_tools.types import Admission

MAX_SESSIONS = 32
"""Sessions one server may have at the same time, where threads have their own; the one unused longest is closed."""


class Sessions:
    """Makes and ends the clients of a registry's servers.

    Args:
        registry: the servers, and the configuration in force.
        loop: where clients live.
        redactor: learns the secrets of every server that is connected.
        environ: values for `${VAR}`.
        state_dir: where tokens are kept.
        handlers: answers to what servers ask for.
        on_event: told of every client's events.
        make_client: makes a session's client; default `MCPClient`.
    """

    def __init__(
        self,
        registry: ServerRegistry,
        loop: OwnerLoop,
        *,
        redactor: Redactor,
        environ: Mapping[str, str],
        state_dir: Path,
        handlers: ServerHandlers,
        on_event: Callable[[ClientEvent], Awaitable[None]],
        make_client: ClientFactory | None = None,
    ) -> None:
        self._registry, self._loop = registry, loop
        self._redactor = redactor
        self._environ = environ
        self._state_dir = state_dir
        self._handlers = handlers
        self._on_event = on_event
        self._make_client = make_client or self._new_client
        self._lock = threading.Lock()

    def client(self, server: ConfiguredServer, session: str = MAIN_SESSION) -> MCPClient:
        """The client of one session.

        Raises:
            ConfigError: the server's entry is invalid.
            ServerNotApprovedError: the server is not admitted.
        """
        if server.admission is not Admission.ADMITTED:
            line = f"server {server.name!r}: {server.reason}"
            if server.admission is Admission.INVALID:
                raise ConfigError(line, path=server.entry.path, pointer=server.entry.pointer)
            raise ServerNotApprovedError(line, server=server.name)
        with self._lock:  # calls come from any thread, and two of them must not make two sessions
            client = server.clients.pop(session, None) or self._make_client(self._spec(server))
            server.clients[session] = client  # last in order: used last
            surplus = server.surplus(MAX_SESSIONS)
        for extra in surplus:
            self._loop.spawn(extra.aclose())
        return client

    def _new_client(self, spec: ConnectionSpec) -> MCPClient:
        return MCPClient(
            spec,
            redactor=self._redactor,
            loop=self._loop,
            on_event=self._on_event,
            handlers=self._handlers,
            environ=self._environ,
        )

    def _spec(self, server: ConfiguredServer) -> ConnectionSpec:
        configuration = self._registry.configuration
        return connection_spec(
            server.entry,
            configuration.settings,
            workspace=configuration.workspace,
            environ=self._environ,
            redactor=self._redactor,
            state_dir=self._state_dir,
        )

    async def close(self, servers: Iterable[ConfiguredServer] | None = None) -> None:
        """End every session and process of these servers, or of all."""
        closing: list[Coroutine[Any, Any, None]] = []
        for server in list(self._registry.servers.values()) if servers is None else servers:
            server.loading.cancel()
            closing += [client.aclose() for client in server.clients.values()]
            server.clients = {}
            server.problem = None
        await asyncio.gather(*closing)
