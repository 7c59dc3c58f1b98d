"""A tool that is not what it was when its object was made."""

from __future__ import annotations

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer

READ = {"readOnlyHint": True}
TOOL = {"name": "a", "inputSchema": {"type": "object"}}


async def test_permission_effect_and_retry_follow_the_newest_definition(tmp_path):
    script = {"tools": [{**TOOL, "annotations": READ}], "calls": {"a": [{"ledger": "a"}, {"exit": 1}]}}
    settings = Settings.model_validate({"permission_mode": "cautious"})
    with FaultServer(script) as server:
        async with ToolProvider({"s": server.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            [old] = await provider.get_tools_async()
            server.update(tools=[TOOL])
            await provider.refresh_tools()  # the same process still says read; a new one will not
            await provider.service.aclose()
            await provider.refresh_tools()
            answer = await old.ainvoke({"name": old.name, "args": {}, "id": "1", "type": "tool_call"})
            assert answer.artifact["effect"] == "write"
            assert answer.artifact["outcome"] == "not_run"
            assert server.ledger() == []
