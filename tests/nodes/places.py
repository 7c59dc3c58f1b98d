"""The four places where the nodes are used, behind one function each: same input, same state out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from codebuddy_mcp_tools import (
    CompletionGate,
    MCPAgentInput,
    MCPAgentState,
    MCPToolNode,
    MCPToolsMiddleware,
    ToolProvider,
    build_mcp_agent,
    make_model_node,
    route_after_gate,
    route_after_model,
)

Place = Callable[..., Any]


def strangers_graph(
    model: Any,
    provider: ToolProvider,
    *,
    tools: Sequence[Any] = (),
    checkpointer: Any = None,
    stop_on_error: bool = False,
) -> Any:
    """Somebody's own graph, state and model node; only the tool node is ours."""

    def ask(state: MessagesState) -> dict[str, Any]:
        shown = provider.get_tools()
        return {"messages": [model.bind_tools([*shown, *tools]).invoke(state["messages"])]}

    async def aask(state: MessagesState) -> dict[str, Any]:
        shown = await provider.get_tools_async()
        return {"messages": [await model.bind_tools([*shown, *tools]).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", RunnableLambda(ask, aask))
    graph.add_node("tools", MCPToolNode(provider, tools=tools, stop_on_error=stop_on_error))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
    graph.add_edge("tools", "ask")
    return graph.compile(checkpointer=checkpointer)


def custom_graph(
    model: Any,
    provider: ToolProvider,
    *,
    tools: Sequence[Any] = (),
    checkpointer: Any = None,
    stop_on_error: bool = False,
) -> Any:
    """A graph put together from our pieces."""
    graph = StateGraph(MCPAgentState, input_schema=MCPAgentInput)
    graph.add_node("model", make_model_node(model, provider, tools=tools))
    graph.add_node("tools", MCPToolNode(provider, tools=tools, stop_on_error=stop_on_error))
    graph.add_node("gate", CompletionGate(provider))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route_after_model, ["tools", "model", "gate"])
    graph.add_edge("tools", "model")
    graph.add_conditional_edges("gate", route_after_gate, ["model", END])
    return graph.compile(checkpointer=checkpointer)


def whole_agent(
    model: Any,
    provider: ToolProvider,
    *,
    tools: Sequence[Any] = (),
    checkpointer: Any = None,
    stop_on_error: bool = False,
) -> Any:
    """`build_mcp_agent`."""
    agent = build_mcp_agent(model, provider, tools=tools, stop_on_error=stop_on_error)
    return agent.compile(checkpointer=checkpointer)


def langchain_agent(
    model: Any,
    provider: ToolProvider,
    *,
    tools: Sequence[Any] = (),
    checkpointer: Any = None,
    stop_on_error: bool = False,
) -> Any:
    """`create_agent` with the middleware."""
    middleware = MCPToolsMiddleware(provider, stop_on_error=stop_on_error)
    return create_agent(model, list(tools), middleware=[middleware], checkpointer=checkpointer)


ALL: list[Place] = [strangers_graph, custom_graph, whole_agent, langchain_agent]
WITH_STATE: list[Place] = [custom_graph, whole_agent, langchain_agent]
"""Where the state has room for what we keep in it."""
