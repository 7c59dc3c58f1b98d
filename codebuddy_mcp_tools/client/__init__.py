"""One server: its transport, its session, its connection, its tool list."""

from __future__ import annotations

from codebuddy_mcp_tools.client.breaker import CircuitBreaker, Permit
from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.crossing import apart
from codebuddy_mcp_tools.client.loop import OwnerLoop
from codebuddy_mcp_tools.client.transport import (
    Channel,
    ChannelError,
    ChannelInfo,
    ConnectionSpec,
    Opener,
    Sink,
    Timeouts,
    TransportFault,
)
from codebuddy_mcp_tools.client.values import ClientEvent, ClientSnapshot, ServerHandlers

__all__ = [
    "Channel",
    "ChannelError",
    "ChannelInfo",
    "CircuitBreaker",
    "ClientEvent",
    "ClientSnapshot",
    "ConnectionSpec",
    "MCPClient",
    "Opener",
    "OwnerLoop",
    "Permit",
    "ServerHandlers",
    "Sink",
    "Timeouts",
    "TransportFault",
    "apart",
]
