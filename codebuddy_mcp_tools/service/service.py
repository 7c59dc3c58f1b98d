"""`MCPService`: the straight line from a server's name to its session, and the loading of many at the same time."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from codebuddy_mcp_tools.client import ClientEvent, MCPClient, OwnerLoop, ServerHandlers
from codebuddy_mcp_tools.config import Configuration, Settings
from codebuddy_mcp_tools.errors import (
    MCPToolsError,
    ToolDeniedError,
)
from codebuddy_mcp_tools.policy import (
    Redactor,
    clean_line,
    may_replay,
    watch_logs,
)
from codebuddy_mcp_tools.service.admission import ApprovalHandler
from codebuddy_mcp_tools.service.recorder import Recorder
from codebuddy_mcp_tools.service.registry import ServerRegistry
from codebuddy_mcp_tools.service.server import MAIN_SESSION, ClientFactory, ConfiguredServer
from codebuddy_mcp_tools.service.sessions import Sessions
from codebuddy_mcp_tools.service.vetting import Vetted, quoted, suspicion, vet
from codebuddy_mcp_tools.types import (
    Admission,
    CallResult,
    PromptInfo,
    PromptMessage,
    ResourceContent,
    ResourceInfo,
    Scope,
    ServerStatus,
    ToolInfo,
    ToolListing,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")


class MCPService:
    """Many MCP servers behind one object. Its methods may be called from any loop and any thread.

    Args:
        configuration: what `load_configuration` made of the files and of the servers given in code.
        state_dir: where approvals, pins and tokens are kept.
        approval_handler: asked about servers that wait for approval; without one they stay pending.
        handlers: answers to what servers ask for (elicitation, sampling, roots); `None` advertises nothing.
        environ: values for `${VAR}`; default `os.environ`.
        make_client: makes a session's client; for tests and other SDKs.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        state_dir: Path,
        approval_handler: ApprovalHandler | None = None,
        handlers: ServerHandlers | None = None,
        environ: Mapping[str, str] | None = None,
        make_client: ClientFactory | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.redactor = Redactor()
        watch_logs(self.redactor)
        self._loop = OwnerLoop.shared()
        self._listeners: list[Callable[[ClientEvent], None]] = []
        self._registry = ServerRegistry(
            configuration, state_dir=state_dir, redactor=self.redactor, approval_handler=approval_handler
        )
        self._sessions = Sessions(
            self._registry,
            self._loop,
            redactor=self.redactor,
            environ=dict(os.environ if environ is None else environ),
            state_dir=state_dir,
            handlers=handlers or ServerHandlers(),
            on_event=self._on_event,
            make_client=make_client,
        )

    # -- configuration -------------------------------------------------------------------------------------------

    async def reconfigure(self, configuration: Configuration) -> tuple[str, ...]:
        """Put a changed configuration in force. Sessions of unchanged servers go on.

        Returns:
            The names of the servers whose entry came, went or changed.
        """
        before = dict(self._registry.servers)
        await asyncio.to_thread(self._registry.adopt, configuration)
        changed = [
            n for n in {**before, **self._registry.servers} if before.get(n) is not self._registry.servers.get(n)
        ]
        await self._loop.run(self._sessions.close([before[n] for n in changed if n in before]))
        for name in changed:
            self._announce(ClientEvent(kind="tools_changed", server=name, message="configuration changed"))
        return tuple(changed)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._registry.configuration

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._registry.configuration.settings

    @property
    def audit(self) -> Recorder:
        """Where events and calls are recorded."""
        return self._registry.audit

    @property
    def names(self) -> tuple[str, ...]:
        """All configured servers, in the order of the configuration."""
        return tuple(self._registry.servers)

    @property
    def servers(self) -> tuple[ConfiguredServer, ...]:
        """The records of all configured servers, in the order of the configuration."""
        return tuple(self._registry.servers.values())

    def server(self, name: str) -> ConfiguredServer:
        """The record of one server.

        Raises:
            UnknownServerError: nothing configures that name.
        """
        return self._registry.server(name)

    def current(self, tool: ToolInfo) -> ToolInfo:
        """The tool's newest definition; the given one when its server or its name is gone."""
        server = self._registry.servers.get(tool.server)
        return (server.definition(tool.name) if server is not None else None) or tool

    def subscribe(self, listener: Callable[[ClientEvent], None]) -> Callable[[], None]:
        """Call `listener` for every event of every server, on the owner loop; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _announce(self, event: ClientEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    # -- sessions ------------------------------------------------------------------------------------------------

    async def _on_event(self, event: ClientEvent) -> None:
        """Runs on the owner loop, in the client's worker, never inside a receive loop."""
        server = self._registry.servers.get(event.server)
        if server is None:
            return
        if event.kind == "error":
            self._note_failure(server, event.message)
        if event.kind in {"connected", "tools_changed"} and server.client is not None:
            listing = server.client.cached_tools()
            if listing is not None:
                await self._adopt_listing(server, listing)
        if event.kind != "log":
            self.audit.write(event.kind, server=event.server, message=event.message)
        self._announce(event)

    def _note_failure(self, server: ConfiguredServer, message: str) -> None:
        line = clean_line(self.redactor.redact(message), 600)
        if server.fail(line):
            logger.warning("%s", line)

    # -- lists ---------------------------------------------------------------------------------------------------

    async def list_tools(self, server: str | None = None, *, refresh: bool = False) -> tuple[ToolListing, ...]:
        """What the enabled, approved servers offer, in the order of the configuration.

        All servers connect at the same time, and concurrent callers share one load. A server that fails is left out
        (or answers with its last known list) and its status says why: nothing is raised for it. The wait for a
        server ends with its first failed attempt or its start timeout; later attempts go on behind and announce
        themselves.

        Raises:
            UnknownServerError: `server` names nothing that is configured.
        """
        names = self.names if server is None else (self.server(server).name,)
        await asyncio.gather(*(self._registry.admit(self._registry.servers[n]) for n in names))
        self._registry.tell_pending()
        await self._loop.run(
            self._load_all([self._registry.servers[n] for n in names if n in self._registry.servers], refresh=refresh)
        )
        known = (self._registry.servers[n] for n in names if n in self._registry.servers)
        return tuple(s.exposed_listing() for s in known if s.listing)

    async def _load_all(self, servers: Iterable[ConfiguredServer], *, refresh: bool) -> None:
        admitted = [s for s in servers if s.admission is Admission.ADMITTED]
        await asyncio.gather(*(self._load(s, refresh=refresh) for s in admitted))

    async def _load(self, server: ConfiguredServer, *, refresh: bool) -> None:
        def fetch() -> Coroutine[Any, Any, None]:
            return self._fetch(server, refresh=refresh)

        if refresh:
            await server.loading.fresh(fetch)
        elif server.is_down:
            server.loading.begin(fetch)
        else:
            config = server.entry.config
            limit = (config.start_timeout_s if config else None) or self.settings.start_timeout_ms / 1000
            await server.loading.join(fetch, start_timeout=limit)

    async def _fetch(self, server: ConfiguredServer, *, refresh: bool) -> None:
        try:
            listing = await self._sessions.client(server).list_tools(refresh=refresh)
        except MCPToolsError as error:
            self._note_failure(server, str(error))
            return
        server.problem = None
        await self._adopt_listing(server, listing)

    async def _adopt_listing(self, server: ConfiguredServer, listing: ToolListing) -> None:
        async with server.adopting:
            if listing is server.listing and not server.held_back:  # what is held back may have been accepted since
                return
            pins = None if server.entry.scope is Scope.CODE else self._registry.pins
            blocks = self.settings.pin_policy == "block"
            found = await asyncio.to_thread(vet, listing, server.info(), pins, blocks=blocks)
            is_news = listing is not server.listing or found.warnings != server.warnings
            server.adopt(found)
        if is_news:
            self._tell_findings(server, found)

    def _tell_findings(self, server: ConfiguredServer, found: Vetted) -> None:
        for line in (*found.listing.problems, *found.warnings):
            logger.warning("server %r: %s", server.name, line)
        for line in found.pins:
            self.audit.write("pin", server=server.name, message=line)
        for tool, signals in found.signals.items():
            self.audit.write("signal", server=server.name, tool=tool, signals=signals)

    def note_signals(self, tool: ToolInfo, signals: tuple[str, ...]) -> None:
        """Keep for the status, and log, that a result of this tool looked like an attempt to instruct the model."""
        line = suspicion(f"a result of tool {quoted(tool.name)}", signals)
        server = self._registry.servers.get(tool.server)
        if server is None or server.suspect(line):
            logger.warning("server %r: %s", tool.server, line)

    # -- calls ---------------------------------------------------------------------------------------------------

    async def call(
        self,
        tool: ToolInfo,
        arguments: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
        on_progress: Callable[[float, float | None, str | None], None] | None = None,
        session: str = MAIN_SESSION,
    ) -> CallResult:
        """Call one tool on its server; one hop to the owner loop.

        A lost call is sent again only if it never left, or if the tool is read-only or idempotent by its own hint.

        Raises:
            UnknownServerError, ConfigError, ServerNotApprovedError: the server cannot be used any more.
            ToolDeniedError: the tool is no longer offered, or is held back because its definition changed.
            ServerError: one of its kinds, see `MCPClient.call_tool`.
        """
        server = self.server(tool.server)
        client = self._sessions.client(server, session)
        if not server.offers(tool.name):
            held = tool.name in server.held_back
            why = "is held back: its definition changed after approval" if held else "is no longer offered"
            raise ToolDeniedError(
                f"tool {tool.name!r} {why} by server {server.name!r}", server=server.name, tool=tool.name
            )
        return await client.call_tool(
            tool.name,
            arguments,
            timeout=server.call_timeout(tool.name),
            replayable=may_replay(tool) and may_replay(self.current(tool)),
            headers=headers,
            meta=meta,
            on_progress=on_progress,
        )

    async def prompts(self, server: str | None = None) -> tuple[PromptInfo, ...]:
        """The prompts of one or all servers; servers that fail or offer none are left out."""
        return await self._collect(server, "prompts", lambda client: client.list_prompts())

    async def resources(self, server: str | None = None) -> tuple[ResourceInfo, ...]:
        """The resources and templates of one or all servers; servers that fail or offer none are left out."""
        return await self._collect(server, "resources", lambda client: client.list_resources())

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        """Render one prompt. Raises as `call` does."""
        return await self._sessions.client(self.server(server)).get_prompt(name, arguments)

    async def read_resource(self, server: str, uri: str) -> tuple[ResourceContent, ...]:
        """Read one resource. Raises as `call` does."""
        return await self._sessions.client(self.server(server)).read_resource(uri)

    async def _collect(
        self, server: str | None, what: str, ask: Callable[[MCPClient], Coroutine[Any, Any, tuple[T, ...]]]
    ) -> tuple[T, ...]:
        await self.list_tools(server)  # connects what is to be connected, with its patience and its isolation
        chosen = self._registry.servers.values() if server is None else (self.server(server),)
        usable = [s for s in chosen if s.client is not None and not s.is_down and s.client.offers(what)]
        answers = await asyncio.gather(*(self._try(s, ask) for s in usable))
        return tuple(item for answer in answers for item in answer)

    async def _try(
        self, server: ConfiguredServer, ask: Callable[[MCPClient], Coroutine[Any, Any, tuple[T, ...]]]
    ) -> tuple[T, ...]:
        try:
            return await ask(self._sessions.client(server))
        except MCPToolsError as error:
            logger.warning("%s", clean_line(self.redactor.redact(str(error)), 600))
            return ()

    # -- state and end -------------------------------------------------------------------------------------------

    def status(self, count_tokens: Callable[[str], int] | None = None) -> list[ServerStatus]:
        """One snapshot for each configured server; touches none of them."""
        return [server.status(count_tokens) for server in self._registry.servers.values()]

    def reset_breaker(self, server: str) -> None:
        """Let calls through again at once."""
        for client in self.server(server).clients.values():
            client.breaker.reset()

    def run_sync(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of ours from synchronous code, on the owner loop."""
        return self._loop.run_sync(coroutine)

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine of ours on the owner loop without waiting for it."""
        self._loop.spawn(coroutine)

    def abandon(self) -> None:
        """`aclose` for a finalizer, which may run in any thread, inside any call: waits for nothing, locks nothing."""
        if self._loop.running:
            self._loop.spawn(self._sessions.close())

    async def aclose(self) -> None:
        """End every session and process. May be called twice, and from anywhere; a later call connects anew."""
        await self._loop.run(self._sessions.close())
        await asyncio.wrap_future(self.audit.flushed())
