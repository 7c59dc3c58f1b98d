"""Response bodies that cannot fill the memory: decoded here, counted while they are decoded.

A gzip body of 300 KB can hold 300 MB, and a library that decodes a chunk at a time holds all that one chunk expands to.
So servers are asked for gzip or nothing, bodies are decoded in pieces of at most `PIECE` bytes, and there is a limit.
Event streams live as long as the session does and have no total: `events.py` bounds each event of theirs.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

import httpx

MAX_BODY = 32 << 20
"""Bytes of one decoded body, and of one event of an event stream."""
PIECE = 64 << 10
ACCEPT_ENCODING = "gzip, identity"
_GZIP_WINDOW = zlib.MAX_WBITS | 16


class BodyRefusedError(httpx.DecodingError):
    """The body is larger than allowed, or encoded in a way that was not asked for. Its text is one line for people."""


class _Gunzip:
    """gzip (RFC 1952, several members too) in bounded pieces."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        full = False
        # A full piece may leave decoded bytes inside zlib although all input is taken: ask again, with nothing.
        while data or full:
            if self._inflate.eof and data:
                self._inflate = zlib.decompressobj(_GZIP_WINDOW)
            try:
                piece = self._inflate.decompress(data, PIECE)
            except zlib.error:
                raise BodyRefusedError("the body says it is gzip but is not") from None
            self._started = True
            full = len(piece) == PIECE
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail or self._inflate.unused_data

    def finish(self) -> None:
        if self._started and not self._inflate.eof:
            raise BodyRefusedError("the gzip body ends too early")


class BoundedBody(httpx.AsyncByteStream):
    """A response body, decoded; iterating it raises `BodyRefusedError` past `limit` decoded bytes.

    `limit=None` is for event streams.
    """

    def __init__(self, source: httpx.AsyncByteStream, *, gzip: bool, limit: int | None) -> None:
        self._source = source
        self._gunzip = _Gunzip() if gzip else None
        self._limit = limit
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._source:
            if self._gunzip is None:
                yield self._count(chunk)
            else:
                for piece in self._gunzip.feed(chunk):
                    yield self._count(piece)
        if self._gunzip is not None:
            self._gunzip.finish()

    def _count(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._limit is not None and self._size > self._limit:
            raise BodyRefusedError(f"the body is larger than {self._limit >> 20} MB")
        return piece

    async def aclose(self) -> None:
        await self._source.aclose()


def bounded(response: httpx.Response, limit: int = MAX_BODY) -> httpx.Response:
    """The same response with its body decoded and bounded.

    Raises:
        BodyRefusedError: before any of the body is read, for an encoding that was not asked for or a declared length
            over the limit. The response is then the caller's to close.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise BodyRefusedError(f"the body is encoded as {encoding[:20]!r}, which was not asked for")
    gzip = encoding.endswith("gzip")
    events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    declared = response.headers.get("content-length", "")
    if not events and declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise BodyRefusedError(f"the body is larger than {limit >> 20} MB")
    stream = response.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise TypeError("a response of an asynchronous transport has an asynchronous body")
    dropped = (b"content-encoding", b"content-length") if gzip else (b"content-encoding",)
    return httpx.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.raw if name.lower() not in dropped],
        stream=BoundedBody(stream, gzip=gzip, limit=None if events else limit),
        extensions=response.extensions,
    )
