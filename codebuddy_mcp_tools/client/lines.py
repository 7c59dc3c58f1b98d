"""Bytes from a pipe to lines, in linear time and bounded memory; and what a line that cannot be read still tells."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

MAX_LINE = 16 << 20
"""Bytes of one message on stdout. More is skipped, and the request it answers fails; the session goes on."""
_EDGE = 512
"""Bytes kept of the start and the end of a line that is too long."""

_BOM = b"\xef\xbb\xbf"
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,64}")'
_VERSION = rb'"jsonrpc"\s*:\s*"[^"]{0,8}"'
# Only the places where serializers put the id of the message itself: a nested "id" is somebody else's.
_ID_IN_FRONT = re.compile(rb"^\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID)
_ID_AT_END = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*$")
_METHOD = re.compile(rb'^\s*\{[^{}\[\]]{0,200}"method"\s*:')


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line longer than the limit: its first and last bytes."""

    head: bytes
    tail: bytes


class LineSplitter:
    """Feed it what was read; it gives back the complete lines, without their line feed."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None
        self._tail = b""

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines that end in `data`."""
        *ended, rest = data.split(b"\n")
        lines = [self._finish(piece) for piece in ended]
        if rest:
            self._hold(rest)
        return lines

    def flush(self) -> list[bytes | Oversized]:
        """The last line, if it has no line feed."""
        return [self._finish(b"")] if self._size else []

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._head is not None:
            self._tail = (self._tail + piece)[-_EDGE:]
            return
        self._parts.append(piece)
        if self._size > self._limit:
            self._head = b"".join(self._parts[:_EDGE])[:_EDGE]
            self._tail = piece[-_EDGE:]
            self._parts.clear()

    def _finish(self, piece: bytes) -> bytes | Oversized:
        if not self._size and len(piece) <= self._limit:
            return piece
        self._hold(piece)
        line = b"".join(self._parts) if self._head is None else Oversized(self._head, self._tail)
        self._parts.clear()
        self._size, self._head, self._tail = 0, None, b""
        return line


def parse_line(line: bytes) -> Any:
    """The JSON value of a line; a BOM and bytes that are not UTF-8 are put up with.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    line = line.removeprefix(_BOM)
    with contextlib.suppress(ValueError):
        return from_json(line)
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def answered_id(head: bytes, tail: bytes | None = None) -> int | str | None:
    """The id of the request that an unreadable line answers; `None` when it is no answer or cannot be told."""
    head = head.removeprefix(_BOM)
    if _METHOD.match(head):
        return None
    found = _ID_IN_FRONT.match(head) or _ID_AT_END.search(head if tail is None else tail)
    if found is None:
        return None
    value: int | str = json.loads(found[1])
    return value


def looks_like_message(line: bytes) -> bool:
    """Whether somebody meant this to be JSON-RPC, not a banner."""
    return line.removeprefix(_BOM).lstrip()[:1] == b"{"
