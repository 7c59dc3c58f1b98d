"""The client under test of the official MCP conformance suite: `python -m tests.conformance.client SERVER-URL`.

The suite starts a server for one scenario, names the scenario in `MCP_CONFORMANCE_SCENARIO`, and judges what the server
sees. Everything here goes through `MCPService`; the only thing of its own is a browser without a person.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.login import LoginPrompt, interactive_opener
from codebuddy_mcp_tools.client.loop import OwnerLoop
from codebuddy_mcp_tools.client.transport import ConnectionSpec
from codebuddy_mcp_tools.client.values import ServerHandlers
from codebuddy_mcp_tools.config import Settings, load_configuration
from codebuddy_mcp_tools.config.models import HttpServer, OAuthConfig
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.service import MCPService
from codebuddy_mcp_tools.types import ToolInfo

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that the scenario `auth/basic-cimd` knows."""
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}


def browser(url: str) -> None:
    """A person who agrees to everything: follows the redirects of the authorization server to our listener."""
    with urllib.request.urlopen(url, timeout=20) as page:
        page.read()


async def fill_in_defaults(request: Mapping[str, Any]) -> dict[str, Any]:
    """Accept a form with the defaults in it."""
    properties = request.get("requestedSchema", {}).get("properties", {})
    return {"action": "accept", "content": {k: v["default"] for k, v in properties.items() if "default" in v}}


def arguments_for(tool: ToolInfo, tools: tuple[ToolInfo, ...]) -> dict[str, Any]:
    """What a scenario wants its tool to be called with."""
    if tool.name == "json_schema_echo":
        first = next(other for other in tools if other.name != tool.name)
        return {"schema": first.input_schema}
    return dict(ARGUMENTS.get(tool.name, {}))


async def run(url: str, tokens: Path) -> None:
    """List the tools, and call each one."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    oauth = OAuthConfig(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=CLIENT_DOCUMENT,
    )
    spec = ConnectionSpec(
        "conformance",
        HttpServer(url=url, oauth=oauth),
        outbound=OutboundRules(allow_loopback=True),
        tokens_dir=tokens,
    )
    redactor = Redactor()
    handlers = ServerHandlers(elicitation=fill_in_defaults)
    prompt = LoginPrompt(show=sys.stderr.write, open_browser=browser, patience=20.0)
    configuration = load_configuration({spec.name: spec.config}, settings=Settings())
    async with interactive_opener(spec, prompt, redactor=redactor) as (opener, _):
        service = MCPService(
            configuration,
            state_dir=tokens,
            make_client=lambda given: MCPClient(given, redactor=redactor, opener=opener, handlers=handlers),
        )
        try:
            await service.list_tools()
            tools = service.server(spec.name).exposed_tools()
            for tool in tools:
                result = await service.call(tool, arguments_for(tool, tools))
                print(tool.name, list(result.content))
        finally:
            await service.aclose()


def main() -> None:
    """Run one scenario."""
    with tempfile.TemporaryDirectory() as tokens:
        asyncio.run(OwnerLoop.shared().run(run(sys.argv[1], Path(tokens))))


if __name__ == "__main__":
    main()
