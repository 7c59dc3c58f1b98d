"""The older HTTP transport (2024-11-05): one event stream for everything a server says, POSTs for what we say.

Deprecated by the specification and never the default. Policy: the stream is the session, so the channel ends with it; a
POST that fails concerns its own message only. The server names the URL for POSTs in an `endpoint` event: it must come
within the connect deadline and stay within the origin of the configured URL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from codebuddy_mcp_tools.client.body import BodyRefusedError
from codebuddy_mcp_tools.client.errands import Errands
from codebuddy_mcp_tools.client.events import Event, EventParser
from codebuddy_mcp_tools.client.exchange import EVENTS_TYPE, GET_HEADERS, POST_HEADERS, media_type, start_of
from codebuddy_mcp_tools.client.http import encoded, remote_origin
from codebuddy_mcp_tools.client.http_faults import fault_of_error, fault_of_status, parse_object
from codebuddy_mcp_tools.client.origin import HTTP_ERRORS, Origin, checked_headers, same_origin
from codebuddy_mcp_tools.client.transport import (
    Channel,
    ChannelError,
    ChannelInfo,
    ConnectionSpec,
    RequestId,
    Sink,
    Timeouts,
    TransportFault,
)
from codebuddy_mcp_tools.policy.outbound import Resolver, system_resolver
from codebuddy_mcp_tools.policy.secrets import Redactor, display_url
from codebuddy_mcp_tools.types import JSONObject, Transport

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_sse(
    spec: ConnectionSpec,
    sink: Sink,
    *,
    redactor: Redactor,
    auth: httpx.Auth | None = None,
    resolver: Resolver = system_resolver,
) -> AsyncIterator[Channel]:
    """A channel to a server of the older transport, once it has said where messages go.

    Args:
        auth, resolver: as `http.open_http`.

    Raises:
        ChannelError: the stream did not open, or no usable `endpoint` came within the connect deadline.
    """
    async with remote_origin(spec, redactor=redactor, auth=auth, resolver=resolver) as origin:
        response = None
        try:
            async with asyncio.timeout(spec.timeouts.connect):
                response = await _stream(origin)
                stream = EventStream(response)
                target = await _endpoint(stream, origin)
        except TimeoutError:
            text = f"no endpoint event within {spec.timeouts.connect:g} s; is this an SSE server?"
            raise ChannelError(TransportFault(text, sent=False, timed_out=True)) from None
        else:
            channel = SseChannel(origin, target, stream, sink, spec.timeouts)
            try:
                yield channel
            finally:
                await channel.close()
        finally:
            if response is not None:
                await response.aclose()


async def _stream(origin: Origin) -> httpx.Response:
    response = await origin.send("GET", headers=GET_HEADERS)
    if response.status_code == 200 and media_type(response) == EVENTS_TYPE:
        return response
    status = response.status_code
    page = await start_of(response)
    await response.aclose()
    if status < 400:
        text = f"the answer is no event stream but {media_type(response)[:60] or 'nothing'} (HTTP {status})"
        raise ChannelError(TransportFault(f"{text}; is this an SSE server?", http_status=status, retryable=False))
    hint = origin.hint(response)
    raise ChannelError(fault_of_status(status, response.headers, page, url=origin.url, in_session=False, hint=hint))


async def _endpoint(stream: EventStream, origin: Origin) -> httpx.URL:
    try:
        async for event in stream:
            if event.name == "endpoint":
                return _within(origin, event.data.decode("utf-8", "replace").strip())
    except HTTP_ERRORS as error:
        raise ChannelError(fault_of_error(error, origin.url)) from None
    raise ChannelError(TransportFault("the event stream ended before it named an endpoint; is this an SSE server?"))


def _within(origin: Origin, reference: str) -> httpx.URL:
    try:
        target = origin.url.join(reference)
    except (httpx.InvalidURL, ValueError):
        raise ChannelError(TransportFault("the server names an endpoint that is no URL", retryable=False)) from None
    if not same_origin(origin.url, target):
        where = display_url(str(target))
        text = f"the server sends messages to another origin ({where}), which is refused"
        raise ChannelError(TransportFault(text, sent=False, retryable=False))
    return target


class EventStream:
    """The events of one response; it can be read a first part here and the rest elsewhere."""

    def __init__(self, response: httpx.Response) -> None:
        self._chunks = response.aiter_raw()
        self._parser = EventParser()
        self._ready: list[Event] = []

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            self._ready.extend(self._parser.feed(await anext(self._chunks)))
        return self._ready.pop(0)


class SseChannel:
    """See `transport.Channel`."""

    def __init__(self, origin: Origin, target: httpx.URL, stream: EventStream, sink: Sink, timeouts: Timeouts) -> None:
        self.info = ChannelInfo(Transport.SSE)
        self._origin = origin
        self._target = target
        self._sink = sink
        self._timeouts = timeouts
        self._closed = False
        self._errands = Errands()
        self._errands.start(self._listen(stream))

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:
        """See `transport.Channel.send`. Only `notifications/initialized` is waited for."""
        if self._closed:
            raise ChannelError(TransportFault("the connection is closed", sent=False))
        content, extra = encoded(message), checked_headers(headers or {})
        method = message.get("method")
        if method is not None and "id" in message:
            self._errands.start_request(message["id"], self._request(message["id"], content, extra))
        elif method == "notifications/initialized":
            await self._notify(content, extra)
        elif method == "notifications/cancelled":
            self._errands.start(self._cancel(message, content, extra))
        else:
            self._errands.start(self._notify(content, extra))

    async def _request(self, request_id: RequestId, content: bytes, headers: Mapping[str, str]) -> None:
        """POST a request; its answer comes on the stream, and only a failure of the POST is told from here."""
        try:
            await self._post(content, headers)
        except ChannelError as error:
            self._sink.message(error.fault.as_error(request_id))

    async def _notify(self, content: bytes, headers: Mapping[str, str]) -> None:
        try:
            async with asyncio.timeout(self._timeouts.write):
                await self._post(content, headers)
        except TimeoutError:
            logger.warning("the server did not take a notification within %g s", self._timeouts.write)
        except ChannelError as error:
            logger.warning("a notification was not delivered: %s", error)

    async def _cancel(self, message: JSONObject, content: bytes, headers: Mapping[str, str]) -> None:
        await self._notify(content, headers)
        self._errands.abandon(message)

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> None:
        response = await self._origin.send("POST", self._target, headers={**POST_HEADERS, **headers}, content=content)
        try:
            page = await start_of(response)
        finally:
            await response.aclose()
        status = response.status_code
        if status >= 300:
            raise ChannelError(fault_of_status(status, response.headers, page, url=self._target, in_session=True))

    async def _listen(self, stream: EventStream) -> None:
        fault = TransportFault("the server ended the event stream")
        try:
            async for event in stream:
                self._event(event)
        except BodyRefusedError as error:
            fault = TransportFault(str(error))
        except HTTP_ERRORS as error:
            fault = fault_of_error(error, self._origin.url)
        self._closed = True
        self._sink.closed(fault)

    def _event(self, event: Event) -> None:
        if event.name != "message" or not event.data.strip():
            return
        message = parse_object(event.data)
        if message is None:
            self._sink.noise(event.data[:200].decode("utf-8", "replace"))
        else:
            self._sink.message(message)

    async def close(self) -> None:
        """Stop reading and writing. Twice is allowed."""
        self._closed = True
        await self._errands.cancel()
