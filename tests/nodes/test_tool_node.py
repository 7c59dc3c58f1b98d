"""`MCPToolNode` in place of `ToolNode`: every form of input, wrappers, states of all kinds, a batch at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolRuntime
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from codebuddy_mcp_tools import MCPAgentState, MCPToolNode, route_after_tools
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import (
    APPROVE,
    ASK,
    GO,
    THREAD,
    TOOLS,
    answers,
    call,
    decide,
    model,
    own,
    provider_of,
    sent,
    turn,
)

CALLS = [call("read", "1", n=1), call("write", "2", n=2)]


def graph_of(node: Any, state: Any = MessagesState, **compiled: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    return graph.compile(**compiled)


@pytest.fixture
def server():
    with FaultServer({"tools": TOOLS}) as running:
        yield running


@pytest.fixture
async def provider(server, tmp_path):
    async with provider_of(server, tmp_path) as made:
        yield made


# -- forms of input ----------------------------------------------------------------------------------------------


async def test_a_state_with_messages(provider):
    state = await graph_of(MCPToolNode(provider)).ainvoke({"messages": [turn(*CALLS)]})
    assert [m.tool_call_id for m in answers(state)] == ["1", "2"]


@pytest.mark.parametrize("make", [ToolNode, None], ids=["ToolNode", "MCPToolNode"])
async def test_a_list_of_messages_a_list_of_calls_and_what_send_carries_give_what_tool_node_gives(provider, make):
    tools = await provider.get_tools_async()
    node = make(tools) if make is not None else MCPToolNode(provider)
    seen: dict[str, Any] = {}

    async def run(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        message = state["messages"][-1]
        seen["messages"] = await node.ainvoke(state["messages"], config)
        seen["calls"] = await node.ainvoke(list(message.tool_calls), config)
        seen["send"] = await node.ainvoke(with_context(message.tool_calls[0], state), config)
        seen["state"] = await node.ainvoke(state, config)
        return {}

    await graph_of(run).ainvoke({"messages": [turn(*CALLS)]})
    assert [m.tool_call_id for m in seen["messages"]] == ["1", "2"]
    assert seen["calls"].keys() == seen["send"].keys() == seen["state"].keys() == {"messages"}
    assert [m.tool_call_id for m in seen["calls"]["messages"]] == ["1", "2"]
    assert [m.tool_call_id for m in seen["send"]["messages"]] == ["1"]


def with_context(call: Any, state: Any) -> Any:
    return {"__type": "tool_call_with_context", "tool_call": call, "state": state}


@pytest.mark.parametrize("payload", [lambda call, state: [call], with_context], ids=["calls", "with context"])
async def test_calls_that_a_graph_sends_one_by_one_keep_the_models_order(payload, tmp_path):
    steps = [[{"ledger": f"{n} begins"}, {"sleep": 0.01}, {"ledger": f"{n} ends"}] for n in range(4)]
    with FaultServer({"tools": TOOLS, "calls": {"write": steps}}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = StateGraph(MCPAgentState)
            graph.add_node("tools", MCPToolNode(provider))
            graph.add_conditional_edges(
                START, lambda s: [Send("tools", payload(c, s)) for c in s["messages"][-1].tool_calls], ["tools"]
            )
            asked = turn(*(call("write", str(n), n=n) for n in range(4)), call("read", "4"))
            state = await graph.compile().ainvoke({"messages": [asked]})
        assert sent(server)[:4] == [0, 1, 2, 3]
        assert server.ledger() == [f"{n} {what}" for n in range(4) for what in ("begins", "ends")]
    assert [m.tool_call_id for m in answers(state)] == ["0", "1", "2", "3", "4"]
    assert state["unverified_writes"] == []


async def test_a_person_is_asked_in_turn_about_calls_that_are_sent_one_by_one(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = StateGraph(MCPAgentState)
            graph.add_node("tools", MCPToolNode(provider))
            graph.add_conditional_edges(
                START, lambda s: [Send("tools", [c]) for c in s["messages"][-1].tool_calls], ["tools"]
            )
            compiled = graph.compile(checkpointer=InMemorySaver())
            asked = turn(call("read", "0"), call("write", "1", n=1), call("write", "2", n=2))
            state = await compiled.ainvoke({"messages": [asked]}, THREAD)
            assert [i.value["action_requests"][0]["args"] for i in state["__interrupt__"]] == [{"n": 1}]
            state = await compiled.ainvoke(decide(APPROVE), THREAD)
            assert [i.value["action_requests"][0]["args"] for i in state["__interrupt__"]] == [{"n": 2}]
            assert sent(server) == [None, 1]
            state = await compiled.ainvoke(decide({"type": "reject"}), THREAD)
        assert sent(server) == [None, 1]
    assert [m.status for m in answers(state)] == ["success", "success", "error"]


async def test_outside_a_graph_it_is_a_plain_runnable(provider):
    node = MCPToolNode(provider)
    assert [m.tool_call_id for m in (await node.ainvoke({"messages": [turn(*CALLS)]}))["messages"]] == ["1", "2"]
    assert [m.tool_call_id for m in await node.ainvoke([turn(*CALLS)])] == ["1", "2"]
    assert [m.tool_call_id for m in (await node.ainvoke(CALLS))["messages"]] == ["1", "2"]
    found = await asyncio.to_thread(node.invoke, {"messages": [turn(*CALLS)]})
    assert [m.tool_call_id for m in found["messages"]] == ["1", "2"]


class PydanticState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = Field(default_factory=list)


@dataclass
class DataclassState:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


@pytest.mark.parametrize("state", [PydanticState, DataclassState])
async def test_a_state_that_is_a_model_or_a_dataclass(provider, state):
    found = await graph_of(MCPToolNode(provider), state).ainvoke({"messages": [turn(*CALLS)]})
    assert [m.tool_call_id for m in answers(found)] == ["1", "2"]


class Chat(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]


async def test_messages_can_have_another_key(provider):
    node = MCPToolNode(provider, messages_key="chat")
    found = await graph_of(node, Chat).ainvoke({"chat": [turn(*CALLS)]})
    assert [m.tool_call_id for m in found["chat"][1:]] == ["1", "2"]


async def test_calls_that_are_answered_already_do_not_run_again(provider, server):
    answered = ToolMessage("done", tool_call_id="1")
    state = await graph_of(MCPToolNode(provider)).ainvoke({"messages": [turn(*CALLS), answered]})
    assert sent(server) == [2]
    again = await graph_of(MCPToolNode(provider)).ainvoke({"messages": state["messages"]})
    assert len(answers(again)) == 2


async def test_an_input_without_a_message_of_the_model_says_so(provider):
    with pytest.raises(ValueError, match="no message of the model"):
        await graph_of(MCPToolNode(provider)).ainvoke({"messages": [HumanMessage("hi")]})


async def test_a_call_without_an_id_is_answered(provider):
    asked = AIMessage("", tool_calls=[{"name": "mcp__s__read", "args": {}, "id": None, "type": "tool_call"}])
    state = await graph_of(MCPToolNode(provider)).ainvoke({"messages": [asked]})
    assert [m.status for m in answers(state)] == ["success"]


# -- tools of the graph ------------------------------------------------------------------------------------------


async def test_tools_get_the_state_the_store_and_the_runtime_that_tool_node_gives_them(provider):
    seen: dict[str, Any] = {}

    @make_tool
    def peek(n: int, state: Annotated[dict, InjectedState], runtime: ToolRuntime) -> str:
        """Peek."""
        seen.update(
            messages=len(state["messages"]), calls=len(state["messages"][-1].tool_calls), id=runtime.tool_call_id
        )
        return str(n)

    node = MCPToolNode(provider, tools=[peek])
    await graph_of(node).ainvoke({"messages": [HumanMessage("hi"), turn(*CALLS, own("peek", "3", n=1))]})
    assert seen == {"messages": 2, "calls": 3, "id": "3"}


async def test_plain_functions_are_tools_as_well(provider):
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    state = await graph_of(MCPToolNode(provider, tools=[add])).ainvoke({"messages": [turn(own("add", "1", a=1, b=2))]})
    assert answers(state)[0].content == "3"


async def test_commands_of_tools_reach_the_graph(provider):
    class WithNote(MessagesState):
        note: str

    @make_tool
    def jot(runtime: ToolRuntime) -> Command:
        """Jot."""
        return Command(update={"note": "x", "messages": [ToolMessage("jotted", tool_call_id=runtime.tool_call_id)]})

    calls = [call("read", "1"), own("jot", "2"), call("write", "3")]
    state = await graph_of(MCPToolNode(provider, tools=[jot]), WithNote).ainvoke({"messages": [turn(*calls)]})
    assert state["note"] == "x"
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3"]


@pytest.mark.parametrize("handle", [True, "It broke.", (ZeroDivisionError,), lambda error: f"caught {error}"])
async def test_errors_of_tools_can_be_handled_as_in_tool_node(provider, handle):
    @make_tool
    def breaks() -> str:
        """Break."""
        raise ZeroDivisionError("no number")

    node = MCPToolNode(provider, tools=[breaks], handle_tool_errors=handle)
    state = await graph_of(node).ainvoke({"messages": [turn(own("breaks", "1"))]})
    assert answers(state)[0].status == "error"


async def test_errors_of_tools_are_raised_where_that_is_wanted(provider):
    @make_tool
    def breaks() -> str:
        """Break."""
        raise ZeroDivisionError("no number")

    node = MCPToolNode(provider, tools=[breaks], handle_tool_errors=False)
    with pytest.raises(ZeroDivisionError):
        await graph_of(node).ainvoke({"messages": [turn(own("breaks", "1"))]})


# -- wrappers ----------------------------------------------------------------------------------------------------


def stamp(result: Any) -> Any:
    return result.model_copy(update={"content": f"stamped: {result.content}"})


def wrap(request: Any, execute: Any) -> Any:
    assert request.tool is not None
    return stamp(execute(request))


async def awrap(request: Any, execute: Any) -> Any:
    assert request.tool is not None
    return stamp(await execute(request))


@pytest.mark.parametrize("options", [{"wrap_tool_call": wrap}, {"awrap_tool_call": awrap}], ids=["sync", "async"])
async def test_a_wrapper_sees_the_tool_that_was_found_and_serves_both_ways_of_running(provider, options):
    graph = graph_of(MCPToolNode(provider, **options))
    for state in (
        await graph.ainvoke({"messages": [turn(*CALLS)]}),
        await asyncio.to_thread(graph.invoke, {"messages": [turn(*CALLS)]}),
    ):
        assert all(m.content.startswith("stamped: ") for m in answers(state))


async def test_a_synchronous_wrapper_does_not_take_the_reads_their_concurrency(tmp_path):
    script = {
        "tools": TOOLS,
        "calls": {"read": [[{"touch": "a"}, {"wait_file": "b"}], [{"touch": "b"}, {"wait_file": "a"}]]},
    }
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = graph_of(MCPToolNode(provider, wrap_tool_call=wrap))
            state = await graph.ainvoke({"messages": [turn(call("read", "1"), call("read", "2"))]})
    assert [m.status for m in answers(state)] == ["success"] * 2


async def test_a_wrapper_may_answer_by_itself_or_try_again(provider, server):
    def cached(request: Any, execute: Any) -> Any:
        if request.tool_call["id"] == "1":
            return ToolMessage("from the cache", tool_call_id="1")
        execute(request)
        return execute(request)

    state = await graph_of(MCPToolNode(provider, wrap_tool_call=cached)).ainvoke({"messages": [turn(*CALLS)]})
    assert answers(state)[0].content == "from the cache"
    assert sent(server) == [2, 2]


# -- one batch in each step --------------------------------------------------------------------------------------


def batched(node: Any, **compiled: Any) -> Any:
    graph = StateGraph(MCPAgentState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.add_conditional_edges("tools", route_after_tools, {"tools": "tools", "model": END})
    return graph.compile(**compiled)


async def test_each_batch_is_a_step_of_its_own(provider):
    calls = [call("read", "1"), call("read", "2"), call("write", "3"), call("write", "4"), call("read", "5")]
    graph = batched(MCPToolNode(provider, batch="next"), checkpointer=InMemorySaver())
    updates = [u async for u in graph.astream({"messages": [turn(*calls)]}, THREAD, stream_mode="updates")]
    steps = [[m.tool_call_id for m in u["tools"]["messages"]] for u in updates]
    assert steps == [["1", "2"], ["3"], ["4"], ["5"]]


async def test_a_read_that_waits_for_a_person_does_not_repeat_its_neighbours(provider, server):
    asks = StructuredTool.from_function(
        lambda: str(interrupt("Go on?")), name="asks", description="Ask.", metadata={"readOnly": True}
    )
    calls = [call("read", "1", n=1), own("asks", "2"), call("read", "3", n=3), call("write", "4", n=4)]
    graph = batched(MCPToolNode(provider, tools=[asks], batch="next"), checkpointer=InMemorySaver())
    state = await graph.ainvoke({"messages": [turn(*calls)]}, THREAD)
    assert [i.value for i in state["__interrupt__"]] == ["Go on?"]
    assert sorted(sent(server)) == [1, 3]
    state = await graph.ainvoke(Command(resume="yes"), THREAD)
    assert sorted(sent(server)) == [1, 3, 4]
    assert {m.tool_call_id: m.content for m in answers(state)}["2"] == "yes"


async def test_it_takes_the_place_of_tool_node_in_a_graph_written_for_that(provider):
    chat = model(turn(*CALLS), "done")
    tools = await provider.get_tools_async()

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await chat.bind_tools(tools).ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node(MCPToolNode(provider))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    state = await graph.compile().ainvoke(GO)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    assert MCPToolNode(provider).tools_by_name.keys() >= {"mcp__s__read", "mcp__s__write"}
