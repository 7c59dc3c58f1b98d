"""LangGraph nodes: the model node, the tool node, the completion gate, the graph of them, and a middleware.

Policy: permissions are settled for a whole turn before anything of it runs; neighbouring reads run together,
everything else alone, in the model's order; what happened is told in the order of the calls. State is plain data.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codebuddy_mcp_tools.nodes.agent import (
        build_mcp_agent,
        route_after_gate,
        route_after_model,
        route_after_tools,
    )
    from codebuddy_mcp_tools.nodes.binding import make_model_node
    from codebuddy_mcp_tools.nodes.gate import CompletionGate
    from codebuddy_mcp_tools.nodes.middleware import MCPToolsMiddleware
    from codebuddy_mcp_tools.nodes.state import MCPAgentInput, MCPAgentState
    from codebuddy_mcp_tools.nodes.tool_node import MCPToolNode

_HOMES = {
    "CompletionGate": "gate",
    "MCPAgentInput": "state",
    "MCPAgentState": "state",
    "MCPToolNode": "tool_node",
    "MCPToolsMiddleware": "middleware",
    "build_mcp_agent": "agent",
    "make_model_node": "binding",
    "route_after_gate": "agent",
    "route_after_model": "agent",
    "route_after_tools": "agent",
}

__all__ = [
    "CompletionGate",
    "MCPAgentInput",
    "MCPAgentState",
    "MCPToolNode",
    "MCPToolsMiddleware",
    "build_mcp_agent",
    "make_model_node",
    "route_after_gate",
    "route_after_model",
    "route_after_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
