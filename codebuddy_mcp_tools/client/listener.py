"""The standing GET stream of a streamable HTTP session, on which a server sends what belongs to no request of ours.

It is optional, so its failures are nobody's failures: it is asked for again at a pace of ours, whatever `retry` the
server names (one that closes at once with `retry: 0` gets a request a second, then fewer), and given up when the server
says that it has none. One thing it does tell: a 404 after it has worked means that the server forgot the session.
"""

from __future__ import annotations

import asyncio
import logging

from codebuddy_mcp_tools.client.body import BodyRefusedError
from codebuddy_mcp_tools.client.events import Event, EventParser
from codebuddy_mcp_tools.client.exchange import EVENTS_TYPE, GET_HEADERS, Resumption, SessionHeaders, Sleep, media_type
from codebuddy_mcp_tools.client.http_faults import parse_object
from codebuddy_mcp_tools.client.origin import HTTP_ERRORS, Origin, finish
from codebuddy_mcp_tools.client.transport import ChannelError, Sink, TransportFault

logger = logging.getLogger(__name__)

SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between two requests for the stream."""


class Listener:
    """Keeps the stream open until it is cancelled, or the server does not offer it."""

    def __init__(self, origin: Origin, sink: Sink, session: SessionHeaders, *, sleep: Sleep = asyncio.sleep) -> None:
        self._origin = origin
        self._sink = sink
        self._session = session
        self._sleep = sleep
        self._stream = Resumption()
        self._worked = False

    async def run(self) -> None:
        """Listen. Ends by itself when the server offers no stream."""
        while await self._listen():
            pause = self._stream.delay(SHORTEST_PAUSE, LONGEST_PAUSE)
            self._stream.fruitless = min(self._stream.fruitless + 1, 10)
            await self._sleep(pause)

    async def _listen(self) -> bool:
        """One request for the stream, read to its end; `False` when there is no use in another."""
        try:
            response = await self._origin.send(
                "GET", headers={**GET_HEADERS, **self._session.items(), **self._stream.headers()}
            )
        except ChannelError as error:
            logger.debug("no event stream: %s", error)
            return error.fault.retryable
        try:
            if response.status_code == 200 and media_type(response) == EVENTS_TYPE:
                self._worked = True
                parser = EventParser()
                async for chunk in response.aiter_raw():
                    for event in parser.feed(chunk):
                        self._event(event)
                return True
            return await self._not_offered(response.status_code)
        except BodyRefusedError as error:
            logger.warning("the event stream is dropped: %s", error)
            return True
        except HTTP_ERRORS:
            return True
        finally:
            await finish(response) if response.status_code != 200 else await response.aclose()

    async def _not_offered(self, status: int) -> bool:
        if status == 404 and self._worked and self._session.session_id is not None:
            fault = TransportFault(
                "the server has forgotten the session", sent=False, http_status=404, session_lost=True
            )
            self._sink.closed(fault)
            return False
        logger.debug("the server offers no event stream (HTTP %d)", status)
        return status >= 500 or status == 429

    def _event(self, event: Event) -> None:
        self._stream.note(event)
        if event.name != "message" or not event.data.strip():
            return
        self._stream.fruitless = 0
        message = parse_object(event.data)
        if message is None:
            self._sink.noise(event.data[:200].decode("utf-8", "replace"))
        elif "method" in message:
            self._sink.message(message)
        else:
            logger.debug("an answer on the event stream belongs to no request that waits here")
