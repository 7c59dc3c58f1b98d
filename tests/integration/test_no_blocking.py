"""A run blocks no event loop: hosts like `langgraph dev` stop a run that does."""

from __future__ import annotations

from typing import Any

from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from codebuddy_mcp_tools import ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer

TOOLS = [{"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}]


def call(call_id: str) -> Any:
    return {"name": "mcp__s__t", "args": {}, "id": call_id, "type": "tool_call"}


async def test_a_first_run_with_audit_and_a_long_result_blocks_no_loop(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    workspace = tmp_path / "project"
    workspace.mkdir()
    script = {"tools": TOOLS, "calls": {"t": [{"text": "x" * 200_000}]}}
    with FaultServer(script) as server:
        servers = {"s": server.stdio_config()}
        provider = ToolProvider(servers, workspace=workspace, state_dir=tmp_path / "state")
        turns = [AIMessage("", tool_calls=[call("1"), call("2")]), "done"]
        agent = build_mcp_agent(ScriptedChatModel(turns=turns), provider).compile()
        with blockbuster_ctx():
            state = await agent.ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "t"}})
        await provider.aclose()
    results = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert [m.status for m in results] == ["success", "success"]
    assert "saved_to" in results[0].artifact
    audit = (workspace / ".codebuddy" / "logs" / "mcp.jsonl").read_text()
    assert audit.count('"event":"call"') + audit.count('"event": "call"') == 2
