"""The completion gate: a model that wants to finish with unverified writes is sent back once to read them.

After that the run may end; what stayed unverified is in the state and in a `custom` stream event, `{"type":
"mcp_unverified_writes", "writes": [...]}`. A reliability measure, not a security boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AnyMessage, HumanMessage, add_notification_metadata
from langchain_core.runnables import Runnable, RunnableConfig

from codebuddy_mcp_tools.nodes.checks import check_count, check_provider
from codebuddy_mcp_tools.nodes.debts import owed_in, reprompt
from codebuddy_mcp_tools.nodes.state import Write, keeps, value_of
from codebuddy_mcp_tools.nodes.streaming import emit
from codebuddy_mcp_tools.types import Effect

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

GATE_SOURCE = "codebuddy_completion_gate"
"""`additional_kwargs["lc_source"]` of the gate's own messages, by which front ends tell them from the user's."""
_SOURCE_KEY = "lc_source"
_MAX_NAMED = 5


class CompletionGate(Runnable[Any, dict[str, Any]]):
    """A node between the model and the end of the run.

    Works on `unverified_writes` where the state keeps it, else on the tool messages of the conversation.

    Args:
        provider: whose settings (`completionGate.enabled`) and tools.
        max_reprompts: how often the model is sent back between two messages of the user.
        messages_key: where the state keeps its messages.
    """

    def __init__(self, provider: ToolProvider, max_reprompts: int = 1, *, messages_key: str = "messages") -> None:
        check_provider(provider, "CompletionGate")
        check_count(max_reprompts, "max_reprompts", "CompletionGate", least=0)
        self.name = "gate"
        self._provider = provider
        self._max = max_reprompts
        self._messages_key = messages_key

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: A002, ARG002
        """The state update: `{"gate_reprompts": n}`, and with a reprompt also the message."""
        messages = list(value_of(input, self._messages_key) or ())
        owed = value_of(input, "unverified_writes") or ()
        if not keeps(input, "unverified_writes"):
            owed = owed_in(messages, self._provider.service.redactor.redact)
        return self.check(messages, owed, value_of(input, "gate_reprompts"))

    def check(
        self, messages: Sequence[AnyMessage], owed: Sequence[Write], counted: int | None = None
    ) -> dict[str, Any]:
        """The state update for a model that wants to finish.

        Args:
            messages: the conversation.
            owed: the writes that nothing has verified.
            counted: the reprompts that the state has counted. It decides where the conversation no longer shows them,
                because it was shortened.
        """
        used = reprompts_since_user(messages)
        if used is None:
            used = counted or 0
        if not owed or not self._provider.settings.completion_gate_enabled:
            return {"gate_reprompts": used}
        if used >= self._max:
            emit({"type": "mcp_unverified_writes", "writes": list(owed)})
            return {"gate_reprompts": used}
        note = add_notification_metadata(
            HumanMessage(reprompt(owed, self._read_back)),
            source=GATE_SOURCE,
            data={"reprompt": used + 1, "writes": [write["id"] for write in owed]},
        )
        return {self._messages_key: [note], "gate_reprompts": used + 1}

    def _read_back(self, server: str) -> str | None:
        """Names read tools of a server that the model must search for before it can use them."""
        names = [
            tool.name
            for tool in self._provider.catalog.deferred()
            if tool.info.server == server and (tool.metadata or {}).get("effect") == Effect.READ.value
        ]
        if not names:
            return None
        if self._provider.catalog.tool_search == "provider":
            return f"Read tools of {server}, to be searched for: {', '.join(names[:_MAX_NAMED])}"
        return f"Read tools of {server} that ToolSearch loads: select:{','.join(names[:_MAX_NAMED])}"


def reprompts_since_user(messages: Sequence[AnyMessage]) -> int | None:
    """How often the gate has spoken since the user last did; `None` when the user's message is no longer there."""
    count = 0
    for message in reversed(messages):
        if not isinstance(message, HumanMessage):
            continue
        if is_reprompt(message):
            count += 1
        elif _SOURCE_KEY not in message.additional_kwargs:  # other notes of the program are not the user's, either
            return count
    return None


def is_reprompt(message: AnyMessage) -> bool:
    """Whether the gate wrote this message."""
    return message.additional_kwargs.get(_SOURCE_KEY) == GATE_SOURCE
