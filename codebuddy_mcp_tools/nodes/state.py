"""The state of an agent that uses MCP tools: plain JSON types beside the messages, so every checkpointer keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

Write = dict[str, Any]
"""One write nobody has verified: `{"id", "call_id", "server", "tool", "name", "arguments", "outcome"}`, all text."""
LedgerEntry = Mapping[str, Any]
"""A `Write`, or `{"event": "read", "server": …}`: a successful read, which pays the server's debts so far."""
Review = dict[str, Any]
"""What a person answered about one turn: `{"message": id of the model's message, "calls": {position: decision}}`.

A position is the call's place among the message's tool calls, as text. Bound to the message and not to the id of a
call, because models use ids again, and an approval must never reach another call.
"""


def keep_order_union(before: Sequence[str] | None, added: Sequence[str] | None) -> list[str]:
    """Both lists without repetitions, in order of first appearance: two searches of one turn merge."""
    return list(dict.fromkeys([*(before or ()), *(added or ())]))


def merge_writes(before: Sequence[Write] | None, entries: Sequence[LedgerEntry] | None) -> list[Write]:
    """Apply what happened, in the order in which it happened: writes are added, a read clears those of its server.

    A subgraph hands its whole list to its parent; since it holds no reads, it only adds: a debt is never lost.
    """
    owed = {write["id"]: write for write in before or ()}
    for entry in entries or ():
        if entry.get("event") == "read":
            owed = {key: write for key, write in owed.items() if write["server"] != entry["server"]}
        else:
            owed[entry["id"]] = dict(entry)
    return list(owed.values())


def latest_review(before: Review | None, after: Review | None) -> Review:
    """The answers for the newest turn; answers for the same turn add up."""
    old, new = before or {}, after or {}
    if not new or old.get("message") != new.get("message"):
        return dict(new or old)
    return {**old, **new, "calls": {**old.get("calls", {}), **new.get("calls", {})}}


class MCPAgentState(TypedDict):
    """State of `build_mcp_agent`, and of a graph made from its pieces."""

    messages: Annotated[list[AnyMessage], add_messages]
    activated_tools: NotRequired[Annotated[list[str], keep_order_union]]
    """Visible names of the deferred tools that a search has made callable in this thread."""
    unverified_writes: NotRequired[Annotated[list[Write], merge_writes]]
    """Successful writes, and writes whose outcome is unknown, that nothing has read back yet."""
    gate_reprompts: NotRequired[int]
    """How often the completion gate has sent the model back since the last message of the user."""
    approved_tools: NotRequired[Annotated[list[str], keep_order_union]]
    """Visible names of tools that a person has allowed for this thread."""
    reviewed: NotRequired[Annotated[Review, latest_review]]
    """What a person has answered about the calls of the newest turn."""


class MCPAgentInput(TypedDict):
    """What a run may be started with: the state without what a person has answered.

    Whoever can write a graph's input could approve calls otherwise. Use it where the pieces are put together:
    `StateGraph(MCPAgentState, input_schema=MCPAgentInput)`.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    activated_tools: NotRequired[Annotated[list[str], keep_order_union]]
    unverified_writes: NotRequired[Annotated[list[Write], merge_writes]]
    gate_reprompts: NotRequired[int]


def value_of(state: Any, key: str) -> Any:
    """A value of a state that is a mapping, a dataclass or a pydantic model; `None` when it has none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def keeps(state: Any, key: str) -> bool:
    """Whether this state has a place for `key`; a stranger's state need not have ours."""
    return key in state if isinstance(state, Mapping) else hasattr(state, key)
