"""A person's answers, in the four places."""

from __future__ import annotations

import json

import pytest
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from codebuddy_mcp_tools import ConfigError, Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import (
    APPROVE,
    ASK,
    GO,
    NO_GATE,
    THREAD,
    TOOLS,
    answers,
    call,
    decide,
    everywhere,
    model,
    own,
    provider_of,
    sent,
    turn,
    with_state,
)


def edit(name: str = "mcp__s__write", /, **arguments):
    return {"type": "edit", "edited_action": {"name": name, "args": arguments}}


@everywhere
async def test_a_turn_is_asked_about_once_before_anything_of_it_runs(place, tmp_path):
    calls = [call("read", "1"), call("write", "2", n=1), call("write", "3", n=2), call("write", "4", n=3)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(turn(*calls), "done", "done"), provider, checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
            [waiting] = state["__interrupt__"]
            assert [a["args"] for a in waiting.value["action_requests"]] == [{"n": 1}, {"n": 2}, {"n": 3}]
            assert {"approve", "edit", "reject"} <= set(waiting.value["review_configs"][0]["allowed_decisions"])
            assert server.calls() == []
            answer = decide(APPROVE, edit(n=20), {"type": "reject", "message": "too much"})
            state = await graph.ainvoke(answer, THREAD)
        assert sent(server) == [None, 1, 20]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4"]
    assert [m.status for m in answers(state)] == ["success", "success", "success", "error"]
    assert "too much" in answers(state)[3].content


@everywhere
async def test_the_model_is_told_what_ran_instead_and_its_own_message_is_left_alone(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"write": [{"echo": True}]}}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide(edit(n=2)), THREAD)
    [message] = answers(state)
    assert '{"n": 2}' in message.content.split("<mcp_response")[0]
    assert state["messages"][1].tool_calls[0]["args"] == {"n": 1}


@everywhere
async def test_a_person_can_answer_in_place_of_the_tool(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(turn(call("write", "1")), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide({"type": "respond", "message": "It is done already."}), THREAD)
            assert server.calls() == []
    assert [(m.status, m.content) for m in answers(state)] == [("success", "It is done already.")]
    assert not state.get("unverified_writes")


@everywhere
async def test_edited_arguments_are_checked_against_the_schema(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide(edit(n="many")), THREAD)
            assert server.calls() == []
    assert answers(state)[0].status == "error"


@everywhere
async def test_an_edit_may_choose_another_tool_and_the_rules_hold_for_it_too(place, tmp_path):
    rules = {"permissions": {"ask": ["mcp__s__write"], "deny": ["mcp__s__forbidden"]}}
    tools = [*TOOLS, {"name": "forbidden", "inputSchema": {"type": "object"}}]
    with FaultServer({"tools": tools}) as server:
        async with provider_of(server, tmp_path, **rules) as provider:
            for name, reaches in (("mcp__s__read", ["read"]), ("mcp__s__forbidden", ["read"]), ("nonsense", ["read"])):
                graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
                await graph.ainvoke(GO, THREAD)
                state = await graph.ainvoke(decide(edit(name)), THREAD)
                assert [c["name"] for c in server.calls()] == reaches
                assert answers(state)[0].status == ("success" if name == "mcp__s__read" else "error")


@pytest.mark.parametrize(
    "answer",
    [{"decisions": []}, {"decisions": [APPROVE, APPROVE]}, {"decisions": [{"type": "perhaps"}]}, "yes", 7,
     {"decisions": [{"type": "edit"}]}, {"decisions": [{"type": "respond"}]}],
)  # fmt: skip
@everywhere
async def test_an_answer_that_does_not_fit_is_asked_for_again_and_nothing_runs(place, answer, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(Command(resume=answer), THREAD)
            [again] = state["__interrupt__"]
            assert "not taken" in again.value["action_requests"][0]["description"]
            assert server.calls() == []
            state = await graph.ainvoke(decide(APPROVE), THREAD)
        assert sent(server) == [1]
    assert "__interrupt__" not in state


@everywhere
async def test_an_approval_never_reaches_a_later_call_with_the_same_id(place, tmp_path):
    turns = [turn(call("write", "same", n=1)), turn(call("write", "same", n=2)), "done"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(*turns), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide(APPROVE), THREAD)
            assert [a["args"] for a in state["__interrupt__"][0].value["action_requests"]] == [{"n": 2}]
            state = await graph.ainvoke(decide({"type": "reject"}), THREAD)
        assert sent(server) == [1]


@everywhere
async def test_of_two_calls_with_one_id_only_the_approved_one_runs(place, tmp_path):
    calls = [call("write", "same", n=1), call("write", "same", n=2)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide({"type": "reject"}, APPROVE), THREAD)
        assert sent(server) == [2]
    assert [m.status for m in answers(state)] == ["error", "success"]


@everywhere
async def test_a_graph_without_a_checkpointer_says_so_before_anything_runs(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(turn(call("read", "0")), turn(call("write", "1")), "done"), provider)
            with pytest.raises(ConfigError, match="checkpointer"):
                await graph.ainvoke(GO)
            assert server.calls() == []


@everywhere
async def test_without_a_checkpointer_the_providers_own_handler_is_asked(place, tmp_path):
    asked = []

    def handler(request):
        asked.append(request.arguments)
        return request.arguments == {"n": 1}

    settings = Settings.model_validate(ASK | NO_GATE)
    with FaultServer({"tools": TOOLS}) as server:
        provider = ToolProvider(
            {"s": server.stdio_config()}, settings=settings, state_dir=tmp_path, approval_handler=handler
        )
        async with provider:
            calls = [call("write", "1", n=1), call("write", "2", n=2)]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        assert sent(server) == [1]
    assert asked == [{"n": 1}, {"n": 2}]
    assert [m.status for m in answers(state)] == ["success", "error"]


@with_state
async def test_a_tool_allowed_for_the_session_is_not_asked_about_again(place, tmp_path):
    turns = [turn(call("write", "1")), turn(call("write", "2")), "done", turn(call("write", "3")), "done"]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(*turns), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide({"type": "approve", "scope": "session"}), THREAD)
            assert "__interrupt__" not in state
            state = await graph.ainvoke(GO, THREAD)
            assert "__interrupt__" not in state
            assert [m.status for m in answers(state)] == ["success"] * 3
            assert state["approved_tools"] == ["mcp__s__write"]
            other = await graph.ainvoke(GO, {"configurable": {"thread_id": "other"}})
            assert "__interrupt__" in other


@make_tool
def ask_user(question: str) -> str:
    """Ask the user."""
    return str(interrupt({"question": question}))


@everywhere
async def test_a_tool_that_interrupts_between_two_writes_repeats_nothing_and_lets_nothing_overtake(place, tmp_path):
    calls = [call("write", "1", n=1), own("ask_user", "2", question="Go on?"), call("write", "3", n=3)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done"), provider, tools=[ask_user], checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
            assert [i.value for i in state["__interrupt__"]] == [{"question": "Go on?"}]
            assert sent(server) == [1]
            state = await graph.ainvoke(Command(resume="yes"), THREAD)
        assert sent(server) == [1, 3]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3"]
    assert answers(state)[1].content == "yes"


@everywhere
def test_a_tool_that_interrupts_between_two_writes_without_a_loop(place, tmp_path):
    calls = [call("write", "1", n=1), own("ask_user", "2", question="Go on?"), call("write", "3", n=3)]
    with FaultServer({"tools": TOOLS}) as server:
        with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done"), provider, tools=[ask_user], checkpointer=InMemorySaver())
            graph.invoke(GO, THREAD)
            assert sent(server) == [1]
            state = graph.invoke(Command(resume="yes"), THREAD)
        assert sent(server) == [1, 3]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3"]


@pytest.mark.parametrize("place", [places.whole_agent], ids=lambda p: p.__name__)
async def test_two_reads_that_ask_the_user_are_answered_one_after_the_other(place, tmp_path):
    asks = StructuredTool.from_function(
        lambda **given: interrupt(given["q"]), name="asks", description="Ask.", metadata={"readOnly": True},
        args_schema={"type": "object", "properties": {"q": {"type": "string"}}},
    )  # fmt: skip
    calls = [own("asks", "1", q="a"), call("read", "2"), own("asks", "3", q="b")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = place(model(turn(*calls), "done"), provider, tools=[asks], checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
            assert [i.value for i in state["__interrupt__"]] == ["a"]
            state = await graph.ainvoke(Command(resume="for a"), THREAD)
            assert [i.value for i in state["__interrupt__"]] == ["b"]
            state = await graph.ainvoke(Command(resume="for b"), THREAD)
        assert len(server.calls()) == 1
    found = {m.tool_call_id: m.content for m in answers(state)}
    assert (found["1"], found["3"]) == ("for a", "for b")


@everywhere
async def test_a_call_that_waits_while_its_server_is_renamed_is_answered_and_nothing_breaks(place, tmp_path):
    saver, asking = InMemorySaver(), {"permissions": {"ask": ["mcp__s__write", "mcp__renamed__write"]}, **NO_GATE}
    calls = [call("read", "1"), call("write", "2", n=1)]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path / "1", **asking) as provider:
            await place(model(turn(*calls), "done"), provider, checkpointer=saver).ainvoke(GO, THREAD)
        settings = Settings.model_validate(asking)
        renamed = ToolProvider({"renamed": server.stdio_config()}, settings=settings, state_dir=tmp_path / "2")
        async with renamed:
            graph = place(model(turn(*calls), "done"), renamed, checkpointer=saver)
            state = await graph.ainvoke(decide(APPROVE), THREAD)
            while "__interrupt__" in state:
                state = await graph.ainvoke(decide({"type": "reject"}), THREAD)
        assert server.calls() == []
    assert [m.tool_call_id for m in answers(state)] == ["1", "2"]
    assert {m.status for m in answers(state)} == {"error"}


@everywhere
async def test_the_request_is_plain_data(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
    request = json.loads(json.dumps(state["__interrupt__"][0].value))
    assert request.keys() == {"action_requests", "review_configs"}
    assert request["action_requests"][0]["name"] == request["review_configs"][0]["action_name"] == "mcp__s__write"
    assert "server s" in request["action_requests"][0]["description"]
