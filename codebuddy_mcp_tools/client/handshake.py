"""What the answer to `initialize` says, read leniently."""

from __future__ import annotations

from typing import Any

from codebuddy_mcp_tools.client.sdk import PROTOCOL_VERSIONS
from codebuddy_mcp_tools.client.transport import ChannelError, TransportFault
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import JSON, ServerInfo


def read_server_info(result: JSON) -> ServerInfo:
    """The result of `initialize`.

    Raises:
        ChannelError: it names no protocol revision that we speak.
    """
    if not isinstance(result, dict):
        raise ChannelError(TransportFault("it did not answer initialize as an MCP server does", retryable=False))
    version = result.get("protocolVersion")
    if version not in PROTOCOL_VERSIONS:
        known = ", ".join(PROTOCOL_VERSIONS)
        reason = f"it speaks protocol revision {str(version)[:40]!r}; this client speaks {known}"
        raise ChannelError(TransportFault(reason, retryable=False))
    said, capabilities = result.get("serverInfo"), result.get("capabilities")
    instructions = result.get("instructions")
    facts: dict[str, Any] = said if isinstance(said, dict) else {}
    return ServerInfo(
        # Shown in terminals and logs: one line each, without escapes.
        name=clean_line(str(facts.get("name", "")), 100),
        version=clean_line(str(facts.get("version", "")), 100),
        title=clean_line(facts["title"], 200) if isinstance(facts.get("title"), str) else None,
        protocol_version=version,
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
    )


def refusal(error: JSON) -> TransportFault:
    """What an error answer to `initialize` means."""
    own = TransportFault.of(error) if isinstance(error, dict) else None
    if own is not None:
        return own
    said = error.get("message") if isinstance(error, dict) else error
    return TransportFault(f"it refused to initialize: {str(said)[:300]}")
