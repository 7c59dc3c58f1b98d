"""One request of ours over streamable HTTP: the POST, its answer, and the resumption of a stream that broke off.

Every exchange ends with exactly one answer to its request in the sink, whatever the server does: the server's own, word
that it could not be read, or a fault. The specification: "Streamable HTTP" of the revisions up to 2025-11-25.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from codebuddy_mcp_tools.client.body import BodyRefusedError
from codebuddy_mcp_tools.client.events import Event, EventParser
from codebuddy_mcp_tools.client.http_faults import fault_of_error, fault_of_status, parse_object
from codebuddy_mcp_tools.client.origin import DRAIN_SECONDS, HTTP_ERRORS, Origin, finish
from codebuddy_mcp_tools.client.transport import ChannelError, RequestId, Sink, TransportFault

logger = logging.getLogger(__name__)

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"
SESSION_ID = "mcp-session-id"
PROTOCOL_VERSION = "mcp-protocol-version"
LAST_EVENT_ID = "last-event-id"
POST_HEADERS = {"accept": f"{JSON_TYPE}, {EVENTS_TYPE}", "content-type": JSON_TYPE}
GET_HEADERS = {"accept": EVENTS_TYPE, "cache-control": "no-store"}

DEFAULT_RETRY = 1.0
SHORTEST_RETRY = 0.25
"""Seconds before a broken stream is asked for again, and the least of it, whatever the server's `retry` says."""
FRUITLESS_RESUMES = 4
Sleep = Callable[[float], Awaitable[None]]
_ERROR_PAGE = 64 << 10


@dataclass(slots=True)
class SessionHeaders:
    """What every request after `initialize` carries."""

    session_id: str | None = None
    protocol_version: str | None = None

    def items(self) -> dict[str, str]:
        """The headers, as far as they are known."""
        pairs = ((SESSION_ID, self.session_id), (PROTOCOL_VERSION, self.protocol_version))
        return {name: value for name, value in pairs if value}

    def learn_session(self, headers: httpx.Headers) -> None:
        """Take the session id that an answer to `initialize` brings; one that no header can carry is ignored."""
        value = headers.get(SESSION_ID, "")
        if value and len(value) <= 1024 and value.isascii() and value.isprintable() and " " not in value:
            self.session_id = value

    def learn_version(self, answer: Mapping[str, Any]) -> None:
        """Take the protocol version that the server chose."""
        result = answer.get("result")
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if isinstance(version, str) and version.isascii() and version.isprintable() and len(version) <= 40:
            self.protocol_version = version


class Resumption:
    """Where a stream stands: the last event id, and how long to wait before asking for the rest."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.fruitless = 0
        self._retry = DEFAULT_RETRY

    def note(self, event: Event) -> None:
        """An event has arrived."""
        if event.retry is not None:
            self._retry = event.retry / 1000
        if event.id and event.id.isascii() and event.id.isprintable() and len(event.id) <= 1024:
            self.last_id = event.id
            self.fruitless = 0

    def headers(self) -> dict[str, str]:
        return {LAST_EVENT_ID: self.last_id} if self.last_id else {}

    def delay(self, shortest: float = SHORTEST_RETRY, longest: float = 30.0) -> float:
        """Seconds to wait now: what the server asked for, longer while nothing comes."""
        return min(max(self._retry, shortest * 2.0**self.fruitless), longest)


def media_type(response: httpx.Response) -> str:
    """The content type without its parameters, in lower case."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


class Exchange:
    """One request and its answer."""

    def __init__(
        self,
        origin: Origin,
        sink: Sink,
        session: SessionHeaders,
        message: Mapping[str, Any],
        *,
        content: bytes,
        headers: Mapping[str, str],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._origin = origin
        self._sink = sink
        self._session = session
        self._id: RequestId = message["id"]
        self._opens_session = message.get("method") == "initialize"
        self._content = content
        self._headers = headers
        self._sleep = sleep
        self._stream = Resumption()
        self._answered = False
        self._loss: TransportFault | None = None

    async def run(self) -> None:
        """Send the request and put one answer into the sink."""
        try:
            await self._post()
            while not self._answered:
                await self._resume()
        except ChannelError as error:
            self._fail(error.fault)
        except BodyRefusedError as error:
            self._garbled(str(error))
        except HTTP_ERRORS as error:
            self._fail(fault_of_error(error, self._origin.url))
        except Exception as error:  # a fault of ours must not leave somebody waiting
            logger.exception("an exchange failed unexpectedly")
            self._fail(TransportFault(f"unexpected failure ({type(error).__name__}); see the log"))

    async def _post(self) -> None:
        headers = {**POST_HEADERS, **self._headers, **self._session.items()}
        response = await self._origin.send("POST", headers=headers, content=self._content)
        try:
            await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> None:
        status, kind = response.status_code, media_type(response)
        if status >= 400:
            await self._refusal(response)
        elif status in (202, 204) or status >= 300:
            text = f"HTTP {status}: the server took the request but does not answer it"
            self._fail(TransportFault(text, http_status=status))
            await finish(response)
        elif kind == EVENTS_TYPE:
            if self._opens_session:
                self._session.learn_session(response.headers)
            await self._events(response)
        elif kind in (JSON_TYPE, "") or kind.endswith("+json"):
            if self._opens_session:
                self._session.learn_session(response.headers)
            self._document(await response.aread())
        else:
            text = f"the answer is {kind[:60]}, not JSON-RPC; is this the URL of an MCP endpoint?"
            self._fail(TransportFault(text, http_status=status))

    async def _refusal(self, response: httpx.Response) -> None:
        page = await start_of(response)
        answer = parse_object(page)
        if (
            response.status_code == 400
            and answer
            and "error" in answer
            and answer.get("id") is not None
            and self._is_mine(answer)
        ):
            self._answer(answer)
            return
        self._fail(
            fault_of_status(
                response.status_code,
                response.headers,
                page,
                url=self._origin.url,
                in_session=self._session.session_id is not None and not self._opens_session,
                hint=self._origin.hint(response),
            )
        )

    def _document(self, body: bytes) -> None:
        """A JSON answer; a list is a batch of the 2025-03-26 revision."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            self._garbled("the answer is not JSON")
            return
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict):
                self._take(message)
        if not self._answered:
            self._garbled("the answer is no JSON-RPC answer")

    async def _events(self, response: httpx.Response) -> None:
        """Read an event stream; after the answer, the short rest of it, so that the connection is kept."""
        parser = EventParser()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as rest:
                async for chunk in response.aiter_raw():
                    for event in parser.feed(chunk):
                        self._event(event)
                    if self._answered and rest.when() is None:
                        rest.reschedule(loop.time() + DRAIN_SECONDS)
        except TimeoutError:
            return  # only the rest of an answered stream has a deadline here
        except BodyRefusedError:
            raise
        except HTTP_ERRORS as error:
            self._loss = fault_of_error(error, self._origin.url)

    def _event(self, event: Event) -> None:
        self._stream.note(event)
        if event.name != "message" or not event.data.strip():
            return
        message = parse_object(event.data)
        if message is None:
            self._sink.noise(event.data[:200].decode("utf-8", "replace"))
            self._loss = self._loss or TransportFault("the event stream holds something that is no JSON-RPC")
        else:
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._sink.message(message)
        elif self._answered:
            return
        elif self._is_mine(message):
            self._answer(message)
        else:
            self._garbled("the server answered with the id of another request")

    def _is_mine(self, message: Mapping[str, Any]) -> bool:
        """Whether this answers our request: its id, also as a string, or an error that names none."""
        answered = message.get("id")
        if answered is None:
            return "error" in message
        return not isinstance(answered, bool) and (answered == self._id or str(answered) == str(self._id))

    def _answer(self, message: dict[str, Any]) -> None:
        self._answered = True
        if self._opens_session:
            self._session.learn_version(message)
        self._sink.message({**message, "id": self._id})

    def _garbled(self, reason: str) -> None:
        if not self._answered:
            self._answered = True
            self._sink.garbled(self._id, reason)

    def _fail(self, fault: TransportFault) -> None:
        if not self._answered:
            self._answered = True
            self._sink.message(fault.as_error(self._id))

    async def _resume(self) -> None:
        """The stream ended without the answer: ask for the rest of it, if the server gave it a position."""
        if self._stream.last_id is None or self._stream.fruitless >= FRUITLESS_RESUMES:
            self._fail(self._loss or TransportFault("the event stream ended before the answer"))
            return
        await self._sleep(self._stream.delay())
        self._stream.fruitless += 1
        headers = {**GET_HEADERS, **self._headers, **self._session.items(), **self._stream.headers()}
        try:
            response = await self._origin.send("GET", headers=headers)
        except ChannelError as error:
            self._loss = TransportFault(error.fault.message)
            return
        try:
            if response.status_code == 200 and media_type(response) == EVENTS_TYPE:
                await self._events(response)
            else:
                text = f"the event stream broke off and cannot be resumed (HTTP {response.status_code})"
                self._fail(TransportFault(text, http_status=response.status_code))
        finally:
            await response.aclose()


async def start_of(response: httpx.Response) -> bytes:
    """The first bytes of an error page; the rest is read a little further, so that the connection is kept."""
    page = bytearray()
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in response.aiter_raw():
                page += chunk
                if len(page) > _ERROR_PAGE:
                    break
    except (TimeoutError, *HTTP_ERRORS):
        pass
    return bytes(page[:_ERROR_PAGE])
