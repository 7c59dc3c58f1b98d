"""One session: one owner task that opens the channel, shakes hands, waits, and takes everything down.

Policy: contexts are entered and left by the owner task alone; anybody may ask, anybody may stop. The order at the end
is fixed: first everybody who waits hears why, then the channel is closed. A session is never reused: each connection
makes a new one, and an old one finishes closing by itself.

    OPENING ──ready──> READY ──end──> CLOSING ──closed──> CLOSED
       └────────────────end──────────────^
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from codebuddy_mcp_tools.client.crossing import apart
from codebuddy_mcp_tools.client.faults import fault_of
from codebuddy_mcp_tools.client.handshake import read_server_info, refusal
from codebuddy_mcp_tools.client.peer import Peer
from codebuddy_mcp_tools.client.pending import OnProgress
from codebuddy_mcp_tools.client.request_errors import (
    AnswerError,
    AnswerGarbledError,
    RequestExpiredError,
    RequestLostError,
)
from codebuddy_mcp_tools.client.sdk import LATEST_PROTOCOL_VERSION, client_info
from codebuddy_mcp_tools.client.transport import (
    Channel,
    ChannelError,
    ChannelInfo,
    Opener,
    RequestId,
    Timeouts,
    TransportFault,
)
from codebuddy_mcp_tools.types import JSON, JSONObject, ServerInfo

logger = logging.getLogger(__name__)

CLOSED_BY_US = TransportFault("the session was closed")


class SessionState(StrEnum):
    """The life of one session."""

    OPENING = "opening"
    READY = "ready"
    CLOSING = "closing"
    CLOSED = "closed"


class SessionEvent(StrEnum):
    """What moves a session on."""

    SHOOK_HANDS = "shook_hands"
    ENDED = "ended"
    TAKEN_DOWN = "taken_down"


_TABLE: dict[tuple[SessionState, SessionEvent], SessionState] = {
    (SessionState.OPENING, SessionEvent.SHOOK_HANDS): SessionState.READY,
    (SessionState.OPENING, SessionEvent.ENDED): SessionState.CLOSING,
    (SessionState.READY, SessionEvent.ENDED): SessionState.CLOSING,
    (SessionState.CLOSING, SessionEvent.ENDED): SessionState.CLOSING,
    (SessionState.CLOSING, SessionEvent.TAKEN_DOWN): SessionState.CLOSED,
}


class SessionListener(Protocol):
    """Who hears a session. Called inside the receive path: enqueue, do not work."""

    def on_request(self, session: Session, request_id: RequestId, method: str, params: JSONObject) -> None:
        """The server asks for something."""

    def on_notification(self, session: Session, method: str, params: JSONObject) -> None:
        """The server tells something."""

    def on_noise(self, session: Session, text: str) -> None:
        """Something that is no JSON-RPC message arrived."""

    def on_closed(self, session: Session, fault: TransportFault) -> None:
        """The session is over; its channel is about to be taken down. Called once."""


class Session:
    """One connection to one server. Lives on the owner loop.

    Args:
        opener: opens the channel; entered and left by the owner task.
        capabilities: what we announce.
        listener: hears what the server sends unasked.
    """

    def __init__(
        self, name: str, opener: Opener, timeouts: Timeouts, *, capabilities: JSONObject, listener: SessionListener
    ) -> None:
        self.name = name
        self.state = SessionState.OPENING
        self.info: ServerInfo | None = None
        self.channel: ChannelInfo | None = None
        self.fault: TransportFault | None = None
        """Why it ended; `None` while it has not."""
        self._opener = opener
        self._timeouts = timeouts
        self._capabilities = capabilities
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._peer = Peer(self)
        self._settled: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._noise: list[str] = []
        self.task = apart(self._own(), name=f"mcp-session:{name}")

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent."""
        return self.state is SessionState.READY

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return self._peer.in_flight

    @property
    def answered(self) -> int:
        """Requests answered so far, `initialize` included."""
        return self._peer.answered

    async def opened(self) -> ServerInfo:
        """Wait until the session is ready.

        Raises:
            ChannelError: it cannot be opened; the fault says why.
        """
        await asyncio.wait({self._settled})
        if self.info is None or self.fault is not None:
            raise ChannelError(self.fault or CLOSED_BY_US)
        return self.info

    async def request(
        self,
        method: str,
        params: JSONObject | None,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSON:
        """See `Peer.request`."""
        return await self._peer.request(method, params, timeout=timeout, headers=headers, on_progress=on_progress)

    async def answer(self, request_id: RequestId, result: JSON) -> None:
        """See `Peer.answer`."""
        await self._peer.answer(request_id, result, timeout=self._timeouts.write)

    async def refuse(self, request_id: RequestId, code: int, reason: str) -> None:
        """See `Peer.refuse`."""
        await self._peer.refuse(request_id, code, reason, timeout=self._timeouts.write)

    def clock_stopped(self) -> AbstractContextManager[None]:
        """See `Peer.clock_stopped`."""
        return self._peer.clock_stopped()

    def end(self, fault: TransportFault) -> None:
        """Fail everything that waits and start taking the channel down. The first reason counts."""
        self._peer.close(fault)

    def retire(self, fault: TransportFault) -> None:
        """Take no more requests, and end once those that are out have been answered, each by its own deadline."""
        self._peer.retire(fault)

    # -- the owner task --------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        try:
            async with asyncio.timeout(self._timeouts.connect) as limit:
                async with self._opener(self._peer) as channel:
                    await self._use(channel, limit)
        except TimeoutError:
            self.end(self._too_slow())
        except ChannelError as error:
            self.end(error.fault)
        except asyncio.CancelledError:
            self.end(CLOSED_BY_US)
            raise
        except BaseException as error:
            self.end(fault_of(error))
            if self.fault is not CLOSED_BY_US:
                logger.debug("session of %s ended", self.name, exc_info=True)
            if not isinstance(error, Exception):
                raise
        finally:
            self.end(CLOSED_BY_US)
            self._move(SessionEvent.TAKEN_DOWN)

    async def _use(self, channel: Channel, limit: asyncio.Timeout) -> None:
        self.channel = channel.info
        self._peer.attach(channel)
        info = await self._shake_hands(limit)
        limit.reschedule(None)
        if self.fault is None:
            self.info = info
            self._move(SessionEvent.SHOOK_HANDS)
            self._settled.set_result(None)
            await self._over
        await self._peer.drained()
        # Taking it down is bounded by the transport itself; this is the last resort.
        limit.reschedule(self._loop.time() + 2 * self._timeouts.close)

    async def _shake_hands(self, limit: asyncio.Timeout) -> ServerInfo:
        params = {
            "protocolVersion": LATEST_PROTOCOL_VERSION,
            "capabilities": self._capabilities,
            "clientInfo": await asyncio.to_thread(client_info),
        }
        left = (limit.when() or self._loop.time()) - self._loop.time()
        try:
            result = await self._peer.request("initialize", params, timeout=left + 1, tell_cancelled=False)
            info = read_server_info(result)
            await self._peer.notify("notifications/initialized", timeout=self._timeouts.write)
        except AnswerError as error:
            raise ChannelError(refusal(error.error)) from None
        except AnswerGarbledError as error:
            raise ChannelError(TransportFault(f"it did not answer initialize properly: {error}")) from None
        except RequestLostError as error:
            raise ChannelError(error.fault) from None
        except RequestExpiredError:
            raise TimeoutError from None
        return info

    def _too_slow(self) -> TransportFault:
        text = f"no answer to initialize within {self._timeouts.connect:g} s"
        if self._noise:
            text += f"; what it wrote is no JSON-RPC: {self._noise[0]!r}"
        tail = self.channel.stderr_tail() if self.channel else ()
        if tail:
            text += f"; last line of stderr: {tail[-1]}"
        return TransportFault(text, sent=False, timed_out=True)

    def _move(self, event: SessionEvent) -> None:
        try:
            self.state = _TABLE[self.state, event]
        except KeyError:
            raise RuntimeError(f"session of {self.name}: {event} is not possible while {self.state}") from None

    # -- the peer's listener ---------------------------------------------------------------------------------------

    def on_request(self, request_id: RequestId, method: str, params: JSONObject) -> None:
        """See `peer.Listener`."""
        self._listener.on_request(self, request_id, method, params)

    def on_notification(self, method: str, params: JSONObject) -> None:
        """See `peer.Listener`."""
        self._listener.on_notification(self, method, params)

    def on_noise(self, text: str) -> None:
        """See `peer.Listener`."""
        if len(self._noise) < 1:
            self._noise.append(text)
        self._listener.on_noise(self, text)

    def on_closed(self, fault: TransportFault) -> None:
        """See `peer.Listener`."""
        self.fault = fault
        self._move(SessionEvent.ENDED)
        for future in (self._settled, self._over):
            if not future.done():
                future.set_result(None)
        self._listener.on_closed(self, fault)
