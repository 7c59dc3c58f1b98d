"""The completion gate: a model that wants to finish with unverified writes is sent back once to read them.

After that the run may end; what stayed unverified is in the state and in a `custom` stream event, `{"type":
"mcp_unverified_writes", "writes": [...]}`. A reliability measure, not a security boundary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig

from codebuddy_mcp_tools.nodes.debts import reprompt
from codebuddy_mcp_tools.nodes.state import Write
from codebuddy_mcp_tools.nodes.streaming import emit
from codebuddy_mcp_tools.types import Effect, Exposure

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

GATE_MARK = "codebuddy_completion_gate"
"""Key in `additional_kwargs` of the gate's own messages."""
_MAX_NAMED = 5


class CompletionGate(Runnable[Any, dict[str, Any]]):
    """A node between the model and the end of the run.

    Args:
        provider: whose settings (`completionGate.enabled`) and tools.
        max_reprompts: how often the model is sent back between two messages of the user.
    """

    def __init__(self, provider: ToolProvider, max_reprompts: int = 1) -> None:
        self.name = "gate"
        self._provider = provider
        self._max = max_reprompts

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: A002, ARG002
        state: Mapping[str, Any] = input if isinstance(input, Mapping) else vars(input)
        return self.check(state["messages"], state.get("unverified_writes") or ())

    def check(self, messages: Sequence[AnyMessage], owed: Sequence[Write]) -> dict[str, Any]:
        """The state update: a reprompt, or only the count."""
        used = reprompts_since_user(messages)
        if not owed or not self._provider.settings.completion_gate_enabled:
            return {"gate_reprompts": used}
        if used >= self._max:
            emit({"type": "mcp_unverified_writes", "writes": list(owed)})
            return {"gate_reprompts": used}
        text = reprompt(owed, self._read_back)
        message = HumanMessage(text, additional_kwargs={GATE_MARK: True})
        return {"messages": [message], "gate_reprompts": used + 1}

    def _read_back(self, server: str) -> str | None:
        """Names read tools of a server that the model must search for before it can use them."""
        levels = self._provider.catalog.levels()
        names = [
            tool.name
            for tool in self._provider.catalog
            if tool.info.server == server
            and (tool.metadata or {}).get("effect") == Effect.READ.value
            and levels.get(tool.name) is Exposure.DEFERRED
        ]
        if not names:
            return None
        return f"Read tools of {server} that ToolSearch loads: select:{','.join(names[:_MAX_NAMED])}"


def reprompts_since_user(messages: Sequence[AnyMessage]) -> int:
    """How often the gate has spoken since the user last did."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            if not is_reprompt(message):
                break
            count += 1
    return count


def is_reprompt(message: AnyMessage) -> bool:
    """Whether the gate wrote this message."""
    return message.additional_kwargs.get(GATE_MARK) is True
