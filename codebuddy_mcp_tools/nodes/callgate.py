"""First in, first out: the order of a turn where each call arrives by itself, as in `create_agent`.

A call waits for every earlier call that is still open, unless both only read and nothing else stands between them.
Calls that are refused before they arrive never queue, so nobody waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class _Ticket:
    read_only: bool
    done: Future[None] = field(default_factory=Future)


class CallGate:
    """One turn's gate; used from threads and from loops alike."""

    def __init__(self) -> None:
        self._open: list[_Ticket] = []
        self._lock = threading.Lock()

    @contextmanager
    def enter(self, *, read_only: bool) -> Iterator[None]:
        """Wait for one's turn, and hold the place while the block runs."""
        ticket, blockers = self._take(read_only)
        try:
            wait(blockers)
            yield
        finally:
            self._leave(ticket)

    @asynccontextmanager
    async def aenter(self, *, read_only: bool) -> AsyncIterator[None]:
        """The same for a loop; a cancelled wait gives the place free."""
        ticket, blockers = self._take(read_only)
        try:
            if blockers:
                await asyncio.wait([asyncio.wrap_future(blocker) for blocker in blockers])
            yield
        finally:
            self._leave(ticket)

    def _take(self, read_only: bool) -> tuple[_Ticket, list[Future[None]]]:
        ticket = _Ticket(read_only)
        with self._lock:
            earlier = list(self._open)
            self._open.append(ticket)
        last_write = max((at for at, other in enumerate(earlier) if not other.read_only), default=-1)
        blocking = earlier[: last_write + 1] if read_only else earlier
        return ticket, [other.done for other in blocking]

    def _leave(self, ticket: _Ticket) -> None:
        with self._lock:
            self._open.remove(ticket)
        ticket.done.set_result(None)
