"""`MCPClient`: one server, whatever state it is in.

Policy: every public coroutine may be awaited from any loop and any thread, and crosses to the owner loop once;
`asking.py` has the straight line of one request. What is read from outside (state, snapshot, cached tools) touches
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from codebuddy_mcp_tools.client.asking import Asker
from codebuddy_mcp_tools.client.backoff import Sleep
from codebuddy_mcp_tools.client.breaker import CircuitBreaker
from codebuddy_mcp_tools.client.cache import ToolCache
from codebuddy_mcp_tools.client.faults import ErrorTexts
from codebuddy_mcp_tools.client.inbox import Inbox
from codebuddy_mcp_tools.client.link import Link
from codebuddy_mcp_tools.client.listing import read_prompts, read_resources, shown
from codebuddy_mcp_tools.client.lists import Lists
from codebuddy_mcp_tools.client.loop import OwnerLoop
from codebuddy_mcp_tools.client.opening import opener_for
from codebuddy_mcp_tools.client.pending import OnProgress
from codebuddy_mcp_tools.client.results import read_call_result, read_prompt_messages, read_resource_contents
from codebuddy_mcp_tools.client.session import Session
from codebuddy_mcp_tools.client.transport import ConnectionSpec, Opener
from codebuddy_mcp_tools.client.values import ClientEvent, ClientSnapshot, EventKind, ServerHandlers
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.types import (
    JSON,
    CallResult,
    CircuitState,
    ClientState,
    PromptInfo,
    PromptMessage,
    ResourceContent,
    ResourceInfo,
    ServerInfo,
    ToolListing,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")


class MCPClient:
    """A client for one server. Constructing it starts nothing; the first call, list or `connect` does.

    Args:
        spec: the server, expanded, with its limits.
        redactor: takes known secrets out of every text.
        loop: where the sessions live; default the shared one.
        on_event: gets every `ClientEvent`, on the owner loop, one after another; may be a coroutine function.
        handlers: who answers what the server asks for.
        environ: what stands for our own environment when a process is started; default `os.environ`.
        opener: opens channels in place of the spec's transport; for tests and transports of one's own.
        clock: monotonic seconds. sleep: waits between attempts. Both for tests.
    """

    def __init__(
        self,
        spec: ConnectionSpec,
        *,
        redactor: Redactor | None = None,
        loop: OwnerLoop | None = None,
        on_event: Callable[[ClientEvent], Any] | None = None,
        handlers: ServerHandlers | None = None,
        environ: Mapping[str, str] | None = None,
        opener: Opener | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.spec = spec
        self._redactor = redactor or Redactor()
        self._loop = loop or OwnerLoop.shared()
        self._on_event = on_event
        self._handlers = handlers or ServerHandlers()
        self._opener = opener or opener_for(spec, self._redactor, environ)
        self._clock = clock
        self._sleep = sleep
        self._texts = ErrorTexts(spec.name, self._redactor)
        self._cache = ToolCache(spec.name, spec.cache_ttl, clock)
        self._left_by_parent: list[object] = []
        self._set_up()

    def _set_up(self) -> None:
        """What belongs to one process: made anew in a forked child."""
        spec = self.spec
        self.breaker = CircuitBreaker(
            threshold=spec.breaker_threshold,
            cooldown=spec.breaker_cooldown,
            clock=self._clock,
            name=spec.name,
            on_change=self._breaker_changed,
        )
        self._epoch = self._loop.epoch
        self._link = Link(
            spec,
            self.breaker,
            self._new_session,
            describe=self._texts.of_fault,
            announce=self._announce,
            clock=self._clock,
            sleep=self._sleep,
        )
        self._asker = Asker(spec, self._link, self.breaker, self._texts)
        self._lists = Lists(spec, self._link, self._asker, self._cache, self._texts, announce=self._announce)
        self._inbox = Inbox(
            spec.name,
            self._handlers,
            self._redactor,
            on_event=self._on_event,
            on_over=self._link.session_over,
            on_tools_changed=self._cache.invalidate,
            relist=self._lists.relist,
            sleep=self._sleep,
        )

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The server's name, as configured."""
        return self.spec.name

    @property
    def state(self) -> ClientState:
        """The state now."""
        return self._link.state

    def cached_tools(self) -> ToolListing | None:
        """The newest tool list, fresh or not; touches nothing."""
        return self._cache.listing

    def offers(self, capability: str) -> bool:
        """Whether the server announced `tools`, `prompts`, `resources` …; `False` while nothing is known."""
        info = self._link.info
        return info is not None and capability in info.capabilities

    def snapshot(self) -> ClientSnapshot:
        """Everything there is to know, at this moment; touches nothing and waits for nothing."""
        return self._link.snapshot()

    # -- sessions ------------------------------------------------------------------------------------------------

    async def connect(self) -> ServerInfo:
        """Make sure there is a session: join a running connection cycle, or start one.

        Raises:
            ConnectError: the cycle failed. BlockedURLError: the address is refused.
            CircuitOpenError: nothing was tried.
        """
        return await self._on_owner(self._asker.connect)

    async def ping(self, timeout: float = 5.0) -> None:
        """Ask whether the server is there.

        Raises:
            CallTimeoutError: no answer within `timeout` seconds. The rest as `call_tool`.
        """
        await self._on_owner(lambda: self._asker.ask("ping", None, what="ping", timeout=timeout, replayable=True))

    async def aclose(self) -> None:
        """End the session and its process, and everything that waits for it. From anywhere, twice, in any order."""
        await self._on_owner(self._close)

    # -- tools ---------------------------------------------------------------------------------------------------

    async def list_tools(
        self,
        *,
        refresh: bool = False,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ToolListing:
        """The server's tools, all pages: from the cache while that is fresh. Callers at the same time share one walk.

        Args:
            refresh: ask the server, whatever the cache says.
            headers: HTTP headers for these requests.
            meta: `_meta` for these requests.

        Raises:
            As `call_tool`.
        """
        fresh = None if refresh else self._cache.fresh
        if fresh is not None:
            return fresh
        return await self._on_owner(lambda: self._lists.tools(refresh, headers, meta))

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        replayable: bool = False,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> CallResult:
        """Call one tool.

        A request that provably never left is sent once more on a new connection; one that may have run only when
        `replayable`. A cancelled or timed-out call tells the server so, and the session goes on.

        Args:
            tool: the server's own name for it.
            timeout: seconds for the answer, default the server's; connecting has its own deadline.
            replayable: running it twice does no harm (read-only or idempotent).
            headers: HTTP headers for this call; stdio has none.
            meta: `_meta` of the request.
            on_progress: gets `(progress, total, message)` on the owner loop; it must return at once.

        Raises:
            ConnectError, BlockedURLError: no session. CircuitOpenError: nothing was tried.
            ConnectionLostError: the session ended; `sent` says whether it may have run.
            CallTimeoutError: no answer in time; it may have run.
            ProtocolError: an error answer, an unreadable answer (`ran`), or arguments that are no JSON.
        """

        if self._cache.has_vanished(tool):
            raise self._texts.vanished(tool)
        params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        started = time.perf_counter()
        result = await self._on_owner(
            lambda: self._asker.ask(
                "tools/call",
                params,
                what=f"tool {tool[:80]!r}",
                timeout=self.spec.timeouts.call if timeout is None else timeout,
                replayable=replayable,
                headers=headers,
                on_progress=on_progress,
            )
        )
        return read_call_result(result, (time.perf_counter() - started) * 1000)

    # -- prompts and resources -----------------------------------------------------------------------------------

    async def list_prompts(self) -> tuple[PromptInfo, ...]:
        """The server's prompts; none when it has no such thing. Raises as `call_tool`."""
        walk = await self._on_owner(lambda: self._lists.walk("prompts/list", "prompts"))
        return read_prompts(self.name, walk.entries)

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> tuple[PromptMessage, ...]:
        """Render one prompt. Raises as `call_tool`."""
        what = f"prompt {shown(name)}"
        result = await self._ask_once("prompts/get", {"name": name, "arguments": dict(arguments or {})}, what)
        return self._read(read_prompt_messages, result, what)

    async def list_resources(self) -> tuple[ResourceInfo, ...]:
        """The server's resources, then its resource templates. Raises as `call_tool`."""
        plain = await self._on_owner(lambda: self._lists.walk("resources/list", "resources"))
        templates = await self._on_owner(lambda: self._lists.walk("resources/templates/list", "resourceTemplates"))
        return (
            *read_resources(self.name, plain.entries, templates=False),
            *read_resources(self.name, templates.entries, templates=True),
        )

    async def read_resource(self, uri: str) -> tuple[ResourceContent, ...]:
        """Read one resource. Raises as `call_tool`."""
        what = f"resource {shown(uri)}"
        result = await self._ask_once("resources/read", {"uri": uri}, what)
        parts, left_out = self._read(read_resource_contents, result, what)
        if left_out:
            logger.warning(
                "server %r, %s: %d part(s) hold neither text nor base64, left out", self.name, what, left_out
            )
        return parts

    # -- inside --------------------------------------------------------------------------------------------------

    async def _on_owner(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._epoch is not self._loop.epoch:  # a forked child: what the parent opened is the parent's
            self._left_by_parent += [self._link, self._inbox, self._asker, self._lists]
            self._set_up()
        return await self._loop.run(work())

    async def _ask_once(self, method: str, params: dict[str, Any], what: str) -> JSON:
        timeout = self.spec.timeouts.call
        return await self._on_owner(
            lambda: self._asker.ask(method, params, what=what, timeout=timeout, replayable=True)
        )

    def _read(self, read: Callable[[JSON], T], result: JSON, what: str) -> T:
        try:
            return read(result)
        except ValueError as error:
            raise self._texts.garbled(str(error), what) from None

    def _new_session(self) -> Session:
        self._loop.add_closer(self._close)
        return Session(
            self.name,
            self._opener,
            self.spec.timeouts,
            capabilities=self._handlers.capabilities(),
            listener=self._inbox,
        )

    def _announce(self, kind: EventKind, message: str) -> None:
        if kind == "connected":
            self._cache.invalidate()
            if self._cache.listing is not None:
                self._inbox.list_again()
        self._inbox.announce(kind, message)

    def _breaker_changed(self, state: CircuitState) -> None:
        message = f"{self.name}: circuit breaker is {state.value.replace('_', ' ')}"

        async def announce() -> None:
            self._inbox.announce("breaker", message, state.value)

        if self._loop.is_current:
            self._inbox.announce("breaker", message, state.value)
        elif not self._loop.closed:
            self._loop.spawn(announce())

    async def _close(self) -> None:
        self._loop.discard_closer(self._close)
        await self._link.close()
        await self._lists.close()
        await self._asker.close()
        await self._inbox.close()
