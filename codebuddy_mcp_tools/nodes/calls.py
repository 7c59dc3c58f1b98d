"""One tool call inside its turn: found, permitted, admitted in its order, run, and told.

What the tool node and the middleware have in common. Both hang it into LangGraph's `ToolNode` as the wrapper of every
tool call, in a synchronous and an asynchronous form that differ in nothing but how they wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from codebuddy_mcp_tools.nodes.approval import Decision, Question, answered, ask, edit_notice, of_session, refusal
from codebuddy_mcp_tools.nodes.callgate import Admission, Announce, CallGate
from codebuddy_mcp_tools.nodes.order import CallEvent
from codebuddy_mcp_tools.nodes.schedule import Planned
from codebuddy_mcp_tools.nodes.state import keeps
from codebuddy_mcp_tools.nodes.streaming import Writer, announcer, output_deltas
from codebuddy_mcp_tools.nodes.toolbox import Found, Toolbox, edited
from codebuddy_mcp_tools.tools.callid import state_key
from codebuddy_mcp_tools.tools.grants import grant

_STOPPED = "Not run: an earlier call of this turn failed, and this node stops at the first error."


@dataclass(slots=True)
class Turn:
    """The turn that a call belongs to, as far as one step knows it."""

    toolbox: Toolbox
    gate: CallGate
    state: Any
    message: AIMessage
    review: dict[int, Decision] = field(default_factory=dict)
    """What a person has answered, by position."""
    allowed: Collection[str] = ()
    """Visible names of tools that were allowed for the session."""
    messages_key: str = "messages"
    has_state: bool = True
    """Whether there is a state that a tool's `Command` can update; not for a list of messages."""
    asks: bool = True
    """Whether a person is asked by an interrupt; else the provider's own handler is, or nobody."""
    answers: dict[int, Decision] = field(default_factory=dict)
    """What a person has answered in this very step."""
    for_session: list[str] = field(default_factory=list)

    def take(self, answers: Mapping[int, Decision], questions: Sequence[Question]) -> None:
        """Keep what a person has just answered."""
        self.review.update(answers)
        self.answers.update(answers)
        self.for_session += of_session(answers, questions)
        self.allowed = [*self.allowed, *self.for_session]


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may run as soon as it is its turn."""

    planned: Planned
    request: ToolCallRequest
    found: Found
    question: Question | None = None


def run_call(turn: Turn, planned: Planned, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
    """Run one call when it is its turn. Returns what `ToolNode` takes: a `ToolMessage` or a `Command`.

    Raises:
        GraphInterrupt: a person must be asked, or a call before this one waits for a person.
    """
    ready = _prepared(turn, planned, request)
    if not isinstance(ready, Ready):
        return ready
    announce = _announce(request)
    answer = _not_begun(turn, planned, turn.gate.enter(planned.position, announce))
    if answer is not None:
        return answer
    with _running(turn, planned, announce) as end:
        ready = _permitted(turn, ready)
        if not isinstance(ready, Ready):
            return end(ready)
        with _watched(turn, ready):
            result = execute(ready.request)
        return end(_told(turn, ready, result))


async def arun_call(
    turn: Turn, planned: Planned, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]
) -> Any:
    """`run_call` for a loop."""
    ready = _prepared(turn, planned, request)
    if not isinstance(ready, Ready):
        return ready
    announce = _announce(request)
    answer = _not_begun(turn, planned, await turn.gate.aenter(planned.position, announce))
    if answer is not None:
        return answer
    with _running(turn, planned, announce) as end:
        ready = _permitted(turn, ready)
        if not isinstance(ready, Ready):
            return end(ready)
        with _watched(turn, ready):
            result = await execute(ready.request)
        return end(_told(turn, ready, result))


# -- before it runs ----------------------------------------------------------------------------------------------


def _prepared(turn: Turn, planned: Planned, request: ToolCallRequest) -> Any:
    """The call with its tool, or the answer to one that does not run."""
    decision = turn.review.get(planned.position)
    found = turn.toolbox.find(edited(planned.call, decision))
    if decision is not None and decision["type"] in ("reject", "respond"):
        turn.gate.skip(planned.position)
        return refusal(planned, decision, found.target)
    if found.tool is None:
        turn.gate.skip(planned.position, failed=True)
        return turn.toolbox.unknown(planned, edited(planned.call, decision)["name"])
    if decision is None and found.target is not None and turn.toolbox.is_asleep(planned.call, found.target):
        turn.gate.skip(planned.position, failed=True)
        return _woken(turn, planned, found)
    call = {**edited(planned.call, decision), "name": found.tool.name}
    question = turn.toolbox.question(planned, turn.review, turn.allowed) if turn.asks else None
    return Ready(planned, request.override(tool=found.tool, tool_call=call), found, question)  # type: ignore[arg-type]


def _woken(turn: Turn, planned: Planned, found: Found) -> Any:
    if found.target is None:
        raise ValueError("only a provider's tool can be deferred")
    message = turn.toolbox.waking(planned, found.target)
    if not keeps(turn.state, "activated_tools"):
        return message
    return Command(update={"activated_tools": [found.target.name], turn.messages_key: [message]})


def _not_begun(turn: Turn, planned: Planned, admission: Admission) -> ToolMessage | None:
    if admission is Admission.HELD_BACK:
        raise GraphInterrupt(())  # it stays pending, and is sent again when the run is resumed
    if admission is Admission.STOPPED:
        return answered(planned, _STOPPED, turn.toolbox.find(planned.call).target)
    return None


def _permitted(turn: Turn, ready: Ready) -> Any:
    """Ask about a call that nobody has answered for yet, now that it is its turn."""
    if ready.question is None:
        return ready
    turn.take(ask([ready.question]), [ready.question])
    decision = turn.review[ready.planned.position]
    if decision["type"] in ("reject", "respond"):
        return refusal(ready.planned, decision, ready.found.target)
    call = edited(ready.planned.call, decision)
    found = turn.toolbox.find(call)
    if found.tool is None:
        return turn.toolbox.unknown(ready.planned, call["name"])
    request = ready.request.override(tool=found.tool, tool_call={**call, "name": found.tool.name})
    return replace(ready, request=request, found=found, question=None)


# -- while it runs -----------------------------------------------------------------------------------------------


@contextmanager
def _running(turn: Turn, planned: Planned, announce: Announce) -> Iterator[Callable[[Any], Any]]:
    """Hold the call's place in the turn, and give it free with how the call ended."""
    event = CallEvent.FAIL

    def end(result: Any) -> Any:
        nonlocal event
        event = CallEvent.FAIL if _has_failed(result, turn.messages_key) else CallEvent.SUCCEED
        return result

    try:
        yield end
    except GraphInterrupt:
        event = CallEvent.SUSPEND
        raise
    finally:
        turn.gate.leave(planned.position, event, announce)


@contextmanager
def _watched(turn: Turn, ready: Ready) -> Iterator[None]:
    """Grants, announcements and output deltas of one call."""
    call, target = ready.request.tool_call, ready.found.target
    approved = ready.planned.position in turn.review or (target is not None and target.name in turn.allowed)
    token = state_key.set(turn.messages_key if turn.has_state else None)
    try:
        with grant([call["id"] or ""] if approved else []), output_deltas(ready.request):
            yield
    finally:
        state_key.reset(token)


def _announce(request: ToolCallRequest) -> Announce:
    writer: Writer | None = getattr(request.runtime, "stream_writer", None)
    return announcer(writer if writer is not None else _nowhere)


def _nowhere(_event: Any) -> None:
    """Where events go outside a graph."""


# -- after it ran ------------------------------------------------------------------------------------------------


def _told(turn: Turn, ready: Ready, result: Any) -> Any:
    """The result, with a note before it where a person changed the call."""
    decision = turn.review.get(ready.planned.position)
    if decision is None or decision["type"] != "edit":
        return result
    notice = edit_notice(decision)
    if isinstance(result, ToolMessage):
        return _noted(result, notice)
    if isinstance(result, Command) and isinstance(result.update, dict):
        key = turn.messages_key
        messages = [_noted(m, notice) if isinstance(m, ToolMessage) else m for m in result.update.get(key, [])]
        return replace(result, update={**result.update, key: messages})
    return result


def _noted(message: ToolMessage, notice: str) -> ToolMessage:
    old: Any = message.content
    content = f"{notice}\n{old}" if isinstance(old, str) else [{"type": "text", "text": notice}, *old]
    return message.model_copy(update={"content": content})


def answered_instead(request: ToolCallRequest, text: str) -> ToolMessage:
    """The error message in place of the result of a tool that raised."""
    call = request.tool_call
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"] or "", status="error")


def _has_failed(result: Any, messages_key: str) -> bool:
    messages = messages_in(result, messages_key)
    return any(is_failure(message) for message in messages)


def is_failure(message: ToolMessage) -> bool:
    """Whether a call went wrong; a person's refusal is a decision, not a failure."""
    facts = message.artifact if isinstance(message.artifact, Mapping) else {}
    return message.status == "error" and "decision" not in facts


def messages_in(result: Any, messages_key: str) -> list[ToolMessage]:
    """The tool messages of what a call, or a `ToolNode`, returned."""
    if isinstance(result, ToolMessage):
        return [result]
    if isinstance(result, Command):
        return messages_in(result.update, messages_key)
    if isinstance(result, Mapping):
        return messages_in(list(result.get(messages_key) or ()), messages_key)
    if isinstance(result, list):
        return [message for item in result for message in messages_in(item, messages_key)]
    return []
