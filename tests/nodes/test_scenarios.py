"""One set of scenarios over the four places: order, permissions, verification, errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from codebuddy_mcp_tools import ConfigError, Settings, ToolProvider
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places

READ = {"readOnlyHint": True}
TOOLS = [
    {"name": "read", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "annotations": READ},
    {"name": "write", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
]
everywhere = pytest.mark.parametrize("place", places.ALL, ids=lambda p: p.__name__)
with_gate = pytest.mark.parametrize("place", places.WITH_GATE, ids=lambda p: p.__name__)


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"name": f"mcp__s__{name}", "args": arguments, "id": call_id, "type": "tool_call"}


def turn(*calls: dict[str, Any], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


def model(*turns: AIMessage | str) -> ScriptedChatModel:
    return ScriptedChatModel(turns=list(turns))


def provider_of(server: FaultServer, tmp_path: Any, **settings: Any) -> ToolProvider:
    chosen = Settings.model_validate(settings)
    return ToolProvider({"s": server.stdio_config()}, settings=chosen, state_dir=tmp_path)


def answers(state: Any) -> list[ToolMessage]:
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


GO = {"messages": [HumanMessage("go")]}


@pytest.mark.case("B73")
@everywhere
async def test_reads_run_together_writes_alone_and_results_keep_the_order_of_the_calls(place, tmp_path):
    # Each read ends only when both have begun: they would wait for ever if they did not run at the same time.
    script = {
        "tools": TOOLS,
        "calls": {
            "read": [
                [{"touch": "first"}, {"wait_file": "second"}, {"text": "one"}],
                [{"touch": "second"}, {"wait_file": "first"}, {"text": "two"}],
                [{"text": "three"}],
            ],
            "write": [{"text": "written"}],
        },
    }
    calls = [call("read", "1", n=1), call("read", "2", n=2), call("write", "3", n=3), call("read", "4", n=4),
             call("write", "5", n=5)]  # fmt: skip
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, completion_gate_enabled=False) as provider:
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        sent = [c["arguments"]["n"] for c in server.calls()]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4", "5"]
    assert {m.status for m in answers(state)} == {"success"}
    assert sorted(sent[:2]) == [1, 2]
    assert sent[2:] == [3, 4, 5]


@everywhere
async def test_a_write_begins_only_after_the_one_before_it_has_ended(place, tmp_path):
    script = {
        "tools": TOOLS,
        "calls": {
            "write": [[{"ledger": "first begins"}, {"sleep": 0.1}, {"ledger": "first ends"}], [{"ledger": "second"}]]
        },
    }
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, completion_gate_enabled=False) as provider:
            await place(model(turn(call("write", "1"), call("write", "2")), "done"), provider).ainvoke(GO)
        assert server.ledger() == ["first begins", "first ends", "second"]


@everywhere
async def test_contradictory_and_non_boolean_hints_do_not_allow_concurrency(place, tmp_path):
    hints = [{"readOnlyHint": "yes"}, {"readOnlyHint": True, "destructiveHint": True}]
    tools = [{"name": f"t{i}", "inputSchema": {"type": "object"}, "annotations": h} for i, h in enumerate(hints)]
    script = {
        "tools": tools,
        "calls": {"t0": [{"ledger": "in"}, {"sleep": 0.05}, {"ledger": "out"}], "t1": [{"ledger": "next"}]},
    }
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, completion_gate_enabled=False) as provider:
            await place(model(turn(call("t0", "1"), call("t1", "2")), "done"), provider).ainvoke(GO)
        assert server.ledger() == ["in", "out", "next"]


@pytest.mark.case("B22")
@everywhere
async def test_one_failure_among_twenty_calls_costs_only_itself(place, tmp_path):
    steps = [[{"error": {"code": -32602, "message": "bad"}}] if n == 7 else [{"text": f"ok {n}"}] for n in range(20)]
    script = {"tools": TOOLS, "calls": {"read": steps}}
    calls = [call("read", str(n)) for n in range(20)]
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    found = answers(state)
    assert [m.tool_call_id for m in found] == [str(n) for n in range(20)]
    assert sum(m.status == "error" for m in found) == 1


@everywhere
async def test_a_tool_that_does_not_exist_is_answered_with_what_comes_near(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(call("wriite", "1")), "done"), provider).ainvoke(GO)
    [message] = answers(state)
    assert message.status == "error"
    assert "mcp__s__write" in message.content


@everywhere
async def test_a_name_without_its_prefix_reaches_the_tool_when_it_is_unique(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path) as provider:
            bare = {"name": "read", "args": {}, "id": "1", "type": "tool_call"}
            state = await place(model(turn(bare), "done"), provider).ainvoke(GO)
    assert "here" in answers(state)[0].content


@everywhere
async def test_the_graphs_own_tools_take_part(place, tmp_path):
    @make_tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    own = {"name": "add", "args": {"a": 1, "b": 2}, "id": "2", "type": "tool_call"}
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(turn(call("read", "1"), own), "done"), provider, tools=[add])
            state = await graph.ainvoke(GO)
    assert [m.content for m in answers(state)][1] == "3"


@pytest.mark.case("B72")
@everywhere
async def test_a_direct_call_of_a_deferred_tool_is_answered_with_its_schema_and_never_raises(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            turns = [turn(call("read", "1", n=1)), turn(call("read", "2", n=1)), "done"]
            state = await place(model(*turns), provider).ainvoke(GO)
            first, second = answers(state)
            assert first.status == "error"
            assert '"integer"' in first.content
            if "activated_tools" in state:  # a stranger's state has no place to remember it
                assert state["activated_tools"] == ["mcp__s__read"]
                assert "here" in second.content


@everywhere
async def test_a_turn_is_asked_about_once_before_anything_of_it_runs(place, tmp_path):
    config: Any = {"configurable": {"thread_id": "t"}}
    calls = [call("read", "1"), call("write", "2", n=1), call("write", "3", n=2), call("write", "4", n=3)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, permissions={"ask": ["mcp__s__write"]}) as provider:
            graph = place(model(turn(*calls), "done", "done"), provider, checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, config)
            [waiting] = state["__interrupt__"]
            assert [a["args"] for a in waiting.value["action_requests"]] == [{"n": 1}, {"n": 2}, {"n": 3}]
            assert server.calls() == []
            decisions = [
                {"type": "approve"},
                {"type": "edit", "edited_action": {"name": "mcp__s__write", "args": {"n": 20}}},
                {"type": "reject", "message": "too much"},
            ]
            state = await graph.ainvoke(Command(resume={"decisions": decisions}), config)
            assert [c["arguments"] for c in server.calls()] == [{}, {"n": 1}, {"n": 20}]
    found = {m.tool_call_id: m for m in answers(state)}
    assert found["4"].status == "error"
    assert "too much" in found["4"].content
    assert {found[i].status for i in "123"} == {"success"}


@everywhere
async def test_edited_arguments_are_checked_again(place, tmp_path):
    config: Any = {"configurable": {"thread_id": "t"}}
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, permissions={"ask": ["mcp__s__write"]}) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, config)
            edit = {"type": "edit", "edited_action": {"name": "mcp__s__write", "args": {"n": "many"}}}
            state = await graph.ainvoke(Command(resume={"decisions": [edit]}), config)
            assert server.calls() == []
    assert answers(state)[0].status == "error"


@everywhere
async def test_a_graph_without_a_checkpointer_says_so_instead_of_stopping_in_the_middle(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, permissions={"ask": ["mcp__s__write"]}) as provider:
            graph = place(model(turn(call("read", "0"), call("write", "1")), "done"), provider)
            with pytest.raises(ConfigError, match="checkpointer"):
                await graph.ainvoke(GO)
            assert server.calls() == []


@with_gate
async def test_a_tool_allowed_for_the_session_is_not_asked_about_again(place, tmp_path):
    config: Any = {"configurable": {"thread_id": "t"}}
    turns = [turn(call("write", "1")), turn(call("write", "2")), turn(call("read", "3")), "done"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, permissions={"ask": ["mcp__s__write"]}) as provider:
            graph = place(model(*turns), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, config)
            decision = {"type": "approve", "scope": "session"}
            state = await graph.ainvoke(Command(resume={"decisions": [decision]}), config)
    assert "__interrupt__" not in state
    assert [m.status for m in answers(state)] == ["success"] * 3


@pytest.mark.case("B74")
@with_gate
async def test_an_unverified_write_sends_the_model_back_once(place, tmp_path):
    turns = [turn(call("write", "1", n=5)), "finished", "I will not check"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(*turns), provider).ainvoke(GO)
    reprompts = [m for m in state["messages"][1:] if isinstance(m, HumanMessage)]
    assert len(reprompts) == 1
    assert 'mcp__s__write {"n": 5}' in reprompts[0].content
    assert [w["tool"] for w in state["unverified_writes"]] == ["write"]
    json.dumps(state["unverified_writes"])


@with_gate
async def test_a_later_read_of_the_same_server_verifies_and_an_earlier_one_does_not(place, tmp_path):
    turns = [turn(call("read", "1"), call("write", "2")), "finished", turn(call("read", "3")), "checked"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(*turns), provider).ainvoke(GO)
    assert state["unverified_writes"] == []
    assert sum(isinstance(m, HumanMessage) for m in state["messages"]) == 2


@with_gate
async def test_a_write_verified_in_the_same_turn_owes_nothing(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(call("write", "1"), call("read", "2")), "done"), provider).ainvoke(GO)
    assert sum(isinstance(m, HumanMessage) for m in state["messages"]) == 1


@with_gate
async def test_a_failed_write_owes_nothing_and_a_lost_one_does(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "no", "is_error": True}], [{"ledger": "x"}, {"exit": 1}]]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            failed = await place(model(turn(call("write", "1")), "done"), provider).ainvoke(GO)
            lost = await place(model(turn(call("write", "2")), "done", "done"), provider).ainvoke(GO)
            assert server.ledger() == ["x"]
    assert not failed.get("unverified_writes")
    assert [w["outcome"] for w in lost["unverified_writes"]] == ["unknown"]


@everywhere
def test_the_synchronous_twins_do_the_same(place, tmp_path):
    if place is places.strangers_graph:
        pytest.skip("its model node is a coroutine function: somebody else's code")
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        provider = provider_of(server, tmp_path)
        with provider:
            graph = place(model(turn(call("read", "1"), call("read", "2")), "done"), provider)
            state = graph.invoke(GO)
            assert [m.tool_call_id for m in answers(state)] == ["1", "2"]


@everywhere
async def test_cancelling_a_turn_cancels_what_runs_and_starts_nothing_more(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"hang": True}], [{"ledger": "second"}]]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(turn(call("write", "1"), call("write", "2")), "done"), provider)
            running = asyncio.create_task(graph.ainvoke(GO))
            await server.seen("tools/call")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await server.seen("notifications/cancelled")
            assert len(server.calls()) == 1
            assert server.ledger() == []


@everywhere
async def test_two_calls_with_the_same_id_both_get_an_answer(place, tmp_path):
    if place is places.langchain_agent:
        pytest.skip("create_agent itself sends one call for each id")
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, completion_gate_enabled=False) as provider:
            state = await place(model(turn(call("read", "1"), call("write", "1")), "done"), provider).ainvoke(GO)
            assert len(server.calls()) == 2
    assert len(answers(state)) == 2
