"""The tasks of one channel over HTTP: each message on its own, all of them gone when the channel closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from codebuddy_mcp_tools.client.transport import RequestId
from codebuddy_mcp_tools.types import JSONObject

logger = logging.getLogger(__name__)


class Errands:
    """Starts tasks and keeps them until they are done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[RequestId, asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work`, which handles its own failures."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("an errand failed unexpectedly", exc_info=error)

    def start_request(self, request_id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        """Run the errand of one request of ours, so that `abandon` finds it."""
        task = self._requests[request_id] = self.start(work)
        task.add_done_callback(lambda _: self._requests.pop(request_id, None))

    def abandon(self, cancelled: JSONObject) -> None:
        """Stop the errand of the request that a `notifications/cancelled` of ours names: nobody waits for it."""
        params = cancelled.get("params")
        request_id = params.get("requestId") if isinstance(params, Mapping) else None
        task = self._requests.get(request_id) if isinstance(request_id, int | str) else None
        if task is not None:
            task.cancel()

    async def cancel(self) -> None:
        """Stop everything, and wait until it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
