"""Server-sent events (WHATWG HTML, section 9.2.6), parsed from bytes in bounded memory.

Written here because the parsers at hand split lines at characters that JSON may hold (U+2028, U+0085), or join a long
line again with every chunk, and none has a limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass

from codebuddy_mcp_tools.client.body import MAX_BODY, BodyRefusedError

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `retry` alone (in milliseconds), or `id` with empty data, is an event too: a priming event."""

    name: str = "message"
    data: bytes = b""
    id: str | None = None
    retry: int | None = None


class EventParser:
    """Feed it chunks; it gives back the events that are complete.

    Raises `BodyRefusedError` when one event is larger than `limit` bytes.
    """

    def __init__(self, limit: int = MAX_BODY) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0
        self._skip_newline = False
        self._start = True
        self._clear()

    def _clear(self) -> None:
        self._name = ""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif (event := self._event()) is not None:
                events.append(event)
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        # A CR at the end of one chunk and a LF at the start of the next are one line end.
        if self._skip_newline and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_newline = False
        if chunk.endswith(b"\r"):
            self._skip_newline = True
        lines: list[bytes] = []
        for piece in chunk.splitlines(keepends=True):
            self._count(len(piece))
            self._rest.append(piece)
            if piece.endswith((b"\n", b"\r")):
                lines.append(self._take_line())
        return lines

    def _take_line(self) -> bytes:
        line = b"".join(self._rest).rstrip(b"\r\n")
        self._rest.clear()
        if self._start:
            self._start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._size = 0
        return line

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise BodyRefusedError(f"one event is larger than {self._limit >> 20} MB")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _event(self) -> Event | None:
        event = Event(self._name or "message", b"\n".join(self._data), self._id, self._retry)
        self._clear()
        return None if event == Event() else event


async def parse_events(body: AsyncIterable[bytes], limit: int = MAX_BODY) -> AsyncIterator[Event]:
    """The events of `body`, in order; an event that the end of the stream cuts off is dropped, as the standard says."""
    parser = EventParser(limit)
    async for chunk in body:
        for event in parser.feed(chunk):
            yield event
