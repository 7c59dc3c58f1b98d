"""The lists of one server: walks over their pages, and the tool list that callers share.

Policy: callers at the same time share one walk; whoever wants a refresh gets a walk that began after it asked. A list
that changed while it was read is read again at once, a few times; `list_changed` and a new session bring the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from codebuddy_mcp_tools.client.asking import Asker
from codebuddy_mcp_tools.client.cache import ToolCache
from codebuddy_mcp_tools.client.faults import ErrorTexts
from codebuddy_mcp_tools.client.link import Link
from codebuddy_mcp_tools.client.listing import Walk, all_pages, read_tools
from codebuddy_mcp_tools.client.peer import METHOD_NOT_FOUND
from codebuddy_mcp_tools.client.transport import ConnectionSpec
from codebuddy_mcp_tools.client.values import EventKind
from codebuddy_mcp_tools.errors import MCPToolsError, ProtocolError
from codebuddy_mcp_tools.types import JSON, ClientState, ToolListing

_RELISTS = 3
"""How often a list is asked for at once because it changed while it was being read."""


class Lists:
    """Asks for the lists of one client. Lives on the owner loop.

    Args:
        announce: tells of `tools_changed` and of `error`.
    """

    def __init__(
        self,
        spec: ConnectionSpec,
        link: Link,
        asker: Asker,
        cache: ToolCache,
        texts: ErrorTexts,
        *,
        announce: Callable[[EventKind, str], None],
    ) -> None:
        self._spec = spec
        self._link = link
        self._asker = asker
        self._cache = cache
        self._texts = texts
        self._announce = announce
        self._running: asyncio.Task[ToolListing] | None = None

    async def close(self) -> None:
        """End the walk that runs; those who wait for it are told."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def walk(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Walk:
        """Every page of one list; an empty one when the server knows no such method.

        Raises:
            As `MCPClient.call_tool`.
        """
        deadline = time.monotonic() + self._spec.timeouts.list

        async def page(params: dict[str, Any] | None) -> JSON:
            left = max(deadline - time.monotonic(), 0.0)
            return await self._asker.ask(
                method, params, what=method, timeout=left, replayable=True, headers=headers, is_call=False
            )

        try:
            await self._asker.connect()  # with its own deadline, before the list's begins
            deadline = time.monotonic() + self._spec.timeouts.list
            return await all_pages(page, key, dict(meta) if meta else None)
        except ProtocolError as error:
            if error.code == METHOD_NOT_FOUND:
                return Walk()
            raise

    async def tools(
        self, refresh: bool, headers: Mapping[str, str] | None, meta: Mapping[str, Any] | None
    ) -> ToolListing:
        """The tool list: the walk that is under way or a new one; see `MCPClient.list_tools`."""
        running = self._running
        if running is not None and refresh:
            # What is under way may have been answered before the caller asked.
            await asyncio.wait({running})
            running = self._running
        if running is None:
            work = self._fetch_tools(headers, meta)
            running = asyncio.get_running_loop().create_task(work, name=f"mcp-list:{self._spec.name}")
            self._running = running
            running.add_done_callback(self._done)
        await asyncio.wait({running})
        if running.cancelled():
            raise self._texts.closed()
        return running.result()

    def _done(self, task: asyncio.Task[ToolListing]) -> None:
        if self._running is task:
            self._running = None
        if not task.cancelled():
            task.exception()  # those who wait have it; without any, nobody needs it

    async def _fetch_tools(self, headers: Mapping[str, str] | None, meta: Mapping[str, Any] | None) -> ToolListing:
        before = self._cache.listing
        for _ in range(_RELISTS):
            await self._asker.connect()  # a new session makes lists stale, but not the one it is asked for
            epoch = self._cache.epoch
            walk = await self.walk("tools/list", "tools", headers, meta)
            listing = self._cache.store(*read_tools(self._spec.name, walk), epoch=epoch)
            if epoch == self._cache.epoch:
                break
        if before is not None and listing is not before:
            self._announce("tools_changed", f"{self._spec.name}: the tool list has changed")
        return listing

    async def relist(self) -> None:
        """After `list_changed` or a new session: somebody has used the list before, so keep it true."""
        if self._cache.listing is None or self._cache.fresh is not None or self._link.closed:
            return
        if self._link.state is not ClientState.CONNECTED:
            return
        try:
            await self.tools(False, None, None)
        except MCPToolsError as error:
            self._announce("error", str(error))
