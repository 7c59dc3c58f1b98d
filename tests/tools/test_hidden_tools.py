"""Tools that the model knows by name only: a failed call teaches the schema; the provider's own search is served."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer

TOOL = {
    "name": "t",
    "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
}


@pytest.mark.parametrize("exposure", ["stub", "deferred"])
async def test_a_failed_call_of_a_hidden_tool_carries_its_schema(exposure, tmp_path):
    settings = Settings.model_validate({"toolExposure": exposure})
    with FaultServer({"tools": [TOOL], "calls": {"t": [{"text": "no", "is_error": True}]}}) as server:
        async with ToolProvider({"s": server.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            [t] = await provider.get_tools_async()
            refused = await t.ainvoke({"name": t.name, "args": {}, "id": "1", "type": "tool_call"})
            failed = await t.ainvoke({"name": t.name, "args": {"count": 1}, "id": "2", "type": "tool_call"})
    for message in (refused, failed):
        assert message.status == "error"
        assert '"integer"' in message.content
        assert message.content.rstrip().endswith("</mcp_response>")


async def test_a_failed_call_of_a_tool_shown_in_full_does_not_repeat_its_schema(tmp_path):
    with FaultServer({"tools": [TOOL], "calls": {"t": [{"text": "no", "is_error": True}]}}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            [t] = await provider.get_tools_async()
            failed = await t.ainvoke({"name": t.name, "args": {"count": 1}, "id": "2", "type": "tool_call"})
    assert '"integer"' not in failed.content


async def test_tools_say_whether_they_are_deferred_to_a_providers_own_search(tmp_path):
    with FaultServer({"tools": [TOOL]}) as server:
        servers = {"now": server.stdio_config(), "later": server.stdio_config(defer_loading=True)}
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            tools = await provider.get_tools_async()
            provider.catalog.visible()
            assert {t.info.server: t.extras["defer_loading"] for t in tools} == {"now": False, "later": True}
