"""The forms of input that `ToolNode` takes, read into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolCall

from codebuddy_mcp_tools.nodes.schedule import last_ai_message, pending_calls
from codebuddy_mcp_tools.nodes.state import keeps, value_of

Kind = Literal["state", "messages", "calls", "send"]


@dataclass(frozen=True, slots=True)
class StepInput:
    """What the node was given, whatever its form."""

    given: Any
    kind: Kind
    messages_key: str
    state: Any = None
    """The graph's state; a list where the state is a list of messages; `None` while it must still be read."""
    calls: Sequence[ToolCall] = ()
    """The calls to run, where the input names them; else those of the newest model message."""

    def of_state(self, state: Any) -> StepInput:
        """The same with the graph's state; `{}` outside a graph."""
        return replace(self, state={} if state is None else state)

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation."""
        if isinstance(self.state, list):
            return self.state
        return list(value_of(self.state, self.messages_key) or ())

    @property
    def comes_alone(self) -> bool:
        """Whether the graph sends each call of a turn by itself."""
        return len(self.calls) == 1

    @property
    def in_conversation(self) -> bool:
        """Whether the calls to run are calls of the newest model message."""
        return not self.calls or self._positions() is not None

    def keeps(self, key: str) -> bool:
        """Whether the state has a place for `key`."""
        return not isinstance(self.state, list) and keeps(self.state, key)

    def wanted(self) -> tuple[AIMessage, list[int]]:
        """The model's message, and which of its calls are to run.

        Raises:
            ValueError: there is no message of the model.
        """
        message = last_ai_message(self.messages)
        if not self.calls:
            if message is None:
                raise ValueError("there is no message of the model in the input, so there are no tool calls to run")
            return message, [at for at, _ in pending_calls(self.messages)]
        positions = self._positions()
        if message is None or positions is None:  # a turn of their own
            return AIMessage("", tool_calls=list(self.calls)), list(range(len(self.calls)))
        return message, positions

    def _positions(self) -> list[int] | None:
        """Where the calls of the input stand in the newest model message; `None` when one does not."""
        pending = pending_calls(self.messages)
        positions: list[int] = []
        for call in self.calls:
            same = [(other["args"] != call["args"], at) for at, other in pending if other["id"] == call["id"]]
            free = [pair for pair in same if pair[1] not in positions]
            if not free:
                return None
            positions.append(min(free)[1])
        return positions


def read_input(given: Any, messages_key: str) -> StepInput:
    """Tell the forms apart."""
    if isinstance(given, list) and given and isinstance(given[-1], dict) and given[-1].get("type") == "tool_call":
        return StepInput(given, "calls", messages_key, calls=given)
    if isinstance(given, list):
        return StepInput(given, "messages", messages_key, state=given)
    if isinstance(given, Mapping) and "tool_call" in given:  # what older graphs put into a `Send`
        return StepInput(given, "send", messages_key, state=given.get("state") or {}, calls=[given["tool_call"]])
    return StepInput(given, "state", messages_key, state=given)
