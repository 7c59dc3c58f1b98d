"""The state of an agent that uses MCP tools: plain JSON types beside the messages, so every checkpointer keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

Write = dict[str, Any]
"""One write nobody has verified: `{"id", "server", "tool", "name", "arguments", "outcome"}`, all text."""
WritesUpdate = Mapping[str, Sequence[Any]]
"""`{"add": [Write, …], "clear": [id, …]}`."""


def keep_order_union(before: Sequence[str] | None, added: Sequence[str] | None) -> list[str]:
    """Both lists without repetitions, in order of first appearance: two searches of one turn merge."""
    return list(dict.fromkeys([*(before or ()), *(added or ())]))


def merge_writes(before: Sequence[Write] | None, update: Sequence[Write] | WritesUpdate | None) -> list[Write]:
    """Apply an update to the unverified writes.

    A mapping adds and clears; a plain list, which is what a subgraph hands to its parent, only adds: a debt is
    never lost.
    """
    if isinstance(update, Mapping):
        added, cleared = update.get("add", ()), set(update.get("clear", ()))
    else:
        added, cleared = update or (), set()
    merged = {write["id"]: write for write in (*(before or ()), *added)}
    return [write for key, write in merged.items() if key not in cleared]


class MCPAgentState(TypedDict):
    """State of `build_mcp_agent`, and of a graph made from its pieces."""

    messages: Annotated[list[AnyMessage], add_messages]
    activated_tools: NotRequired[Annotated[list[str], keep_order_union]]
    """Visible names of the deferred tools that a search has made callable in this thread."""
    unverified_writes: NotRequired[Annotated[list[Write], merge_writes]]
    """Successful writes, and writes whose outcome is unknown, that nothing has read back yet."""
    gate_reprompts: NotRequired[int]
    """How often the completion gate has sent the model back since the last message of the user."""
    approved_calls: NotRequired[Annotated[list[str], keep_order_union]]
    """Ids of tool calls that a person has approved."""
    approved_tools: NotRequired[Annotated[list[str], keep_order_union]]
    """Visible names of tools that a person has allowed for this thread."""
