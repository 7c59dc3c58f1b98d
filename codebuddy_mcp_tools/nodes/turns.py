"""What a turn is known by, and what is remembered of it between two runs of the same step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import ExecutionInfo, get_runtime

from codebuddy_mcp_tools.nodes.approval import Decision

MAX_STEPS = 64


def turn_key(message: AIMessage, info: ExecutionInfo | None = None) -> Hashable:
    """Names the turn in this process: the same for all calls of one step, and again when it is resumed."""
    return (*_step_of(info), _name_of(message))


def task_key(message: AIMessage, info: ExecutionInfo | None = None) -> Hashable:
    """Names the run of one node: the same when it is resumed from its checkpoint."""
    info = info or running_task()
    return (*_step_of(info), info.checkpoint_ns if info is not None else "", _name_of(message))


def running_task() -> ExecutionInfo | None:
    """What LangGraph tells of the running node; `None` outside a graph."""
    try:
        return get_runtime().execution_info
    except (RuntimeError, KeyError, AttributeError):
        return None


def _step_of(info: ExecutionInfo | None) -> tuple[Hashable, ...]:
    info = info or running_task()
    if info is None:
        return ()
    return info.thread_id, info.checkpoint_id, info.checkpoint_ns.rpartition("|")[0]


def _name_of(message: AIMessage) -> Hashable:
    return message.id or tuple(call["id"] for call in message.tool_calls)


def review_of(kept: Any, message: AIMessage) -> dict[int, Decision]:
    """What a person has answered about the calls of this message, by position."""
    if not isinstance(kept, Mapping) or kept.get("message") != message.id:
        return {}
    return {int(at): decision for at, decision in kept.get("calls", {}).items()}


class Finished:
    """What the calls of a step came to that an interrupt ended, for when the step is resumed in this process.

    LangGraph runs an interrupted node again from its beginning. A call that had ended must not run again then.
    """

    def __init__(self) -> None:
        self._steps: OrderedDict[Hashable, dict[int, Any]] = OrderedDict()
        self._lock = Lock()

    def keep(self, step: Hashable, results: Mapping[int, Any]) -> None:
        """Remember what has ended so far."""
        with self._lock:
            self._steps[step] = dict(results)
            while len(self._steps) > MAX_STEPS:
                self._steps.popitem(last=False)

    def take(self, step: Hashable) -> dict[int, Any]:
        """What had ended; forgotten here."""
        with self._lock:
            return self._steps.pop(step, {})
