"""The order of one turn of tool calls. Pure functions over messages.

Batches in the model's order: neighbouring read-only calls together, every other call alone (CodeBuddy Code page,
"Concurrent Tool Execution"). Read-only means an explicit hint, or `metadata["readOnly"]` of a core tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Planned:
    """One call of a turn."""

    position: int
    """Its place among the tool calls of the model's message."""
    call: ToolCall
    read_only: bool = False
    """Whether it may run beside other reads."""


def last_ai_message(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """The newest message of the model."""
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)


def results_of_turn(messages: Sequence[AnyMessage]) -> list[ToolMessage]:
    """The answers that the newest message of the model has got so far, in the order of the conversation."""
    found: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            found.append(message)
    return found[::-1]


def positioned(message: AIMessage, results: Sequence[ToolMessage]) -> dict[int, ToolMessage]:
    """Which call each result answers, by position. An id that is used twice is answered in order."""
    waiting: dict[str, list[int]] = {}
    for position, call in enumerate(message.tool_calls):
        waiting.setdefault(call["id"] or "", []).append(position)
    found: dict[int, ToolMessage] = {}
    for result in results:
        positions = waiting.get(result.tool_call_id)
        if positions:
            found[positions.pop(0)] = result
    return found


def pending_calls(messages: Sequence[AnyMessage]) -> list[tuple[int, ToolCall]]:
    """The calls of the newest model message that have no answer yet, with their positions."""
    message = last_ai_message(messages)
    if message is None:
        return []
    answered = positioned(message, results_of_turn(messages))
    return [(at, call) for at, call in enumerate(message.tool_calls) if at not in answered]


def batches(calls: Iterable[T], may_share: Callable[[T], bool]) -> list[list[T]]:
    """The calls in batches that run one after another; what is in one batch may run at the same time."""
    found: list[list[T]] = []
    open_to_more = False
    for call in calls:
        shares = may_share(call)
        if shares and open_to_more:
            found[-1].append(call)
        else:
            found.append([call])
        open_to_more = shares
    return found


def next_batch(calls: Sequence[Planned], *, one_by_one: bool = False) -> list[Planned]:
    """The batch that runs next. A call whose id another one of the batch has waits: its answer could not be told apart.

    Args:
        calls: what is pending, in the model's order.
        one_by_one: let nothing run beside another call.
    """
    first = next(iter(batches(calls, lambda planned: planned.read_only and not one_by_one)), [])
    ids = Counter[str]()
    for at, planned in enumerate(first):
        ids[planned.call["id"] or ""] += 1
        if ids[planned.call["id"] or ""] > 1:
            return first[:at]
    return first
