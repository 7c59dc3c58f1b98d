"""The whole agent as a graph, and the routes between its nodes.

    START → model → tools → model … → gate → END
                    └ one batch of calls in each step ┘

Each batch is a step of its own: a crash or an interrupt repeats nothing that has run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph

from codebuddy_mcp_tools.nodes.binding import make_model_node
from codebuddy_mcp_tools.nodes.gate import CompletionGate, is_reprompt
from codebuddy_mcp_tools.nodes.schedule import pending_calls
from codebuddy_mcp_tools.nodes.state import MCPAgentState
from codebuddy_mcp_tools.nodes.tool_node import MCPToolNode

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider


def _messages(state: Any) -> Sequence[AnyMessage]:
    found: Sequence[AnyMessage] = state["messages"] if isinstance(state, Mapping) else state.messages
    return found


def route_after_model(state: Any) -> Literal["tools", "gate"]:
    """`tools` while the model's newest message has calls without an answer, else `gate`."""
    return "tools" if pending_calls(_messages(state)) else "gate"


def route_after_tools(state: Any) -> Literal["tools", "model"]:
    """`tools` while calls of the turn are left (`MCPToolNode(batch="next")`), else `model`."""
    return "tools" if pending_calls(_messages(state)) else "model"


def route_after_gate(state: Any) -> str:
    """`model` when the gate has sent the model back, else the end of the graph."""
    messages = _messages(state)
    return "model" if messages and is_reprompt(messages[-1]) else END


def build_mcp_agent(
    model: BaseChatModel,
    provider: ToolProvider,
    *,
    tools: Sequence[BaseTool] = (),
    system_prompt: str | SystemMessage | None = None,
    gate: bool = True,
) -> StateGraph[Any, Any, Any, Any]:
    """An agent over a provider's tools, uncompiled: add nodes of your own, then `compile(checkpointer=…)`.

    Args:
        model: a chat model that can bind tools.
        provider: whose tools.
        tools: the graph's own tools.
        system_prompt: put before the messages of every call.
        gate: send the model back once when it finishes with unverified writes.
    """
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(MCPAgentState)
    graph.add_node("model", make_model_node(model, provider, tools=tools, system_prompt=system_prompt))
    graph.add_node("tools", MCPToolNode(provider, tools=tools, batch="next"))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("tools", route_after_tools, ["tools", "model"])
    if gate:
        graph.add_node("gate", CompletionGate(provider))
        graph.add_conditional_edges("model", route_after_model, ["tools", "gate"])
        graph.add_conditional_edges("gate", route_after_gate, ["model", END])
    else:
        graph.add_conditional_edges("model", route_after_model, {"tools": "tools", "gate": END})
    return graph
