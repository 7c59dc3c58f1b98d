"""The order of one turn of tool calls. Pure functions over messages.

Batches in the model's order: neighbouring read-only calls together, every other call alone (CodeBuddy Code page,
"Concurrent Tool Execution"). Read-only means an explicit hint, or `metadata["readOnly"]` of a core tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

IsReadOnly = Callable[[ToolCall], bool]


def last_ai_message(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """The newest message of the model."""
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)


def pending_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of the newest model message that have no answer yet. An id that is used twice needs two answers."""
    answered: Counter[str] = Counter()
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return [call for call in message.tool_calls if not _take(answered, call["id"] or "")]
        if isinstance(message, ToolMessage):
            answered[message.tool_call_id] += 1
    return []


def _take(answered: Counter[str], call_id: str) -> bool:
    if answered[call_id] <= 0:
        return False
    answered[call_id] -= 1
    return True


def batches(calls: Sequence[ToolCall], is_read_only: IsReadOnly) -> list[list[ToolCall]]:
    """The calls in batches that run one after another; what is in one batch may run at the same time."""
    found: list[list[ToolCall]] = []
    joins = False
    for call in calls:
        reads = is_read_only(call)
        if reads and joins:
            found[-1].append(call)
        else:
            found.append([call])
        joins = reads
    return found
