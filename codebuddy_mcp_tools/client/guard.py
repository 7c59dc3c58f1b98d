"""The only way out to HTTP: every address is checked where the connection is made.

Checking a URL and connecting later leaves a gap in which the name can resolve to something else, and rewriting the URL
to the checked address lets a pooled connection of one host answer for another. So the check sits in the network backend
of httpcore: it resolves once, refuses if *any* answer is refused, and connects to the addresses it has checked, while
pool key, Host header, SNI and certificate check keep the name. Redirects are not followed in here: each hop that
`origin.py` allows passes the same door.

Proxies, certificate variables and the like of the environment count only where the user asked for them (`trust_env`). A
proxy resolves names itself, so behind one only the URL is checked.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from codebuddy_mcp_tools.client.body import ACCEPT_ENCODING, MAX_BODY, BodyRefusedError, bounded
from codebuddy_mcp_tools.client.connections import Connections, Release
from codebuddy_mcp_tools.client.sockets import AsyncioBackend
from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import OutboundRules, Resolver, system_resolver

KEEPALIVE = 4.0
"""Seconds an idle connection is kept: uvicorn and node close theirs after 5; a request must not meet that moment."""
MAX_CONNECTIONS = 64
"""Connections to one proxy."""

_ERRORS: Mapping[type[Exception], type[httpx.TransportError]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.ProxyError: httpx.ProxyError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
}


@contextmanager
def _httpx_errors() -> Iterator[None]:
    try:
        yield
    except tuple(_ERRORS) as error:
        raise _ERRORS[type(error)](str(error)) from error


@functools.cache
def shared_ssl_context(*, trust_env: bool = False) -> ssl.SSLContext:
    """One context for the process: making one reads the whole certificate store, 15 to 20 ms each time."""
    return httpx.create_ssl_context(trust_env=trust_env)


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that `rules` has checked, and to nothing else.

    Raises:
        BlockedURLError: one of the name's addresses is refused; no socket was opened.
        httpcore.ConnectError, httpcore.ConnectTimeout: as every backend.
    """

    def __init__(
        self,
        rules: OutboundRules,
        resolver: Resolver = system_resolver,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._rules = rules
        self._resolver = resolver
        self._network = network or AsyncioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        deadline = None if timeout is None else time.monotonic() + timeout
        addresses = await self._addresses(host, port, timeout)
        failure: Exception = httpcore.ConnectError("the name has no address")
        for position, address in enumerate(addresses):
            # An address that swallows packets must leave time for the others.
            share = None if deadline is None else max(deadline - time.monotonic(), 0.0) / (len(addresses) - position)
            try:
                return await self._network.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int, timeout: float | None) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(timeout):
                return await self._rules.resolve(host, port, self._resolver)
        except TimeoutError:
            raise httpcore.ConnectTimeout("the name was not resolved in time") from None
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("the name does not resolve") from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response, release: Release) -> None:
        self._response = response
        self._release = release

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _httpx_errors():
            async for chunk in self._response.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        with _httpx_errors():
            try:
                await self._response.aclose()
            finally:
                await self._release()


async def _nothing() -> None:
    """What there is to release after a request through a proxy, whose connections are httpcore's."""


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport behind `OutboundRules`, with bounded bodies.

    Raises:
        BlockedURLError: the URL or an address behind it is refused; nothing was dialled.
        BodyRefusedError: see `body.bounded`.
        httpx.TransportError: as every transport.
    """

    def __init__(
        self,
        rules: OutboundRules,
        *,
        resolver: Resolver = system_resolver,
        ssl_context: Callable[[], ssl.SSLContext] | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        self._rules = rules
        self._resolver = resolver
        self._ssl_context = ssl_context or functools.partial(shared_ssl_context, trust_env=rules.trust_env)
        self._max_body = max_body
        self._checked: str | None = None
        self._connections = Connections(PinnedBackend(rules, resolver), keepalive=KEEPALIVE)
        self._proxies: dict[str, httpcore.AsyncHTTPProxy] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if (text := str(request.url)) != self._checked:  # parsing it again would be a tenth of a small request
            self._rules.check_url(text)
            self._checked = text
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("an asynchronous request has an asynchronous body")
        url = request.url
        inner = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _httpx_errors():
            answer, release = await self._send(inner, url)
        response = httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, release), extensions=answer.extensions
        )
        try:
            return bounded(response, self._max_body)
        except BodyRefusedError:
            await response.aclose()
            raise

    async def _send(self, request: httpcore.Request, url: httpx.URL) -> tuple[httpcore.Response, Release]:
        # No context for http://: it would cost 15 ms that nobody needs.
        context = self._ssl_context() if url.scheme == "https" else None
        proxy = _proxy_for(url) if self._rules.trust_env else None
        if proxy is None:
            return await self._connections.send(request, context)
        return await self._proxy(proxy).handle_async_request(request), _nothing

    def _proxy(self, proxy: str) -> httpcore.AsyncHTTPProxy:
        if proxy not in self._proxies:
            parsed = httpx.URL(proxy)
            self._proxies[proxy] = httpcore.AsyncHTTPProxy(
                proxy_url=str(parsed.copy_with(username=None, password=None)),
                proxy_auth=(parsed.username, parsed.password) if parsed.userinfo else None,
                ssl_context=self._ssl_context(),
                max_connections=MAX_CONNECTIONS,
                keepalive_expiry=KEEPALIVE,
                network_backend=AsyncioBackend(),
            )
        return self._proxies[proxy]

    async def aclose(self) -> None:
        await self._connections.aclose()
        for proxy in self._proxies.values():
            await proxy.aclose()
        self._proxies.clear()


def _proxy_for(url: httpx.URL) -> str | None:
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        raise BlockedURLError("the proxy of the environment is neither http nor https; other kinds are not supported")
    return proxy


def guarded_client(
    rules: OutboundRules,
    *,
    headers: Mapping[str, str] | None = None,
    auth: httpx.Auth | None = None,
    timeout: httpx.Timeout | None = None,
    transport: GuardedTransport | None = None,
) -> httpx.AsyncClient:
    """An `httpx.AsyncClient` that goes through a `GuardedTransport`, follows no redirect and ignores the environment.

    `timeout` without a value means 30 s for each of connect, write and pool, and none for reading: whoever reads has a
    deadline of their own.
    """
    return httpx.AsyncClient(
        transport=transport or GuardedTransport(rules),
        headers={"accept-encoding": ACCEPT_ENCODING, **(headers or {})},
        auth=auth,
        timeout=timeout or httpx.Timeout(30.0, read=None),
        follow_redirects=False,
        trust_env=False,
    )
