"""What searches have activated: kept with the thread, for the thread only, and no longer than the tools are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode
from typing_extensions import TypedDict

from codebuddy_mcp_tools import MCPToolNode, build_mcp_agent
from codebuddy_mcp_tools.nodes.state import keep_order_union
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.places import Place
from tests.nodes.scenarios import (
    APPROVE,
    ASK,
    GO,
    NO_GATE,
    TOOLS,
    answers,
    call,
    decide,
    model,
    own,
    provider_of,
    turn,
    with_state,
)

DEFERRED = {"toolExposure": "deferred", **NO_GATE}
BASE = ["ToolSearch", "describe_tool"]
MORE = [*TOOLS, {"name": "erase", "inputSchema": {"type": "object"}}]


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def search(call_id: str, query: str) -> dict[str, Any]:
    return own("ToolSearch", call_id, query=query)


def bound(chat: Any) -> list[list[str]]:
    return [[tool["function"]["name"] for tool in tools] for tools in chat.bound]


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as made:
        yield made


@with_state
def test_activation_outlives_the_process_in_its_thread_and_reaches_no_other(place: Place, saver, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        with provider_of(server, tmp_path, **DEFERRED) as provider:
            first = model(turn(search("1", "select:write")), "done")
            place(first, provider, checkpointer=saver).invoke(GO, thread("a"))
        with provider_of(server, tmp_path, **DEFERRED) as provider:
            second = model(turn(search("1", "select:write")), "done", turn(call("write", "2", n=2)), "done")
            graph = place(second, provider, checkpointer=saver)
            state = graph.invoke(GO, thread("a"))
            other = model("done")
            place(other, provider, checkpointer=saver).invoke(GO, thread("b"))
        assert [c["arguments"] for c in server.calls()] == [{"n": 2}]
    assert answers(state)[-1].status == "success"
    assert bound(second)[0] == [*BASE, "mcp__s__write"]
    assert bound(other) == [BASE]


@with_state
def test_a_tool_that_is_gone_is_no_longer_bound_and_its_call_is_answered(place: Place, tmp_path):
    saver = InMemorySaver()
    with FaultServer({"tools": MORE}) as server:
        with provider_of(server, tmp_path, **DEFERRED) as provider:
            first = model(turn(search("1", "select:erase,read")), "done")
            place(first, provider, checkpointer=saver).invoke(GO, thread("a"))
        server.update(tools=TOOLS)
        with provider_of(server, tmp_path, **DEFERRED) as provider:
            second = model(turn(search("1", "select:erase,read")), "done", turn(call("erase", "2")), "done")
            state = place(second, provider, checkpointer=saver).invoke(GO, thread("a"))
    assert bound(second)[0] == [*BASE, "mcp__s__read"]
    assert answers(state)[-1].status == "error"
    assert "no tool is named 'mcp__s__erase'" in answers(state)[-1].content


@with_state
def test_a_call_that_waits_for_a_person_finds_its_tool_loaded_when_the_run_goes_on(place: Place, saver, tmp_path):
    turns = [turn(search("1", "select:write")), turn(call("write", "2", n=2)), "done"]
    with FaultServer({"tools": TOOLS}) as server:
        with provider_of(server, tmp_path, **DEFERRED, **ASK) as provider:
            paused = place(model(*turns), provider, checkpointer=saver).invoke(GO, thread("a"))
            assert paused["activated_tools"] == ["mcp__s__write"]
        with provider_of(server, tmp_path, **DEFERRED, **ASK) as provider:
            chat = model(*turns)
            state = place(chat, provider, checkpointer=saver).invoke(decide(APPROVE), thread("a"))
        assert len(server.calls()) == 1
    assert answers(state)[-1].status == "success"
    assert bound(chat) == [[*BASE, "mcp__s__write"]]


@with_state
async def test_searches_and_a_direct_call_of_one_turn_add_up(place: Place, tmp_path):
    asked = turn(search("1", "select:write"), call("erase", "2"), search("3", "select:read,write"))
    with FaultServer({"tools": MORE}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            chat = model(asked, turn(call("erase", "4")), "done")
            state = await place(chat, provider).ainvoke(GO)
        assert len(server.calls("erase")) == 1
    assert sorted(state["activated_tools"]) == ["mcp__s__erase", "mcp__s__read", "mcp__s__write"]
    assert bound(chat)[1][:2] == BASE
    assert bound(chat)[2] == bound(chat)[1]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4"]


@with_state
async def test_ten_searches_at_once_are_all_answered(place: Place, tmp_path):
    asked = turn(*(search(str(n), "read" if n % 2 else "write") for n in range(10)))
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            chat = model(asked, "done")
            state = await place(chat, provider).ainvoke(GO)
    assert [m.tool_call_id for m in answers(state)] == [str(n) for n in range(10)]
    assert sorted(bound(chat)[1]) == sorted([*BASE, "mcp__s__read", "mcp__s__write"])


async def test_activation_in_a_subgraph_reaches_the_parent_and_the_next_round(tmp_path):
    class Parent(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        activated_tools: list[str]

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            chat = model(turn(search("1", "select:write")), "done", "done")
            inner = build_mcp_agent(chat, provider).compile()
            parent: Any = StateGraph(Parent)
            parent.add_node("agent", inner)
            parent.add_node("again", inner)
            parent.add_edge(START, "agent")
            parent.add_edge("agent", "again")
            parent.add_edge("again", END)
            state = await parent.compile().ainvoke(GO)
    assert state["activated_tools"] == ["mcp__s__write"]
    assert bound(chat)[2] == [*BASE, "mcp__s__write"]


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_state_that_keeps_its_messages_elsewhere_is_updated_there(asynchronous, tmp_path):
    class Talk(TypedDict):
        talk: Annotated[list[AnyMessage], add_messages]
        activated_tools: Annotated[list[str], keep_order_union]

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            graph: Any = StateGraph(Talk)
            graph.add_node("tools", MCPToolNode(provider, messages_key="talk"))
            graph.add_edge(START, "tools")
            graph.add_edge("tools", END)
            given = {"talk": [turn(search("1", "select:write"), call("read", "2"))]}
            state = await graph.compile().ainvoke(given) if asynchronous else graph.compile().invoke(given)
    assert sorted(state["activated_tools"]) == ["mcp__s__read", "mcp__s__write"]
    assert [m.tool_call_id for m in state["talk"][1:]] == ["1", "2"]


async def test_a_list_of_messages_gets_a_list_of_messages_back(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            given = [turn(search("1", "select:write"), call("read", "2"))]
            found, read = await MCPToolNode(provider).ainvoke(given)
    assert "mcp__s__write" in found.content
    assert read.status == "success"


@pytest.mark.parametrize("plain", [True, False])
async def test_a_state_without_a_place_for_activation_still_gets_the_answer(plain, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **DEFERRED) as provider:
            await provider.get_tools_async()
            graph: Any = StateGraph(MessagesState)
            node = ToolNode(provider.catalog.tools()) if plain else MCPToolNode(provider)
            graph.add_node("tools", node)
            graph.add_edge(START, "tools")
            graph.add_edge("tools", END)
            asked = turn(search("1", "select:write"), search("2", "no"), own("describe_tool", "3", name="read"))
            state = await graph.compile().ainvoke({"messages": [asked]})
    assert "mcp__s__write" in answers(state)[0].content
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3"]
