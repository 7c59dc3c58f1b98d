"""The connection of one client: which session is current, how a new one comes about, and what its loss means.

    DISCONNECTED ──connect──> CONNECTING ──ready──> CONNECTED
         ^   ^                    │  ^                  │
         │   └──────── lost ──────┼──┼──────────────────┘
       close                   failed └──connect── ERROR
         └──────────────────────  └──────────────────^

Policy: one connection cycle at a time, joined by everybody who needs a session; a waiter that goes away does not end
it. A session that ends unasked starts one cycle in the background, unless the breaker is open. The breaker hears of
failed cycles, of sessions lost while somebody waited for an answer (once each), and of sessions that end right after
they began. Everything here runs on the owner loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from codebuddy_mcp_tools.client.backoff import Sleep, connection_attempts
from codebuddy_mcp_tools.client.breaker import CircuitBreaker
from codebuddy_mcp_tools.client.crossing import apart
from codebuddy_mcp_tools.client.faults import fault_of
from codebuddy_mcp_tools.client.session import CLOSED_BY_US, Session
from codebuddy_mcp_tools.client.transport import ChannelError, ConnectionSpec, TransportFault
from codebuddy_mcp_tools.client.values import ClientSnapshot, EventKind
from codebuddy_mcp_tools.types import CircuitState, ClientState, ServerInfo

logger = logging.getLogger(__name__)

SHORT_LIFE = 5.0
"""A session that ends unasked within so many seconds, before it answered anything, counts as a failure."""


class LinkEvent(StrEnum):
    """What moves a client's state."""

    CONNECT = "connect"
    READY = "ready"
    FAILED = "failed"
    LOST = "lost"
    CLOSE = "close"


_TABLE: dict[tuple[ClientState, LinkEvent], ClientState] = {
    (ClientState.DISCONNECTED, LinkEvent.CONNECT): ClientState.CONNECTING,
    (ClientState.ERROR, LinkEvent.CONNECT): ClientState.CONNECTING,
    (ClientState.CONNECTING, LinkEvent.READY): ClientState.CONNECTED,
    (ClientState.CONNECTING, LinkEvent.FAILED): ClientState.ERROR,
    (ClientState.CONNECTED, LinkEvent.LOST): ClientState.DISCONNECTED,
    (ClientState.DISCONNECTED, LinkEvent.CLOSE): ClientState.DISCONNECTED,
    (ClientState.CONNECTING, LinkEvent.CLOSE): ClientState.DISCONNECTED,
    (ClientState.CONNECTED, LinkEvent.CLOSE): ClientState.DISCONNECTED,
    (ClientState.ERROR, LinkEvent.CLOSE): ClientState.DISCONNECTED,
}


class _Streak(StrEnum):
    """What the breaker's last failure was: a connection that works ends a row of failed cycles, not of lost calls."""

    CYCLE = "cycle"
    CALL = "call"


class Link:
    """See the module.

    Args:
        make_session: starts a new session.
        describe: a fault as one line with the server's name, without secrets.
        announce: tells of `connected`, `disconnected` and `error`.
        clock: monotonic seconds.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        spec: ConnectionSpec,
        breaker: CircuitBreaker,
        make_session: Callable[[], Session],
        *,
        describe: Callable[[TransportFault], str],
        announce: Callable[[EventKind, str], None],
        clock: Callable[[], float],
        sleep: Sleep,
    ) -> None:
        self.state = ClientState.DISCONNECTED
        self.attempts = 0
        self.last_error: str | None = None
        self.last_error_at: datetime | None = None
        self.connected_since: datetime | None = None
        self.session: Session | None = None
        self.stderr_tail: tuple[str, ...] = ()
        """The last words of the last session that failed."""
        self._spec = spec
        self._breaker = breaker
        self._make_session = make_session
        self._describe = describe
        self._announce = announce
        self._clock = clock
        self._sleep = sleep
        self._cycle: asyncio.Task[Session] | None = None
        self._sessions: set[Session] = set()
        self._born = 0.0
        self._short_lives = 0
        self._streak = _Streak.CYCLE
        self.closed = False

    @property
    def info(self) -> ServerInfo | None:
        """What the current session's server said of itself."""
        return self.session.info if self.session else None

    def snapshot(self) -> ClientSnapshot:
        """Everything there is to know, at this moment; any thread may ask."""
        session = self.session
        channel = session.channel if session else None
        return ClientSnapshot(
            state=self.state,
            attempts=self.attempts,
            last_error=self.last_error,
            last_error_at=self.last_error_at,
            connected_since=self.connected_since,
            server_info=session.info if session else None,
            pid=channel.pid if channel else None,
            stderr_tail=channel.stderr_tail() if channel else self.stderr_tail,
            breaker_state=self._breaker.state,
            retry_after=self._breaker.retry_after,
        )

    async def ready(self, *, fresh: bool = False) -> Session:
        """The current session; without one, the outcome of the running or a new connection cycle.

        Args:
            fresh: on a new connection, with one attempt: the breaker's probe.

        Raises:
            ChannelError: the cycle failed.
        """
        session = self.session
        if session is not None and session.is_ready and not fresh:
            return session
        if self.closed:
            raise ChannelError(CLOSED_BY_US)
        if fresh and session is not None:
            self.retire(session, CLOSED_BY_US)
        cycle = self._cycle or self._start_cycle(attempts=1 if fresh else None)
        await asyncio.wait({cycle})
        if cycle.cancelled():
            raise ChannelError(CLOSED_BY_US)
        failure = cycle.exception()
        if failure is not None:
            raise ChannelError(fault_of(failure)) from None
        return cycle.result()

    def retire(self, session: Session, fault: TransportFault) -> None:
        """Send nothing new on a session; what is out on it may still be answered."""
        session.retire(fault)
        if session is self.session:
            self._let_go(session, fault)

    def count_call_failure(self) -> None:
        """A call failed in a way that the breaker counts, and the session lives on."""
        self._streak = _Streak.CALL
        self._breaker.failure()

    async def close(self) -> None:
        """End the cycle and every session, and wait until all of it is gone."""
        self.closed = True
        cycle = self._cycle
        if cycle is not None:
            cycle.cancel()
            await asyncio.wait({cycle})
        for session in tuple(self._sessions):
            session.end(CLOSED_BY_US)
        if self._sessions:
            tasks = {session.task for session in self._sessions}
            _, late = await asyncio.wait(tasks, timeout=3 * self._spec.timeouts.close)
            for task in late:
                logger.warning("the session of %s does not close; giving up on it", self._spec.name)
                task.cancel()
        self.session = None
        self._move(LinkEvent.CLOSE)

    # -- the cycle -------------------------------------------------------------------------------------------------

    def _start_cycle(self, *, attempts: int | None = None, delay: float = 0.0) -> asyncio.Task[Session]:
        self._move(LinkEvent.CONNECT)
        self.attempts = 0
        work = self._run_cycle(attempts, delay)
        self._cycle = apart(work, name=f"mcp-connect:{self._spec.name}")
        self._cycle.add_done_callback(self._cycle_done)
        return self._cycle

    async def _run_cycle(self, attempts: int | None, delay: float) -> Session:
        if delay:
            await self._sleep(delay)
        async for attempt in connection_attempts(self._spec.reconnect_delays, sleep=self._sleep, attempts=attempts):
            with attempt:
                self.attempts += 1
                session = await self._try_once()
        self.session = session
        self._born = self._clock()
        self.connected_since = datetime.now(UTC)
        self._move(LinkEvent.READY)
        if self._streak is _Streak.CYCLE and self._breaker.state is CircuitState.CLOSED:
            self._breaker.success()
        self._announce("connected", f"{self._spec.name}: connected")
        return session

    async def _try_once(self) -> Session:
        session = self._make_session()
        self._sessions.add(session)
        session.task.add_done_callback(lambda _: self._sessions.discard(session))
        try:
            await session.opened()
        except ChannelError as error:
            self._note(error.fault, session)
            self._announce("error", self.last_error or "")
            raise
        except asyncio.CancelledError:
            session.end(CLOSED_BY_US)
            raise
        return session

    def _cycle_done(self, cycle: asyncio.Task[Session]) -> None:
        if self._cycle is cycle:
            self._cycle = None
        if cycle.cancelled():
            return
        failure = cycle.exception()
        if failure is None:
            # It may have ended between its first breath and now, when it was not the current session yet.
            session = cycle.result()
            if not session.is_ready and self.session is session:
                self.session_over(session, session.fault or CLOSED_BY_US)
            return
        if not isinstance(failure, ChannelError):
            logger.error("connecting %s failed unexpectedly", self._spec.name, exc_info=failure)
        self._streak = _Streak.CYCLE
        self._move(LinkEvent.FAILED)
        self._breaker.failure()

    # -- the loss --------------------------------------------------------------------------------------------------

    def session_over(self, session: Session, fault: TransportFault) -> None:
        """A session has ended; called by its listener, before its channel is taken down."""
        if session is self.session and self._cycle is None:
            self._let_go(session, fault)

    def _let_go(self, session: Session, fault: TransportFault) -> None:
        self.session = None
        self.connected_since = None
        self._move(LinkEvent.LOST)
        if fault is CLOSED_BY_US or self.closed:
            return
        self._note(fault, session)
        self._announce("disconnected", self.last_error or "")
        delay = self._count_loss(session, fault)
        if self._breaker.state is CircuitState.CLOSED:
            self._start_cycle(delay=delay)

    def _count_loss(self, session: Session, fault: TransportFault) -> float:
        """Tell the breaker; returns how long the first new attempt should wait."""
        if fault.session_lost or fault.connect or fault.timed_out:
            self._short_lives = 0  # counted where it was noticed, or by the cycle that follows
        elif session.in_flight:
            self._short_lives = 0
            self.count_call_failure()
        elif session.answered <= 1 and self._clock() - self._born < SHORT_LIFE:
            self.count_call_failure()
            self._short_lives += 1
            delays = self._spec.reconnect_delays or (0.0,)
            return delays[min(self._short_lives, len(delays)) - 1]
        else:
            self._short_lives = 0
        return 0.0

    def _note(self, fault: TransportFault, session: Session) -> None:
        self.last_error = self._describe(fault)
        self.last_error_at = datetime.now(UTC)
        self.stderr_tail = session.channel.stderr_tail() if session.channel else ()

    def _move(self, event: LinkEvent) -> None:
        try:
            self.state = _TABLE[self.state, event]
        except KeyError:
            raise RuntimeError(f"client of {self._spec.name}: {event} is not possible while {self.state}") from None
