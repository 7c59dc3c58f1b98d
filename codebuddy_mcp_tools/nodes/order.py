"""Who may begin: the state of every call of one turn, as a table. No waiting, no clock, no threads.

A call begins when every call before it has ended, or only reads, as it does itself, and has begun. So neighbouring
reads overlap and everything else runs alone, whatever order the calls arrive in.

    EXPECTED ──ARRIVE──► WAITING ──BEGIN──► RUNNING ──SUCCEED──► DONE
       │ ▲                  ▲                  ├──────FAIL─────► FAILED
       │ └─RESTART─ (any    │                  └────SUSPEND────► SUSPENDED
       │             ended) │
       └──MISS──► ABSENT ───┘     PASS: answered without being run, to DONE
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from codebuddy_mcp_tools.nodes.schedule import Planned


class CallState(Enum):
    """Where one call is."""

    EXPECTED = auto()
    """It belongs to the turn and has not come yet."""
    WAITING = auto()
    RUNNING = auto()
    DONE = auto()
    FAILED = auto()
    SUSPENDED = auto()
    """An interrupt went up, from it or from a call before it; it comes again when the run is resumed."""
    ABSENT = auto()
    """It did not come although it was waited for; others go on without it."""


class CallEvent(Enum):
    """What can happen to a call."""

    ARRIVE = auto()
    BEGIN = auto()
    SUCCEED = auto()
    FAIL = auto()
    SUSPEND = auto()
    PASS = auto()
    """It was answered without being run."""
    MISS = auto()
    RESTART = auto()
    """The step is run again."""


_TABLE: dict[tuple[CallState, CallEvent], CallState] = {
    (CallState.EXPECTED, CallEvent.ARRIVE): CallState.WAITING,
    (CallState.EXPECTED, CallEvent.PASS): CallState.DONE,
    (CallState.EXPECTED, CallEvent.FAIL): CallState.FAILED,
    (CallState.EXPECTED, CallEvent.MISS): CallState.ABSENT,
    (CallState.ABSENT, CallEvent.ARRIVE): CallState.WAITING,
    (CallState.ABSENT, CallEvent.PASS): CallState.DONE,
    (CallState.ABSENT, CallEvent.FAIL): CallState.FAILED,
    (CallState.WAITING, CallEvent.BEGIN): CallState.RUNNING,
    (CallState.WAITING, CallEvent.PASS): CallState.DONE,
    (CallState.WAITING, CallEvent.FAIL): CallState.FAILED,
    (CallState.WAITING, CallEvent.SUSPEND): CallState.SUSPENDED,
    (CallState.RUNNING, CallEvent.SUCCEED): CallState.DONE,
    (CallState.RUNNING, CallEvent.FAIL): CallState.FAILED,
    (CallState.RUNNING, CallEvent.SUSPEND): CallState.SUSPENDED,
    (CallState.SUSPENDED, CallEvent.RESTART): CallState.EXPECTED,
    (CallState.DONE, CallEvent.RESTART): CallState.EXPECTED,
    (CallState.FAILED, CallEvent.RESTART): CallState.EXPECTED,
    (CallState.ABSENT, CallEvent.RESTART): CallState.EXPECTED,
}
_ENDED = frozenset({CallState.DONE, CallState.FAILED, CallState.ABSENT})


class TurnOrder:
    """The calls of one turn.

    Args:
        calls: the calls that are to run, in the model's order.
        limit: how many reads run at the same time, at the most.
    """

    def __init__(self, calls: Iterable[Planned], *, limit: int) -> None:
        self._reads = {planned.position: planned.read_only for planned in calls}
        self._states = dict.fromkeys(self._reads, CallState.EXPECTED)
        self._limit = limit

    def state(self, position: int) -> CallState:
        """Where the call is."""
        return self._states[position]

    def move(self, position: int, event: CallEvent) -> CallState:
        """Let something happen to a call; raises `ValueError` for what cannot happen to it now."""
        now = self._states[position]
        after = _TABLE.get((now, event))
        if after is None:
            raise ValueError(f"call {position} is {now.name}: {event.name} cannot happen to it")
        self._states[position] = after
        return after

    def comes_again(self, position: int) -> bool:
        """Prepare for a call that has been here before. Returns whether the whole turn begins anew.

        A suspended call comes again when the run is resumed, and with it every other one that was suspended. A call
        that had ended comes again when the step is repeated from its checkpoint, and with it all of them.
        """
        now = self._states[position]
        whole = now in (CallState.DONE, CallState.FAILED)
        if whole or now is CallState.SUSPENDED:
            for at, state in self._states.items():
                if state is CallState.SUSPENDED or (whole and state in _ENDED):
                    self.move(at, CallEvent.RESTART)
        return whole

    def may_begin(self, position: int) -> bool:
        """Whether a waiting call may begin now."""
        reads = self._reads[position]
        running = 0
        for state, other_reads in self._before(position):
            if state in _ENDED:
                continue
            if state is not CallState.RUNNING or not (reads and other_reads):
                return False
            running += 1
        return running < self._limit

    def is_held_back(self, position: int) -> bool:
        """Whether a call before it waits for a person: this one must come again, too."""
        return any(state is CallState.SUSPENDED for state, _ in self._before(position))

    def follows_failure(self, position: int) -> bool:
        """Whether a call before it has failed."""
        return any(state is CallState.FAILED for state, _ in self._before(position))

    def missing_before(self, position: int) -> list[int]:
        """The calls before it that have not come yet."""
        return [at for at, state in self._states.items() if at < position and state is CallState.EXPECTED]

    def waiting(self) -> list[int]:
        """The calls that have come and not begun, in order."""
        return [at for at in sorted(self._states) if self._states[at] is CallState.WAITING]

    def is_over(self) -> bool:
        """Whether every call has ended."""
        return all(state in _ENDED for state in self._states.values())

    def _before(self, position: int) -> Iterator[tuple[CallState, bool]]:
        return ((state, self._reads[at]) for at, state in self._states.items() if at < position)
