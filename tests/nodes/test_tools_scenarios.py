"""Which tool a call reaches, in the four places."""

from __future__ import annotations

import pytest
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import (
    GO,
    THREAD,
    TOOLS,
    answers,
    call,
    everywhere,
    model,
    own,
    provider_of,
    turn,
    with_state,
)


@everywhere
async def test_a_tool_that_does_not_exist_is_answered_with_what_comes_near(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(call("wriite", "1")), "done"), provider).ainvoke(GO)
    [message] = answers(state)
    assert message.status == "error"
    assert "mcp__s__write" in message.content


@pytest.mark.parametrize("name", ["read", "s.read", "mcp_s_read", "MCP__S__READ"])
@everywhere
async def test_every_spelling_that_means_one_tool_reaches_it(place, name, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(own(name, "1")), "done"), provider).ainvoke(GO)
    assert "here" in answers(state)[0].content


@with_state
async def test_a_bare_name_that_two_servers_have_is_answered_with_both(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        servers = {"s": server.stdio_config(), "t": server.stdio_config()}
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            state = await place(model(turn(own("read", "1"), own("s.read", "2")), "done"), provider).ainvoke(GO)
    assert "say which: mcp__s__read, mcp__t__read" in answers(state)[0].content
    assert [m.status for m in answers(state)] == ["error", "success"]


@pytest.mark.parametrize("name", ["read", "s.read", "mcp-s-read", "READ"])
@with_state
async def test_a_deferred_tool_is_loaded_by_any_spelling_that_means_it(place, name, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            turns = [turn(own(name, "1", n=1)), turn(own(name, "2", n=1)), "done"]
            state = await place(model(*turns), provider).ainvoke(GO)
    assert state["activated_tools"] == ["mcp__s__read"]
    assert "here" in answers(state)[1].content


@pytest.mark.parametrize("name", ["tool_search", "toolsearch", "Tool-Search", "ToolSearch()"])
@with_state
async def test_the_search_is_reached_under_other_spellings(place, name, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            asked = turn(own(name, "1", query="select:read"), own("describeTool", "2", name="write"))
            state = await place(model(asked, "done"), provider).ainvoke(GO)
    assert state["activated_tools"] == ["mcp__s__read"]
    assert "Arguments (JSON schema)" in answers(state)[1].content


async def test_a_servers_tool_of_that_name_comes_before_another_spelling_of_the_search(tmp_path):
    with FaultServer({"tools": [{"name": "tool_search", "inputSchema": {"type": "object"}}]}) as server:
        async with provider_of(server, tmp_path) as provider:
            await places.whole_agent(model(turn(own("tool_search", "1")), "done", "done"), provider).ainvoke(GO)
        assert len(server.calls("tool_search")) == 1


@everywhere
async def test_the_graphs_own_tools_take_part_and_come_before_a_servers_of_the_same_bare_name(place, tmp_path):
    @make_tool
    def read(n: int) -> str:
        """Read from the graph's own."""
        return f"own {n}"

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(turn(call("read", "1"), own("read", "2", n=5)), "done"), provider, tools=[read])
            state = await graph.ainvoke(GO)
    assert answers(state)[0].artifact["server"] == "s"
    assert answers(state)[1].content == "own 5"


@pytest.mark.case("B72")
@with_state
async def test_a_direct_call_of_a_deferred_tool_loads_it_and_is_answered_with_its_schema(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            turns = [turn(call("read", "1", n=1)), turn(call("read", "2", n=1)), "done"]
            state = await place(model(*turns), provider).ainvoke(GO)
            first, second = answers(state)
            assert first.status == "error"
            assert '"integer"' in first.content
            assert state["activated_tools"] == ["mcp__s__read"]
            assert "here" in second.content
            assert len(server.calls()) == 1


@pytest.mark.case("B72")
async def test_a_graph_that_keeps_no_account_of_searches_has_bound_its_tools_itself_so_they_run(tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            graph = places.strangers_graph(model(turn(call("read", "1")), "done"), provider)
            state = await graph.ainvoke(GO)
    assert "here" in answers(state)[0].content


@with_state
async def test_two_searches_in_one_turn_load_what_both_found(place, tmp_path):
    searches = [own("ToolSearch", "1", query="select:mcp__s__write"), own("ToolSearch", "2", query="select:read")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            chat = model(turn(*searches), turn(call("read", "3"), call("write", "4")), turn(call("read", "5")), "done")
            state = await place(chat, provider).ainvoke(GO)
    assert state["activated_tools"] == ["mcp__s__write", "mcp__s__read"]
    assert [m.status for m in answers(state)] == ["success"] * 5
    bound = [[t["function"]["name"] for t in tools] for tools in chat.bound]
    assert bound[1] == [*bound[0], "mcp__s__write", "mcp__s__read"]


@with_state
async def test_calls_through_execute_tool_keep_the_order_the_rules_and_the_account(place, tmp_path):
    calls = [own("execute_tool", str(n), name="mcp__s__write", arguments={"n": n}) for n in range(3)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, callStyle="execute") as provider:
            chat = model(turn(*calls), "done", "done")
            state = await place(chat, provider).ainvoke(GO)
        assert [c["arguments"]["n"] for c in server.calls()] == [0, 1, 2]
    assert [w["arguments"] for w in state["unverified_writes"]] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
    assert [t["function"]["name"] for t in chat.bound[0]] == ["ToolSearch", "describe_tool", "execute_tool"]


@with_state
async def test_in_the_execute_style_a_long_result_is_read_on_without_another_tool_being_bound(place, tmp_path):
    settings = {"callStyle": "execute", "maxOutputTokens": 20, "completion_gate_enabled": False}
    script = {"tools": TOOLS, "calls": {"read": [{"text": "\n".join(f"line {n}" for n in range(200))}]}}
    through = [
        own("execute_tool", "1", name="read", arguments={}),
        lambda messages: turn(own("execute_tool", "2", name="read_mcp_result", arguments=_rest(messages[-1]))),
    ]
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **settings) as provider:
            chat = model(turn(through[0]), through[1], "done")
            state = await place(chat, provider, checkpointer=InMemorySaver()).ainvoke(GO, THREAD)
    assert "line 199" in answers(state)[1].content
    assert chat.bound[0] == chat.bound[1] == chat.bound[2]
    assert chat.bound_names() == ["ToolSearch", "describe_tool", "execute_tool"]


def _rest(message):
    return {"path": message.artifact["saved_to"], "offset": 190}


@everywhere
async def test_a_server_that_dies_in_the_middle_of_a_turn_costs_its_own_calls(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"exit": 3}]], "read": [{"text": "here"}]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            calls = [call("read", "1"), call("write", "2"), call("read", "3")]
            state = await place(model(turn(*calls), "done", "done"), provider).ainvoke(GO)
    assert [m.status for m in answers(state)] == ["success", "error", "success"]
