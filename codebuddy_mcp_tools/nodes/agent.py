"""The whole agent as a graph, and the routes between its nodes.

    START → model → tools → model … → gate → END
                    └ one batch of calls in each step ┘

Each batch is a step of its own: a crash or an interrupt repeats nothing that has run, and no write that was under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool
from langgraph.graph import END, START, StateGraph

from codebuddy_mcp_tools.nodes.binding import context_window_of, make_model_node, named_model
from codebuddy_mcp_tools.nodes.checks import check_provider
from codebuddy_mcp_tools.nodes.gate import CompletionGate, is_reprompt
from codebuddy_mcp_tools.nodes.schedule import pending_calls, results_of_turn
from codebuddy_mcp_tools.nodes.state import MCPAgentInput, MCPAgentState, value_of
from codebuddy_mcp_tools.nodes.tool_node import MCPToolNode

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider


def route_after_model(state: Any) -> Literal["tools", "model", "gate"]:
    """`tools` while the model's newest message has calls without an answer, else `gate`.

    `model` when all it has said is calls that are not JSON: it has been told, and is asked again. In a graph without a
    gate, give the routes a map: `{"tools": "tools", "model": "model", "gate": END}`.
    """
    messages = _messages(state)
    if pending_calls(messages):
        return "tools"
    return "model" if messages and isinstance(messages[-1], ToolMessage) else "gate"


def route_after_tools(state: Any) -> Literal["tools", "model"]:
    """`tools` while calls of the turn are left (`MCPToolNode(batch="next")`), else `model`."""
    return "tools" if pending_calls(_messages(state)) else "model"


def route_after_gate(state: Any) -> str:
    """`model` when the gate has sent the model back, else the end of the graph."""
    messages = _messages(state)
    return "model" if messages and is_reprompt(messages[-1]) else END


def _messages(state: Any) -> Sequence[AnyMessage]:
    found: Sequence[AnyMessage] = state if isinstance(state, list) else value_of(state, "messages") or ()
    return found


def build_mcp_agent(
    model: str | BaseChatModel,
    provider: ToolProvider,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
    system_prompt: str | SystemMessage | None = None,
    gate: bool = True,
    stop_on_error: bool = False,
) -> StateGraph[Any, Any, Any, Any]:
    """An agent over a provider's tools, uncompiled: add nodes of your own, then `compile(checkpointer=…)`.

    Args:
        model: a chat model that can bind tools, or a name for LangChain's `init_chat_model`.
        provider: whose tools.
        tools: the graph's own tools; plain functions with a docstring will do.
        system_prompt: put before the messages of every call.
        gate: send the model back once when it finishes with unverified writes.
        stop_on_error: do not run what follows a failed call of the same turn.

    Raises:
        ConfigError: (on use) a rule asks for approval, and the graph was compiled without a checkpointer.
    """
    check_provider(provider, "build_mcp_agent")
    model = named_model(model) if isinstance(model, str) else model
    own = [tool if isinstance(tool, BaseTool) else make_tool(tool) for tool in tools]
    tool_node = MCPToolNode(
        provider, tools=own, batch="next", stop_on_error=stop_on_error, context_window=context_window_of(model)
    )
    direct = frozenset(tool.name for tool in (*own, *provider.core_tools) if tool.return_direct)

    def after_tools(state: Any) -> str:
        """As `route_after_tools`; a turn of nothing but tools that return directly ends the run."""
        results = results_of_turn(_messages(state))
        is_direct = bool(results) and all(message.name in direct for message in results)
        route = route_after_tools(state)
        return "gate" if route == "model" and is_direct else route

    last = "gate" if gate else END
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(MCPAgentState, input_schema=MCPAgentInput)
    graph.add_node("model", make_model_node(model, provider, tools=own, system_prompt=system_prompt))
    graph.add_node("tools", tool_node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route_after_model, {"tools": "tools", "model": "model", "gate": last})
    graph.add_conditional_edges("tools", after_tools, {"tools": "tools", "model": "model", "gate": last})
    if gate:
        graph.add_node("gate", CompletionGate(provider))
        graph.add_conditional_edges("gate", route_after_gate, ["model", END])
    return graph
