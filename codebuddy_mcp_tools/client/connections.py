"""The kept connections of one transport, one list for each origin.

httpcore's own pool looks at every idle connection for every idle connection with each request: 32 of them cost more
than the request. Here the one that was used last is taken, and the oldest is looked at when one comes back.
"""

from __future__ import annotations

import functools
import ssl
from collections import deque
from collections.abc import Awaitable, Callable

import httpcore

MAX_IDLE = 32
Release = Callable[[], Awaitable[None]]
_Key = tuple[bytes, bytes, int]


class Connections:
    """Sends requests over kept or new connections. HTTP/1.1; a connection serves one request at a time.

    Args:
        backend: opens sockets.
        keepalive: seconds that an idle connection is kept.
    """

    def __init__(self, backend: httpcore.AsyncNetworkBackend, *, keepalive: float) -> None:
        self._backend = backend
        self._keepalive = keepalive
        self._idle: dict[_Key, deque[httpcore.AsyncHTTPConnection]] = {}
        self._used: set[httpcore.AsyncHTTPConnection] = set()

    async def send(
        self, request: httpcore.Request, ssl_context: ssl.SSLContext | None
    ) -> tuple[httpcore.Response, Release]:
        """One request. After the response is closed, its connection is to be released.

        Raises:
            httpcore's errors, and those of the backend.
        """
        origin = request.url.origin
        key = (origin.scheme, origin.host, origin.port)
        connection = await self._take(key) or httpcore.AsyncHTTPConnection(
            origin, ssl_context=ssl_context, keepalive_expiry=self._keepalive, network_backend=self._backend
        )
        self._used.add(connection)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await self._release(key, connection)
            raise
        return response, functools.partial(self._release, key, connection)

    async def _take(self, key: _Key) -> httpcore.AsyncHTTPConnection | None:
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _release(self, key: _Key, connection: httpcore.AsyncHTTPConnection) -> None:
        if connection not in self._used:
            return
        self._used.discard(connection)
        if not connection.is_idle():
            await connection.aclose()
            return
        idle = self._idle.setdefault(key, deque())
        idle.append(connection)
        while idle and (len(idle) > MAX_IDLE or idle[0].has_expired()):
            await idle.popleft().aclose()

    async def aclose(self) -> None:
        """Close everything, also what is in use."""
        connections = [*self._used, *(connection for idle in self._idle.values() for connection in idle)]
        self._used.clear()
        self._idle.clear()
        for connection in connections:
            await connection.aclose()
