"""Waiting for one server's tool list: shared by all callers, and never longer than it helps.

The first load waits until the list is there, until the first attempt to connect has failed, or until the server's start
timeout; later attempts go on behind. Nobody waits again for a server that is known to be down, or for a load that has
taken too long already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from codebuddy_mcp_tools.client import apart

WAIT_SHARE, WAIT_SECONDS = 0.05, 0.5
"""Callers wait for the start timeout and a little more: the timeout itself should be what they hear of."""

Fetch = Callable[[], Coroutine[Any, Any, None]]


class Loading:
    """The load of one server. Lives on the owner loop; `is_running` may be read from anywhere."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None] | None = None
        self._given_up: asyncio.Task[None] | None = None
        """The load that callers have waited for long enough."""

    @property
    def is_running(self) -> bool:
        """Whether a load is under way."""
        return self._task is not None and not self._task.done()

    def attempt_failed(self) -> None:
        """An attempt to connect has failed: callers need not wait for the rest of the cycle."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_result(None)

    async def fresh(self, fetch: Fetch) -> None:
        """Fetch anew and wait for the end; what is under way was asked for before."""
        if self.is_running and self._task is not None:
            await asyncio.wait({self._task})
        task, _ = self._begun(fetch)
        await asyncio.wait({task})

    async def join(self, fetch: Fetch, *, start_timeout: float) -> None:
        """Join the load under way or begin one, and wait for it within reason.

        Args:
            fetch: gets the list and keeps it; raises nothing.
            start_timeout: seconds the server has to start.
        """
        task, failed = self._begun(fetch)
        if task is self._given_up:
            return
        patience = start_timeout + max(WAIT_SHARE * start_timeout, WAIT_SECONDS)
        settled, _ = await asyncio.wait({task, failed}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not settled:
            self._given_up = task

    def begin(self, fetch: Fetch) -> None:
        """Join or begin without waiting."""
        self._begun(fetch)

    def _begun(self, fetch: Fetch) -> tuple[asyncio.Task[None], asyncio.Future[None]]:
        if self._task is None or self._failed is None or self._task.done():
            self._failed = asyncio.get_running_loop().create_future()
            self._task = apart(fetch())
        return self._task, self._failed

    def cancel(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()
