"""The circuit breaker of one server.

    CLOSED ──(threshold failures in a row)──> OPEN ──(cooldown over, next admit)──> HALF_OPEN
      ^                                         ^                                      │
      └──────────────── success ────────────────┼──────────────────────────────────────┤
                                                └───────────── failure ────────────────┘

Policy: OPEN answers at once; HALF_OPEN lets exactly one probe through, and a probe that is given back unanswered
(cancelled) frees its place. What counts as a failure is the caller's business (`connection.py`): a failed connection
cycle, a connection lost during a call, a timed-out call whose ping fails too. Only `reset` is the user's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

from codebuddy_mcp_tools.errors import CircuitOpenError
from codebuddy_mcp_tools.types import CircuitState


class CircuitEvent(StrEnum):
    """What moves a breaker."""

    TRIPPED = "tripped"
    """As many failures in a row as the threshold."""
    COOLED_DOWN = "cooled_down"
    PROBE_FAILED = "probe_failed"
    SUCCEEDED = "succeeded"
    RESET = "reset"


_TABLE: dict[tuple[CircuitState, CircuitEvent], CircuitState] = {
    (CircuitState.CLOSED, CircuitEvent.TRIPPED): CircuitState.OPEN,
    (CircuitState.CLOSED, CircuitEvent.SUCCEEDED): CircuitState.CLOSED,
    (CircuitState.CLOSED, CircuitEvent.RESET): CircuitState.CLOSED,
    (CircuitState.OPEN, CircuitEvent.COOLED_DOWN): CircuitState.HALF_OPEN,
    (CircuitState.OPEN, CircuitEvent.RESET): CircuitState.CLOSED,
    (CircuitState.HALF_OPEN, CircuitEvent.PROBE_FAILED): CircuitState.OPEN,
    (CircuitState.HALF_OPEN, CircuitEvent.SUCCEEDED): CircuitState.CLOSED,
    (CircuitState.HALF_OPEN, CircuitEvent.RESET): CircuitState.CLOSED,
}


class Permit:
    """The right to one attempt. Settle it once: `success`, `failure` or `release`; more than once does nothing.

    Attributes:
        is_probe: the one attempt that HALF_OPEN allows; make it on a fresh connection.
    """

    __slots__ = ("_breaker", "_settled", "is_probe")

    def __init__(self, breaker: CircuitBreaker, *, is_probe: bool) -> None:
        self._breaker = breaker
        self._settled = False
        self.is_probe = is_probe

    def success(self) -> None:
        """The server answered."""
        if self._settle():
            self._breaker.success(self)

    def failure(self) -> None:
        """The server failed in a way that counts."""
        if self._settle():
            self._breaker.failure(self)

    def release(self) -> None:
        """Nothing was learnt: cancelled, or refused before it was sent."""
        if self._settle():
            self._breaker.release(self)

    def _settle(self) -> bool:
        settled, self._settled = self._settled, True
        return not settled


class CircuitBreaker:
    """Counts failures in a row and refuses attempts for a while after too many. Any thread may use it.

    Args:
        threshold: failures in a row that open it.
        cooldown: seconds it stays open before one probe.
        clock: monotonic seconds.
        name: the server's name, for the error text.
        on_change: called with the new state after each change of state.
    """

    def __init__(
        self,
        *,
        threshold: int = 3,
        cooldown: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        name: str = "",
        on_change: Callable[[CircuitState], None] | None = None,
    ) -> None:
        if threshold < 1:
            raise ValueError("threshold must be at least 1")
        self.threshold = threshold
        self.cooldown = cooldown
        self.name = name
        self._clock = clock
        self._on_change = on_change
        self._lock = threading.RLock()
        self._state = CircuitState.CLOSED
        self._failures = 0
        self._opened_at = 0.0
        self._probe: Permit | None = None

    @property
    def state(self) -> CircuitState:
        """The state now. OPEN stays OPEN after the cooldown until somebody asks for a permit."""
        return self._state

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def retry_after(self) -> float | None:
        """Seconds until a probe is allowed; `None` while closed."""
        if self._state is CircuitState.CLOSED:
            return None
        return max(0.0, self._opened_at + self.cooldown - self._clock())

    @property
    def admits(self) -> bool:
        """Whether `admit` would give a permit now. Changes nothing."""
        if self._state is CircuitState.CLOSED:
            return True
        return self._probe is None and not self.retry_after

    def admit(self) -> Permit:
        """Ask for one attempt.

        Raises:
            CircuitOpenError: open, or half open with a probe under way; `retry_after` says how long (0 for a probe).
        """
        with self._lock:
            if self._state is CircuitState.CLOSED:
                return Permit(self, is_probe=False)
            if self._state is CircuitState.OPEN and not self.retry_after:
                self._move(CircuitEvent.COOLED_DOWN)
            if self.state is CircuitState.HALF_OPEN and self._probe is None:
                self._probe = Permit(self, is_probe=True)
                return self._probe
            raise self._refusal()

    def success(self, permit: Permit | None = None) -> None:
        """The server answered: the count starts again, and a half-open breaker closes."""
        if self._failures == 0 and self._state is CircuitState.CLOSED:
            return
        with self._lock:
            if self._is_stale(permit):
                return
            self._failures = 0
            self._probe = None
            self._move(CircuitEvent.SUCCEEDED)

    def failure(self, permit: Permit | None = None) -> None:
        """One failure that counts."""
        with self._lock:
            if self._is_stale(permit):
                return
            self._failures += 1
            if self._state is CircuitState.HALF_OPEN:
                self._open(CircuitEvent.PROBE_FAILED)
            elif self._failures >= self.threshold:
                self._open(CircuitEvent.TRIPPED)

    def release(self, permit: Permit) -> None:
        """Give a permit back unused; frees the place of a probe."""
        with self._lock:
            if self._probe is permit:
                self._probe = None

    def reset(self) -> None:
        """Close it, whatever happened."""
        with self._lock:
            self._failures = 0
            self._probe = None
            self._move(CircuitEvent.RESET)

    def _is_stale(self, permit: Permit | None) -> bool:
        """How a call from before the breaker opened ends says nothing about now."""
        if self._state is CircuitState.HALF_OPEN:
            return permit is not None and permit is not self._probe
        return self._state is CircuitState.OPEN

    def _open(self, event: CircuitEvent) -> None:
        self._opened_at = self._clock()
        self._probe = None
        self._move(event)

    def _move(self, event: CircuitEvent) -> None:
        before = self._state
        try:
            self._state = _TABLE[before, event]
        except KeyError:
            raise RuntimeError(f"circuit breaker: {event} is not possible while {before}") from None
        if self._state is not before and self._on_change is not None:
            self._on_change(self._state)

    def _refusal(self) -> CircuitOpenError:
        wait = self.retry_after or 0.0
        if wait:
            text = (
                f"server {self.name!r} failed {self._failures} times in a row and is left alone for another "
                f"{wait:.0f} s; go on without it, or try again after that"
            )
        else:
            text = f"server {self.name!r} is being tried again by another call; try again in a moment"
        return CircuitOpenError(text, server=self.name, retry_after=wait)
