"""The gate of one turn: calls arrive from threads or tasks, in any order, and begin in the model's order.

`create_agent`, and any graph that sends each call by itself, runs the calls of a turn at the same time; how soon each
of them gets here is chance (tracing alone sends each one through a thread). The place in the model's message decides,
and so the result is the same as that of the tool node, which runs a whole turn itself.

A call that other code answered before it came here never arrives. A call behind it waits `PATIENCE` seconds for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from enum import Enum, auto

from langchain_core.messages import ToolCall

from codebuddy_mcp_tools.nodes.order import CallEvent, CallState, TurnOrder
from codebuddy_mcp_tools.nodes.schedule import Planned, batches

PATIENCE = 1.0
MAX_TURNS = 256

Announce = Callable[[str, Sequence[Planned]], None]


class Admission(Enum):
    """What the gate says to a call."""

    BEGIN = auto()
    STOPPED = auto()
    """An earlier call failed, and the turn stops at the first failure."""
    HELD_BACK = auto()
    """An earlier call waits for a person; this one is to be sent again when the run is resumed."""


def silent(_kind: str, _calls: Sequence[Planned]) -> None:
    """Announce nothing."""


class CallGate:
    """Admits the calls of one turn.

    Args:
        calls: the calls of the turn, in the model's order.
        limit: how many reads run at the same time, at the most.
        stop_on_error: admit nothing behind a call that has failed.
        after_failure: a call of an earlier step of this turn has failed.
        patience: seconds to wait for a call that does not come.
    """

    def __init__(
        self,
        calls: Sequence[Planned],
        *,
        limit: int,
        stop_on_error: bool = False,
        after_failure: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self._order = TurnOrder(calls, limit=limit)
        self._batches = batches(calls, lambda planned: planned.read_only)
        self._stop_on_error, self._after_failure = stop_on_error, after_failure
        self._patience = patience
        self._calls = {planned.position: planned for planned in calls}
        self._claimed: set[int] = set()
        self._waiting: dict[int, Future[Admission]] = {}
        self._announced: set[str] = set()
        self._lock = threading.Lock()

    # -- in ------------------------------------------------------------------------------------------------------

    def claim(self, call: ToolCall) -> Planned:
        """Which call of the turn this is. Calls that share an id are told apart by what they ask for.

        Raises:
            KeyError: the turn has no call with this id.
        """
        with self._lock:
            same = [p for p in self._calls.values() if (p.call["id"] or "") == (call["id"] or "")]
            if not same:
                raise KeyError(call["id"])
            planned = min(same, key=lambda p: self._fit(p, call))
            self._claimed.add(planned.position)
            return planned

    def release(self, position: int) -> None:
        """Take a claim back."""
        with self._lock:
            self._claimed.discard(position)

    def _fit(self, planned: Planned, call: ToolCall) -> tuple[bool, bool, bool]:
        """The smaller, the better."""
        other = (planned.call["name"], planned.call["args"]) != (call["name"], call["args"])
        here_before = self._order.state(planned.position) is not CallState.EXPECTED
        return planned.position in self._claimed, other, here_before

    def enter(self, position: int, announce: Announce = silent) -> Admission:
        """Wait for the call's turn. Every `BEGIN` must be followed by `leave`."""
        ticket = self._arrive(position)
        while True:
            try:
                admission = ticket.result(self._timeout(position))
            except TimeoutError:
                self._miss(position)
            else:
                self._announce_start(position, admission, announce)
                return admission

    async def aenter(self, position: int, announce: Announce = silent) -> Admission:
        """`enter` for a loop; a cancelled wait gives the place free."""
        ticket = self._arrive(position)
        try:
            while not ticket.done():
                done, _ = await asyncio.wait([asyncio.wrap_future(ticket)], timeout=self._timeout(position))
                if not done:
                    self._miss(position)
        except asyncio.CancelledError:
            self._give_up(position)
            raise
        self._announce_start(position, ticket.result(), announce)
        return ticket.result()

    def skip(self, position: int, *, failed: bool = False) -> None:
        """The call has been answered without being run."""
        with self._lock:
            self._expect_again(position)
            self._order.move(position, CallEvent.FAIL if failed else CallEvent.PASS)
            self._claimed.discard(position)
            self._admit()

    def leave(self, position: int, event: CallEvent, announce: Announce = silent) -> None:
        """The call has ended: `SUCCEED`, `FAIL`, or `SUSPEND` when it waits for a person."""
        with self._lock:
            self._waiting.pop(position, None)
            self._order.move(position, event)
            self._claimed.discard(position)
            self._admit()
            ended = event is not CallEvent.SUSPEND and self._batch_ended(position)
        if ended:
            self._announce_once("mcp_batch_finished", position, announce)

    @property
    def is_over(self) -> bool:
        """Whether every call of the turn has ended."""
        with self._lock:
            return self._order.is_over()

    # -- inside the lock -----------------------------------------------------------------------------------------

    def _arrive(self, position: int) -> Future[Admission]:
        ticket: Future[Admission] = Future()
        with self._lock:
            self._expect_again(position)
            self._order.move(position, CallEvent.ARRIVE)
            self._waiting[position] = ticket
            self._admit()
        return ticket

    def _expect_again(self, position: int) -> None:
        if self._order.comes_again(position):
            self._announced.clear()

    def _admit(self) -> None:
        for position in self._order.waiting():
            if position not in self._waiting:
                continue
            if self._order.is_held_back(position):
                self._order.move(position, CallEvent.SUSPEND)
                self._tell(position, Admission.HELD_BACK)
            elif self._order.may_begin(position):
                if self._stop_on_error and (self._after_failure or self._order.follows_failure(position)):
                    self._order.move(position, CallEvent.PASS)
                    self._tell(position, Admission.STOPPED)
                else:
                    self._order.move(position, CallEvent.BEGIN)
                    self._tell(position, Admission.BEGIN)

    def _tell(self, position: int, admission: Admission) -> None:
        ticket = self._waiting.pop(position)
        if admission is not Admission.BEGIN:
            self._claimed.discard(position)
        try:
            ticket.set_result(admission)
        except InvalidStateError:  # cancelled at this very moment: its owner leaves by itself
            return

    def _batch_ended(self, position: int) -> bool:
        states = [self._order.state(planned.position) for planned in self._batch_of(position)]
        return all(state in (CallState.DONE, CallState.FAILED, CallState.ABSENT) for state in states)

    def _give_up(self, position: int) -> None:
        """The caller was cancelled while it waited, or at the moment it was told."""
        with self._lock:
            self._waiting.pop(position, None)
            self._claimed.discard(position)
            if self._order.state(position) in (CallState.WAITING, CallState.RUNNING):
                self._order.move(position, CallEvent.FAIL)
            self._admit()

    # -- outside -------------------------------------------------------------------------------------------------

    def _timeout(self, position: int) -> float | None:
        with self._lock:
            return self._patience if self._order.missing_before(position) else None

    def _miss(self, position: int) -> None:
        with self._lock:
            for absent in self._order.missing_before(position):
                self._order.move(absent, CallEvent.MISS)
            self._admit()

    def _batch_of(self, position: int) -> list[Planned]:
        return next(batch for batch in self._batches if any(p.position == position for p in batch))

    def _announce_start(self, position: int, admission: Admission, announce: Announce) -> None:
        if admission is Admission.BEGIN:
            self._announce_once("mcp_batch_started", position, announce)

    def _announce_once(self, kind: str, position: int, announce: Announce) -> None:
        batch = self._batch_of(position)
        mark = f"{kind} {batch[0].position}"
        with self._lock:
            if mark in self._announced:
                return
            self._announced.add(mark)
        announce(kind, batch)


class TurnGates:
    """The gates of turns whose calls arrive one by one. A turn that has ended is forgotten."""

    def __init__(self) -> None:
        self._gates: OrderedDict[Hashable, CallGate] = OrderedDict()
        self._lock = threading.Lock()

    def gate(self, turn: Hashable, make: Callable[[], CallGate]) -> CallGate:
        """The gate of a turn; made when the first call of it comes."""
        with self._lock:
            gate = self._gates.get(turn)
            if gate is None:
                gate = self._gates[turn] = make()
                while len(self._gates) > MAX_TURNS:
                    self._gates.popitem(last=False)
            return gate

    def forget(self, turn: Hashable) -> None:
        """Let go of a turn that is over."""
        with self._lock:
            gate = self._gates.get(turn)
            if gate is not None and gate.is_over:
                del self._gates[turn]
