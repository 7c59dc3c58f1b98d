"""TCP and TLS for httpcore, straight on asyncio.

The backends that come with httpcore cost as much as the rest of a small request: cancel scopes and checkpoints for each
read, a system call for each look at an idle connection. Here that look is at two flags: the protocol hears of the end.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextvars import Context
from typing import Any

import httpcore

from codebuddy_mcp_tools.client.crossing import apart

_HIGH_WATER = 256 << 10
"""Bytes that may wait to be read before the peer is slowed down."""


class _Wire(asyncio.Protocol):
    """What has arrived, and who waits for more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.buffer = bytearray()
        self.ended = False
        self.failure: Exception | None = None
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > _HIGH_WATER and not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self.ended = True
        _wake(self._reader)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.failure = exc
        self._full = False
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    async def readable(self) -> None:
        """Wait until there is something to take, or the end."""
        if not self.buffer and not self.ended:
            self._reader = self._loop.create_future()
            await self._reader

    async def writable(self) -> None:
        """Wait until the peer has read enough of what was written."""
        if self._full:
            self._writer = self._loop.create_future()
            await self._writer

    def take(self, limit: int) -> bytes:
        """Up to `limit` bytes of what has arrived."""
        data = bytes(self.buffer[:limit])
        del self.buffer[: len(data)]
        if self._paused and len(self.buffer) < _HIGH_WATER // 2 and self.transport is not None:
            self._paused = False
            Context().run(self.transport.resume_reading)
        return data


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class SocketStream(httpcore.AsyncNetworkStream):
    """One connection. Raises httpcore's errors, as every network stream."""

    def __init__(self, transport: asyncio.Transport, wire: _Wire) -> None:
        self._transport = transport
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has arrived, at least one byte; `b""` at the end."""
        wire = self._wire
        if not wire.buffer and not wire.ended:
            if timeout is None:
                await wire.readable()
            else:
                await _in_time(wire.readable(), timeout, httpcore.ReadTimeout)
        if not wire.buffer and wire.failure is not None:
            raise httpcore.ReadError(str(wire.failure)) from wire.failure
        return wire.take(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send everything, at the pace of the peer."""
        if not buffer:
            return
        if self._transport.is_closing():
            raise httpcore.WriteError("the connection is closed") from self._wire.failure
        self._transport.write(buffer)
        await _in_time(self._wire.writable(), timeout, httpcore.WriteTimeout)

    async def aclose(self) -> None:
        """Close at once: asyncio would wait for the peer to read the rest, and to take its part in a TLS shutdown."""
        self._transport.abort()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """The same connection under TLS, its certificate checked against `server_hostname`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                transport = await apart(
                    loop.start_tls(self._transport, self._wire, ssl_context, server_hostname=server_hostname)
                )
        except TimeoutError as error:
            self._transport.abort()
            raise httpcore.ConnectTimeout("TLS was not agreed on in time") from error
        except OSError as error:  # ssl.SSLError is one
            self._transport.abort()
            raise httpcore.ConnectError(str(error)) from error
        if transport is None:
            raise httpcore.ConnectError("the connection was lost before TLS was agreed on")
        self._wire.transport = transport
        return SocketStream(transport, self._wire)

    def get_extra_info(self, info: str) -> Any:
        """See httpcore; `is_readable` of an idle connection means that it can serve no request any more."""
        if info == "is_readable":
            return bool(self._wire.buffer) or self._wire.ended
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._transport.get_extra_info(names.get(info, info))


async def _in_time(work: Any, timeout: float | None, late: type[Exception]) -> None:
    try:
        async with asyncio.timeout(timeout):
            await work
    except TimeoutError as error:
        raise late("timed out") from error


class AsyncioBackend(httpcore.AsyncNetworkBackend):
    """Opens `SocketStream`s."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See httpcore."""
        local = None if local_address is None else (local_address, 0)
        try:
            async with asyncio.timeout(timeout):
                transport, wire = await apart(
                    asyncio.get_running_loop().create_connection(_Wire, host, port, local_addr=local)
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpcore.ConnectError(error.strerror or str(error)) from error
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return SocketStream(transport, wire)

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await asyncio.sleep(seconds)
