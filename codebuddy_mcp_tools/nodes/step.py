"""One run of the tool node: what it was given, what is settled before anything runs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from codebuddy_mcp_tools.nodes.approval import ask, asks_by_interrupt
from codebuddy_mcp_tools.nodes.callgate import CallGate, TurnGates
from codebuddy_mcp_tools.nodes.calls import Turn, is_failure, messages_in
from codebuddy_mcp_tools.nodes.debts import ledger
from codebuddy_mcp_tools.nodes.schedule import Planned, next_batch, pending_calls, positioned, results_of_turn
from codebuddy_mcp_tools.nodes.state import value_of
from codebuddy_mcp_tools.nodes.step_input import StepInput
from codebuddy_mcp_tools.nodes.toolbox import Toolbox, identified
from codebuddy_mcp_tools.nodes.turns import Finished, review_of, task_key, turn_key

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider


@dataclass(slots=True)
class StepRules:
    """What holds for every run of one node."""

    provider: ToolProvider
    own: Mapping[str, BaseTool]
    """The tools that are there without any server, by name."""
    limit: int
    """How many reads run at the same time."""
    stop_on_error: bool = False
    one_batch: bool = False
    """Run one batch, and leave the rest to the next step."""
    gates: TurnGates = field(default_factory=TurnGates)
    finished: Finished = field(default_factory=Finished)


class Step:
    """One run of the node.

    Args:
        given: the input.
        rules: what holds for every run.
        scope: context window and modifiers, for what is deferred.
    """

    def __init__(self, given: StepInput, rules: StepRules, scope: Mapping[str, Any]) -> None:
        self.given = given
        self._rules = rules
        activated = value_of(given.state, "activated_tools") if given.keeps("activated_tools") else None
        self._toolbox = Toolbox(rules.provider, rules.own, activated=activated, **scope)
        self._message, self._positions = given.wanted()
        self._turn_key = turn_key(self._message)
        self._task_key = task_key(self._message)
        self._suspended: dict[int, GraphInterrupt] = {}
        self._results: dict[int, Any] = {}
        self.turn = self._new_turn()

    def _new_turn(self) -> Turn:
        state = self.given.state
        review = review_of(value_of(state, "reviewed"), self._message) if self.given.keeps("reviewed") else {}
        allowed = list(value_of(state, "approved_tools") or ())
        gate = CallGate((), limit=self._rules.limit)
        key, has_state = self.given.messages_key, self.given.kind != "messages"
        return Turn(self._toolbox, gate, state, self._message, review, allowed, key, has_state)

    # -- before anything runs ------------------------------------------------------------------------------------

    def is_known(self) -> bool:
        """Whether every call names a tool that is loaded, so that no server need be asked."""
        return self._toolbox.knows([self._message.tool_calls[at] for at in self._positions])

    def begin(self) -> bool:
        """Settle the permissions of the whole turn. `False` when there is nothing to run.

        Raises:
            ConfigError: a person must be asked, and the graph cannot wait.
            GraphInterrupt: the run is paused; with the answer, the node runs again from its beginning.
        """
        self.turn.asks = asks_by_interrupt(self._rules.provider, self.turn.allowed)
        if self.given.comes_alone:
            # The graph sends every call by itself. They share a gate, and a person is asked when it is the call's
            # turn: asked here, the calls behind it would overtake it.
            self.turn.gate = self._rules.gates.gate(self._turn_key, self._shared_gate)
            return True
        planned = self._plan(self._positions)
        questions = self._toolbox.questions(planned, self.turn.review, self.turn.allowed) if self.turn.asks else []
        if questions:
            self.turn.take(ask(questions), questions)
        self._choose(self._plan(self._positions))
        return bool(self._positions)

    def _plan(self, positions: Sequence[int]) -> list[Planned]:
        return self._toolbox.plan(self._message, positions, self.turn.review)

    def _choose(self, planned: list[Planned]) -> None:
        """Take what runs in this step: the whole turn, or one batch of it."""
        stopped = self._rules.stop_on_error and any(map(is_failure, results_of_turn(self.given.messages)))
        if self._rules.one_batch and not stopped:
            planned = next_batch(planned, one_by_one=self._is_serial())
        self._positions = [p.position for p in planned]
        self._results = self._rules.finished.take(self._task_key)
        self.turn.gate = self._new_gate(planned, after_failure=stopped)

    def _new_gate(self, planned: Sequence[Planned], *, after_failure: bool = False) -> CallGate:
        rules = self._rules
        return CallGate(planned, limit=rules.limit, stop_on_error=rules.stop_on_error, after_failure=after_failure)

    def _shared_gate(self) -> CallGate:
        pending = [at for at, _ in pending_calls(self.given.messages)] if self.given.in_conversation else []
        return self._new_gate(self._plan(pending or self._positions))

    def _is_serial(self) -> bool:
        kept = value_of(self.given.state, "reviewed") if self.given.keeps("reviewed") else None
        return isinstance(kept, Mapping) and kept.get("message") == self._message.id and bool(kept.get("serial"))

    # -- for the ToolNode inside ---------------------------------------------------------------------------------

    def inner_input(self) -> Any:
        """The calls of this step, in the form that makes `ToolNode` answer as it would have answered the input."""
        calls = [identified(self._message.tool_calls[at]) for at in self._positions]
        if self.given.kind == "messages":
            return [AIMessage("", tool_calls=calls)]
        if self.given.kind == "send":
            return {**self.given.given, "tool_call": calls[0]}
        return calls

    def finished(self, call: ToolCall) -> Any:
        """What a call came to in an earlier run of this very step, which an interrupt had ended; `None` otherwise."""
        if not self._results:
            return None
        planned = self.turn.gate.claim(call)
        if planned.position not in self._results:
            self.turn.gate.release(planned.position)
            return None
        self.turn.gate.skip(planned.position)
        return self._results[planned.position]

    def seen_by(self, request: ToolCallRequest) -> ToolCallRequest:
        """The request with the state that the node was given; the one inside got only the calls of this step."""
        return request.override(state=self.given.state)

    def keep(self, position: int, result: Any) -> Any:
        """Remember what a call came to, should another one of this step be interrupted."""
        self._results[position] = result
        return result

    def cut_off(self) -> None:
        """The step was cancelled, or broke: what its calls came to is there when it runs again in this process."""
        self._rules.gates.forget(self._turn_key)
        if self._results:
            self._rules.finished.keep(self._task_key, self._results)

    def suspend(self, position: int, interrupt: GraphInterrupt) -> Command[Any]:
        """A call waits for a person. Its neighbours finish first; `output` says what becomes of the step."""
        self._suspended[position] = interrupt
        return Command()

    # -- what comes of it ----------------------------------------------------------------------------------------

    def nothing(self) -> Any:
        """The output when no call is pending."""
        return [] if self.given.kind == "messages" else {self.given.messages_key: []}

    def output(self, inner: Any) -> Any:
        """What the node returns: like `ToolNode`, plus what our own state keeps.

        Raises:
            GraphInterrupt: a call of this step waits for a person.
        """
        self._rules.gates.forget(self._turn_key)
        serial = False
        if self._suspended:
            serial = self._rules.one_batch and len(self._positions) > 1 and self.given.keeps("reviewed")
            if not serial:
                self._rules.finished.keep(self._task_key, self._results)
                raise self._first_interrupt()
        if self.given.kind == "messages":
            return inner
        extra = self._own_state(inner, serial=serial)
        if isinstance(inner, Mapping):
            return {**inner, **extra}
        items = [item for item in inner if not _is_empty(item)]
        return self._joined([*items, *([extra] if extra else [])])

    def _joined(self, items: list[Any]) -> Any:
        """One update where no tool has returned a `Command`."""
        if any(isinstance(item, Command) for item in items):
            return items
        key = self.given.messages_key
        joined: dict[str, Any] = {key: []}
        for item in items:
            joined = {**joined, **item, key: [*joined[key], *item.get(key, ())]}
        return joined

    def _first_interrupt(self) -> GraphInterrupt:
        """The earliest one with a question; those held back behind it have none."""
        found = [self._suspended[at] for at in sorted(self._suspended)]
        return next((interrupt for interrupt in found if interrupt.args and interrupt.args[0]), found[0])

    def _own_state(self, inner: Any, *, serial: bool) -> dict[str, Any]:
        """Updates of the keys that the state has a place for."""
        updates: dict[str, Any] = {}
        if self.given.keeps("unverified_writes") and (entries := self._ledger(inner)):
            updates["unverified_writes"] = entries
        if self.given.keeps("approved_tools") and self.turn.for_session:
            updates["approved_tools"] = self.turn.for_session
        if self.given.keeps("reviewed") and (self.turn.answers or serial):
            calls = {str(at): decision for at, decision in self.turn.answers.items()}
            updates["reviewed"] = {"message": self._message.id, "calls": calls, **({"serial": True} if serial else {})}
        return updates

    def _ledger(self, inner: Any) -> list[Any]:
        before: list[ToolMessage] = results_of_turn(self.given.messages) if self.given.in_conversation else []
        found = positioned(self._message, [*before, *messages_in(inner, self.given.messages_key)])
        chosen = {at: message for at, message in found.items() if at in self._positions}
        sent = self._toolbox.sent(self._message, self.turn.review)
        return ledger(self._message, chosen, sent=sent, redact=self._rules.provider.service.redactor.redact)


def _is_empty(item: Any) -> bool:
    return isinstance(item, Command) and item == Command()
