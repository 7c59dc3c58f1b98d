"""One request that waits for its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from codebuddy_mcp_tools.types import JSON, JSONObject

logger = logging.getLogger(__name__)

_MAX_PROGRESS = 1000
"""Progress notifications that are passed on for one request; a flood is cut off."""

OnProgress = Callable[[float, float | None, str | None], None]
"""Gets progress, total and a message."""
Answer = tuple[JSON, Exception | None]
"""A result, or why there is none."""


class Pending:
    """A request that waits. `sent` once it has been written."""

    __slots__ = ("deadline", "future", "on_progress", "paused", "progress", "sent")

    def __init__(self, future: asyncio.Future[Answer], timeout: float, on_progress: OnProgress | None) -> None:
        self.future = future
        self.deadline = asyncio.timeout(timeout)
        self.paused = 0
        self.on_progress = on_progress
        self.progress = 0
        self.sent = False

    def settle(self, answer: Answer) -> None:
        """Wake whoever waits; the first answer counts."""
        if not self.future.done():
            self.future.set_result(answer)

    def tell_progress(self, params: JSONObject) -> None:
        """Pass on the parameters of a progress notification, if somebody listens."""
        if self.on_progress is None or self.progress >= _MAX_PROGRESS:
            return
        self.progress += 1
        done, total, note = params.get("progress"), params.get("total"), params.get("message")
        if not isinstance(done, int | float):
            return
        try:
            self.on_progress(
                done, total if isinstance(total, int | float) else None, note if isinstance(note, str) else None
            )
        except Exception:
            self.on_progress = None
            logger.exception("a listener for progress failed; it hears no more of this request")

    @property
    def has_answer(self) -> bool:
        # Interrupting whoever awaits a future cancels the future; one that has a result keeps it.
        return self.future.done() and not self.future.cancelled()
