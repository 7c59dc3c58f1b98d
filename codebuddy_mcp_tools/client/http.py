"""The streamable HTTP transport: one session of one server, as a `Channel`.

Policy: what happens to one message stays with that message. A request always gets an answer or a fault of its own; a
notification that fails is logged; neither ends the channel, and requests do not wait for one another. Opening the
channel dials nothing: the first POST does. Closing it ends the session with a DELETE that has a short deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from codebuddy_mcp_tools.client.credentials import credentials
from codebuddy_mcp_tools.client.errands import Errands
from codebuddy_mcp_tools.client.exchange import POST_HEADERS, Exchange, SessionHeaders, Sleep
from codebuddy_mcp_tools.client.guard import GuardedTransport, guarded_client
from codebuddy_mcp_tools.client.http_faults import fault_of_error
from codebuddy_mcp_tools.client.http_logs import watch_http_logs
from codebuddy_mcp_tools.client.listener import Listener
from codebuddy_mcp_tools.client.origin import Origin, checked_headers, endpoint, finish
from codebuddy_mcp_tools.client.transport import (
    Channel,
    ChannelError,
    ChannelInfo,
    ConnectionSpec,
    Sink,
    Timeouts,
    TransportFault,
)
from codebuddy_mcp_tools.config.models import HttpServer, SseServer
from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import Resolver, system_resolver
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.types import JSONObject, Transport

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_http(
    spec: ConnectionSpec,
    sink: Sink,
    *,
    redactor: Redactor,
    auth: httpx.Auth | None = None,
    resolver: Resolver = system_resolver,
    sleep: Sleep = asyncio.sleep,
) -> AsyncIterator[Channel]:
    """A channel to a streamable HTTP server; nothing is dialled until the first message.

    Args:
        auth: adds credentials to requests, in place of a stored login.
        resolver: replaces the look-up of names.
        sleep: waits between two attempts to resume a stream.

    Raises:
        ChannelError: the URL is refused, or a configured header cannot be sent.
    """
    async with remote_origin(spec, redactor=redactor, auth=auth, resolver=resolver) as origin:
        channel = HttpChannel(origin, sink, spec.timeouts, sleep=sleep)
        try:
            yield channel
        finally:
            await channel.close()


@asynccontextmanager
async def remote_origin(
    spec: ConnectionSpec, *, redactor: Redactor, auth: httpx.Auth | None, resolver: Resolver
) -> AsyncIterator[Origin]:
    """The origin of a remote server, behind a guarded client with the server's headers, credentials and deadlines.

    Raises:
        ChannelError: the URL is refused, or a configured header cannot be sent.
    """
    config = spec.config
    if not isinstance(config, HttpServer | SseServer):
        raise TypeError(f"server {spec.name!r} is not remote")
    watch_http_logs(redactor)
    url, headers = endpoint(config.url, config.headers)
    try:
        spec.outbound.check_url(url)
    except BlockedURLError as error:
        raise ChannelError(fault_of_error(error, url)) from None
    hint = None
    if auth is None:
        auth, hint = credentials(spec, url, headers, redactor)
    transport = GuardedTransport(spec.outbound, resolver=resolver)
    timeout = httpx.Timeout(spec.timeouts.connect, read=None, write=spec.timeouts.write)
    async with guarded_client(
        spec.outbound, headers=headers, auth=auth, timeout=timeout, transport=transport
    ) as client:
        yield Origin(client, url, hint)


def encoded(message: JSONObject) -> bytes:
    """One message as UTF-8 JSON.

    Raises:
        ValueError: it holds a lone surrogate, NaN or an infinity.
        TypeError: it holds something that is not JSON.
    """
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class HttpChannel:
    """See `transport.Channel`."""

    def __init__(
        self,
        origin: Origin,
        sink: Sink,
        timeouts: Timeouts,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.info = ChannelInfo(Transport.HTTP)
        self._origin = origin
        self._sink = sink
        self._timeouts = timeouts
        self._sleep = sleep
        self._session = SessionHeaders()
        self._errands = Errands()
        self._closed = False

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:
        """See `transport.Channel.send`. Only `notifications/initialized` is waited for: no request may overtake it."""
        if self._closed:
            raise ChannelError(TransportFault("the connection is closed", sent=False))
        content, extra = encoded(message), checked_headers(headers or {})
        method = message.get("method")
        if method is not None and "id" in message:
            self._errands.start_request(message["id"], self._exchange(message, content, extra).run())
        elif method == "notifications/initialized":
            await self._notify(content, extra)
            self._errands.start(Listener(self._origin, self._sink, self._session, sleep=self._sleep).run())
        elif method == "notifications/cancelled":
            self._errands.start(self._cancel(message, content, extra))
        else:
            self._errands.start(self._notify(content, extra))

    def _exchange(self, message: JSONObject, content: bytes, headers: Mapping[str, str]) -> Exchange:
        return Exchange(
            self._origin,
            self._sink,
            self._session,
            message,
            content=content,
            headers=headers,
            sleep=self._sleep,
        )

    async def _notify(self, content: bytes, headers: Mapping[str, str]) -> None:
        """POST something that has no answer; a failure concerns nobody but the log."""
        try:
            async with asyncio.timeout(self._timeouts.write):
                response = await self._origin.send(
                    "POST", headers={**POST_HEADERS, **headers, **self._session.items()}, content=content
                )
                await finish(response)
        except TimeoutError:
            logger.warning("the server did not take a notification within %g s", self._timeouts.write)
        except ChannelError as error:
            logger.warning("a notification was not delivered: %s", error)
        else:
            if response.status_code >= 400:
                logger.warning("a notification was refused: HTTP %d", response.status_code)

    async def _cancel(self, message: JSONObject, content: bytes, headers: Mapping[str, str]) -> None:
        """Tell the server, then stop reading an answer that nobody waits for."""
        await self._notify(content, headers)
        self._errands.abandon(message)

    async def close(self) -> None:
        """End the session: stop everything, then one DELETE with half of the close deadline. Twice is allowed."""
        if self._closed:
            return
        self._closed = True
        await self._errands.cancel()
        if self._session.session_id is None:
            return
        with contextlib.suppress(TimeoutError, ChannelError):
            async with asyncio.timeout(self._timeouts.close / 2):
                response = await self._origin.send("DELETE", headers=self._session.items())
                await response.aclose()
