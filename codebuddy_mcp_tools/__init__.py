"""MCP servers as LangChain tools and LangGraph nodes.

Everything public is importable from here and nothing else is public. Names are loaded when they are first used:
importing the package starts nothing and imports neither LangGraph nor LangChain's agents nor the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codebuddy_mcp_tools.client import CircuitBreaker, MCPClient
    from codebuddy_mcp_tools.config import HttpServer, Settings, SseServer, StdioServer, load_settings
    from codebuddy_mcp_tools.errors import (
        BlockedURLError,
        CallTimeoutError,
        CircuitOpenError,
        ConfigError,
        ConfigSyntaxError,
        ConnectError,
        ConnectionLostError,
        MCPToolsError,
        PolicyError,
        ProtocolError,
        ServerError,
        ServerNotApprovedError,
        ToolDeniedError,
        ToolFailedError,
        UnknownServerError,
    )
    from codebuddy_mcp_tools.nodes import (
        CompletionGate,
        MCPAgentInput,
        MCPAgentState,
        MCPToolNode,
        MCPToolsMiddleware,
        build_mcp_agent,
        make_model_node,
        route_after_gate,
        route_after_model,
        route_after_tools,
    )
    from codebuddy_mcp_tools.policy import (
        ApprovalRequest,
        Decision,
        PermissionPolicy,
        ServerApprovals,
        validate_outbound_url_async,
    )
    from codebuddy_mcp_tools.service import MCPService
    from codebuddy_mcp_tools.tools import ToolCatalog, ToolProvider
    from codebuddy_mcp_tools.types import CircuitState, ClientState, ServerStatus

_HOMES = {
    "client": ("CircuitBreaker", "MCPClient"),
    "config": ("HttpServer", "Settings", "SseServer", "StdioServer", "load_settings"),
    "errors": (
        "BlockedURLError",
        "CallTimeoutError",
        "CircuitOpenError",
        "ConfigError",
        "ConfigSyntaxError",
        "ConnectError",
        "ConnectionLostError",
        "MCPToolsError",
        "PolicyError",
        "ProtocolError",
        "ServerError",
        "ServerNotApprovedError",
        "ToolDeniedError",
        "ToolFailedError",
        "UnknownServerError",
    ),
    "nodes": (
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
    ),
    "policy": ("ApprovalRequest", "Decision", "PermissionPolicy", "ServerApprovals", "validate_outbound_url_async"),
    "service": ("MCPService",),
    "tools": ("ToolCatalog", "ToolProvider"),
    "types": ("CircuitState", "ClientState", "ServerStatus"),
}
_HOME_OF = {name: room for room, names in _HOMES.items() for name in names}

__all__ = [
    "ApprovalRequest",
    "BlockedURLError",
    "CallTimeoutError",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "ClientState",
    "CompletionGate",
    "ConfigError",
    "ConfigSyntaxError",
    "ConnectError",
    "ConnectionLostError",
    "Decision",
    "HttpServer",
    "MCPAgentInput",
    "MCPAgentState",
    "MCPClient",
    "MCPService",
    "MCPToolNode",
    "MCPToolsError",
    "MCPToolsMiddleware",
    "PermissionPolicy",
    "PolicyError",
    "ProtocolError",
    "ServerApprovals",
    "ServerError",
    "ServerNotApprovedError",
    "ServerStatus",
    "Settings",
    "SseServer",
    "StdioServer",
    "ToolCatalog",
    "ToolDeniedError",
    "ToolFailedError",
    "ToolProvider",
    "UnknownServerError",
    "build_mcp_agent",
    "load_settings",
    "make_model_node",
    "route_after_gate",
    "route_after_model",
    "route_after_tools",
    "validate_outbound_url_async",
]


def __getattr__(name: str) -> Any:
    room = _HOME_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
