"""Writes that nobody has read back, where the state has room for them; and by the conversation where it has not."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from codebuddy_mcp_tools import (
    CompletionGate,
    MCPAgentState,
    Settings,
    ToolProvider,
    build_mcp_agent,
    make_model_node,
    route_after_gate,
    route_after_model,
)
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import GO, THREAD, TOOLS, answers, call, model, own, provider_of, turn, users, with_state


@pytest.mark.case("B74")
@with_state
async def test_an_unverified_write_sends_the_model_back_once(place, tmp_path):
    turns = [turn(call("write", "1", n=5)), "finished", "I will not check"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(*turns), provider).ainvoke(GO)
    [_, note] = users(state)
    assert 'mcp__s__write {"n": 5}' in note.content
    assert all(step in note.content for step in ("1. Read", "2. Compare", "3. If"))
    assert [w["tool"] for w in state["unverified_writes"]] == ["write"]
    assert state["messages"][-1].text == "I will not check"
    json.dumps(state["unverified_writes"])


@with_state
async def test_a_later_read_of_the_same_server_verifies_and_an_earlier_one_does_not(place, tmp_path):
    turns = [turn(call("read", "1"), call("write", "2")), "finished", turn(call("read", "3")), "checked"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(*turns), provider).ainvoke(GO)
    assert state["unverified_writes"] == []
    assert len(users(state)) == 2


@with_state
async def test_a_write_and_its_read_in_one_turn_are_judged_in_the_order_of_the_calls(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            verified = await place(model(turn(call("write", "1"), call("read", "2")), "done"), provider).ainvoke(GO)
            early = model(turn(call("read", "1"), call("write", "2")), "done", "done")
            unverified = await place(early, provider).ainvoke(GO)
    assert verified["unverified_writes"] == []
    assert len(users(verified)) == 1
    assert len(unverified["unverified_writes"]) == 1


@with_state
async def test_failed_writes_owe_nothing_and_lost_ones_do(place, tmp_path):
    lost = [{"ledger": "x"}, {"exit": 1}]
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "no", "is_error": True}], lost]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            failed = await place(model(turn(call("write", "1")), "done"), provider).ainvoke(GO)
            unknown = await place(model(turn(call("write", "2")), "done", "done"), provider).ainvoke(GO)
        assert server.ledger() == ["x"]
    assert not failed.get("unverified_writes")
    assert [w["outcome"] for w in unknown["unverified_writes"]] == ["unknown"]
    assert "may or may not" in users(unknown)[1].content


@with_state
async def test_a_failed_read_and_a_read_of_another_server_verify_nothing(place, tmp_path):
    failing = {"tools": TOOLS, "calls": {"read": [{"text": "no", "is_error": True}]}}
    with FaultServer(failing) as one, FaultServer({"tools": TOOLS}) as other:
        servers = {"s": one.stdio_config(), "other": other.stdio_config()}
        async with ToolProvider(servers, settings=Settings(), state_dir=tmp_path) as provider:
            calls = [call("write", "1"), call("read", "2"), call("mcp__other__read", "3")]
            state = await place(model(turn(*calls), "done", "done"), provider).ainvoke(GO)
    assert [w["server"] for w in state["unverified_writes"]] == ["s"]


@with_state
async def test_a_new_message_of_the_user_allows_a_new_reprompt(place, tmp_path):
    turns = [turn(call("write", "1")), "done", "done", turn(call("write", "2")), "done", "done"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(*turns), provider, checkpointer=InMemorySaver())
            first = await graph.ainvoke(GO, THREAD)
            second = await graph.ainvoke(GO, THREAD)
    assert [len(users(first)), len(users(second))] == [2, 4]
    assert first["gate_reprompts"] == second["gate_reprompts"] == 1
    assert len(second["unverified_writes"]) == 2


@with_state
async def test_credentials_in_arguments_do_not_come_into_the_state_or_the_reprompt(place, tmp_path):
    tools = [{"name": "write", "inputSchema": {"type": "object"}}]
    arguments = {"password": "hunter2", "nested": {"api_key": "sk-verysecret1234"}, "text": "x" * 5000}
    with FaultServer({"tools": tools}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(call("write", "1", **arguments)), "done", "done"), provider).ainvoke(GO)
    [write] = state["unverified_writes"]
    assert len(write["arguments"]) <= 200
    for text in (write["arguments"], users(state)[1].content):
        assert "hunter2" not in text
        assert "verysecret" not in text


@with_state
async def test_read_tools_that_must_be_searched_for_are_named(place, tmp_path):
    turns = [own("ToolSearch", "0", query="select:mcp__s__write")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            chat = model(turn(*turns), turn(call("write", "1")), "done", "done")
            state = await place(chat, provider).ainvoke(GO)
    assert "select:mcp__s__read" in users(state)[1].content


@with_state
async def test_the_gate_can_be_switched_off(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, completion_gate_enabled=False) as provider:
            state = await place(model(turn(call("write", "1")), "done"), provider).ainvoke(GO)
    assert len(users(state)) == 1
    assert len(state["unverified_writes"]) == 1


@with_state
async def test_the_custom_stream_tells_what_stayed_unverified(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(turn(call("write", "1")), "done", "done"), provider)
            events = [e async for e in graph.astream(GO, stream_mode="custom")]
    [left] = [e for e in events if e["type"] == "mcp_unverified_writes"]
    assert [w["tool"] for w in left["writes"]] == ["write"]


# -- agents in agents --------------------------------------------------------------------------------------------


@with_state
async def test_a_subgraph_passes_its_debts_up_and_the_parent_can_pay_them(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            child = place(model(turn(call("write", "1", n=1)), "done", "done"), provider)
            parent = StateGraph(MCPAgentState)
            parent.add_node("child", child)
            parent.add_node(
                "read", build_mcp_agent(lambda_model(turn(call("read", "2"))), provider, gate=False).compile()
            )
            parent.add_edge(START, "child")
            parent.add_conditional_edges("child", lambda s: END if s.get("stop") else "read", ["read", END])
            seen = [s async for s in parent.compile().astream(GO, stream_mode="values")]
    assert [w["tool"] for w in seen[1]["unverified_writes"]] == ["write"]


def lambda_model(first):
    """Asks for `first` once, whatever was said before."""
    said = []

    def next_turn(_messages):
        said.append(1)
        return first if len(said) == 1 else "done"

    return model(*[next_turn] * 20)


async def test_two_subgraphs_at_the_same_time_both_pass_their_debts_up(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            parent = StateGraph(MCPAgentState)
            for name in ("a", "b"):
                agent = build_mcp_agent(model(turn(call("write", name)), "done"), provider, gate=False)
                parent.add_node(name, agent.compile())
                parent.add_edge(START, name)
            state = await parent.compile().ainvoke(GO)
    assert sorted(w["call_id"] for w in state["unverified_writes"]) == ["a", "b"]


@with_state
async def test_an_agent_used_as_a_tool_passes_its_debts_up(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            worker = build_mcp_agent(model(turn(call("write", "w", n=1)), "done"), provider, gate=False).compile()

            @make_tool
            async def delegate(call_id: Annotated[str, InjectedToolCallId]) -> Command:
                """Let the worker do it."""
                done = await worker.ainvoke(GO)
                message = ToolMessage("It is done.", tool_call_id=call_id)
                return Command(update={"messages": [message], "unverified_writes": done["unverified_writes"]})

            @make_tool(response_format="content_and_artifact")
            async def hand_over() -> tuple[str, dict]:
                """Let the worker do it."""
                done = await worker.ainvoke(GO)
                return "It is done.", {"unverified_writes": done["unverified_writes"]}

            for name, tool in (("delegate", delegate), ("hand_over", hand_over)):
                graph = place(model(turn(own(name, "1")), "done", "done"), provider, tools=[tool])
                state = await graph.ainvoke(GO)
                assert [w["tool"] for w in state["unverified_writes"]] == ["write"]
                assert len(users(state)) == 2


# -- a graph whose state has no room for the account -------------------------------------------------------------


async def test_the_gate_reads_the_conversation_where_the_state_keeps_no_account(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            chat = model(turn(call("write", "1", n=5)), "done", turn(call("read", "2")), "checked")
            graph = StateGraph(MessagesState)
            graph.add_node("model", make_model_node(chat, provider))
            graph.add_node("tools", ToolNode(await provider.get_tools_async()))
            graph.add_node("gate", CompletionGate(provider))
            graph.add_edge(START, "model")
            graph.add_conditional_edges("model", route_after_model, ["tools", "model", "gate"])
            graph.add_edge("tools", "model")
            graph.add_conditional_edges("gate", route_after_gate, ["model", END])
            state = await graph.compile().ainvoke(GO)
    assert 'mcp__s__write {"n": 5}' in users(state)[1].content
    assert [m.tool_call_id for m in answers(state)] == ["1", "2"]


async def test_a_model_that_repeats_a_message_id_is_sent_back_once_and_the_run_ends(tmp_path):
    same = AIMessage("done", id="always-this-one")
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            agent = build_mcp_agent(model(turn(call("write", "1")), same, same), provider).compile()
            state = await agent.ainvoke(GO)
    assert [m.content for m in state["messages"] if isinstance(m, AIMessage)] == ["", "done", "done"]
    assert state["gate_reprompts"] == 1
