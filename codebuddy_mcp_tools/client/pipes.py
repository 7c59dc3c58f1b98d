"""The ends of a child's pipes on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class OutputPipe(asyncio.Protocol):
    """A pipe that we read; `ended` is resolved at its end."""

    def __init__(self, take: Callable[[bytes], None], at_end: Callable[[], None]) -> None:
        self._take = take
        self._at_end = at_end
        self._transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if not self.ended.done():
            self.ended.set_result(None)
            self._at_end()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.close()


class InputPipe(asyncio.BaseProtocol):
    """The pipe that we write. It holds at most one unfinished message."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: asyncio.Future[bool] | None = None
        self._lost = False
        self.is_drained = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=0)  # so that "paused" means "something has not left yet"

    def pause_writing(self) -> None:
        self.is_drained = False

    def resume_writing(self) -> None:
        self.is_drained = True
        self._wake(True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._transport = None
        self._wake(False)
        self._at_end()

    def write(self, data: bytes) -> bool:
        """Write at once what fits; `False` when nothing of it can leave any more."""
        if self._transport is None or self._lost or self._transport.is_closing():
            return False
        self._transport.write(data)
        # The first write of an empty buffer is made at once, and a broken pipe shows in this.
        return not self._transport.is_closing()

    async def drained(self) -> bool:
        """Wait until everything has left; `False` when it never will."""
        if self._lost:
            return False
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        waiting = self._waiting
        await asyncio.wait({waiting})
        return waiting.result()

    def _wake(self, has_left: bool) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set_result(has_left)

    def close(self) -> None:
        """End the input; what has not left is dropped when the pipe is stuck."""
        if self._transport is None:
            return
        if self.is_drained:
            self._transport.close()
        else:
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
