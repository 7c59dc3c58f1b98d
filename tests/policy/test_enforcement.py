"""Rules hold in the tool itself: in anybody's graph, outside of any, and under every name a tool can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer

SCHEMA = {"type": "object", "properties": {}}
LONG = "a_tool_whose_name_is_far_too_long_for_any_model_provider_to_take_it"


def settings_with(**rules: list[str]) -> Settings:
    return Settings.model_validate({"permissions": rules})


def script(*names: str) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": SCHEMA, "description": f"does {name}"} for name in names]}


async def in_a_tool_node(tool: Any) -> ToolMessage:
    """LangGraph's own node, in a graph that knows nothing of us."""
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    call = {"name": tool.name, "args": {}, "id": "1", "type": "tool_call"}
    state = await builder.compile().ainvoke({"messages": [AIMessage("", tool_calls=[call])]})
    return state["messages"][-1]


async def directly(tool: Any) -> ToolMessage:
    return await tool.ainvoke({"name": tool.name, "args": {}, "id": "1", "type": "tool_call"})


async def in_a_batch(tool: Any) -> ToolMessage:
    [message] = await tool.abatch([{"name": tool.name, "args": {}, "id": "1", "type": "tool_call"}])
    return message


WAYS = pytest.mark.parametrize("way", [directly, in_a_batch, in_a_tool_node])


@WAYS
async def test_a_tool_that_asks_does_not_run_without_an_answer_and_says_how_to_allow_it(
    way: Any, tmp_path: Path
) -> None:
    with FaultServer(script("wipe")) as server:
        options = {"settings": settings_with(ask=["mcp__s__wipe"]), "state_dir": tmp_path}
        async with ToolProvider({"s": server.stdio_config()}, **options) as provider:
            [wipe] = await provider.get_tools_async()
            message = await way(wipe)
        assert server.calls() == []
    assert message.status == "error"
    assert "permissions.ask (ask): mcp__s__wipe" in message.content
    assert "approval_handler" in message.content


def yes(request: Any) -> bool:
    return True


def no(request: Any) -> bool:
    return False


async def later(request: Any) -> bool:
    return True


def broken(request: Any) -> bool:
    raise OSError("no terminal")


@WAYS
@pytest.mark.parametrize(("handler", "runs"), [(yes, True), (later, True), (no, False), (broken, False)])
async def test_outside_of_our_nodes_the_handler_answers(way: Any, handler: Any, runs: bool, tmp_path: Path) -> None:
    with FaultServer(script("wipe")) as server:
        options = {"settings": settings_with(ask=["mcp__s"]), "approval_handler": handler, "state_dir": tmp_path}
        async with ToolProvider({"s": server.stdio_config()}, **options) as provider:
            [wipe] = await provider.get_tools_async()
            message = await way(wipe)
        assert (len(server.calls()), message.status) == ((1, "success") if runs else (0, "error"))


@pytest.mark.parametrize("exposure", ["full", "stub", "deferred"])
async def test_a_denied_tool_is_neither_bound_nor_found_nor_described(exposure: str, tmp_path: Path) -> None:
    settings = Settings.model_validate({"permissions": {"deny": ["mcp__s__wipe"]}, "toolExposure": exposure})
    with FaultServer(script("keep", "wipe", "other")) as server:
        async with ToolProvider({"s": server.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            names = [tool.name for tool in await provider.get_tools_async()]
            assert names == ["mcp__s__keep", "mcp__s__other"]
            assert "mcp__s__wipe" not in [tool.name for tool in provider.catalog.visible(["mcp__s__wipe"])]
            for query in ("does wipe", "wipe", "select:mcp__s__wipe", "+s wipe"):
                assert "mcp__s__wipe" not in [hit.name for hit in provider.catalog.search(query)], query
            for discovery in provider.catalog.tools():
                arguments = {"query": "wipe"} if discovery.name == "ToolSearch" else {"name": "mcp__s__wipe"}
                call = {"name": discovery.name, "args": arguments, "id": "1", "type": "tool_call"}
                answer = await discovery.ainvoke(call)
                assert "does wipe" not in str(getattr(answer, "content", answer))


@pytest.mark.parametrize(("rule", "said"), [("ask", "permissions.ask"), ("deny", "denied by the permission rules")])
async def test_a_call_through_execute_tool_is_decided_like_a_direct_one(rule: str, said: str, tmp_path: Path) -> None:
    settings = Settings.model_validate({"permissions": {rule: ["mcp__s__wipe"]}, "callStyle": "execute"})
    with FaultServer(script("wipe", "keep")) as server:
        async with ToolProvider({"s": server.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            execute = next(tool for tool in provider.catalog.tools() if tool.name == "execute_tool")
            fields = list(execute.args)
            for name in ("mcp__s__wipe", "s.wipe", "wipe", "MCP_S_WIPE"):
                arguments = {fields[0]: name, **({fields[1]: {}} if len(fields) > 1 else {})}
                call = {"name": "execute_tool", "args": arguments, "id": "1", "type": "tool_call"}
                message = await execute.ainvoke(call)
                assert message.status == "error", name
                assert said in message.content, name
        assert server.calls() == []


async def test_a_name_that_is_cut_or_hashed_is_decided_like_the_one_that_was_meant(tmp_path: Path) -> None:
    denied = settings_with(deny=[f"mcp__s__{LONG}", "mcp__s__a.b"])
    with FaultServer(script(LONG, f"{LONG}_2", "a.b", "a/b", "fine")) as server:
        async with ToolProvider({"s": server.stdio_config()}, settings=denied, state_dir=tmp_path) as provider:
            left = [tool.info.name for tool in await provider.get_tools_async()]
    # `a.b` and `a/b` cannot be told apart by a rule: what forbids the one forbids the other.
    assert left == [f"{LONG}_2", "fine"]


async def test_an_allow_rule_for_one_server_lets_no_other_pass(tmp_path: Path) -> None:
    settings = Settings.model_validate({"permissions": {"allow": ["mcp__git"]}, "permissionMode": "strict"})
    with FaultServer(script("x")) as server:
        servers = {"git": server.stdio_config(), "github": server.stdio_config(), "git_hub": server.stdio_config()}
        async with ToolProvider(servers, settings=settings, state_dir=tmp_path) as provider:
            assert [tool.name for tool in await provider.get_tools_async()] == ["mcp__git__x"]
