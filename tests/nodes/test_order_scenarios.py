"""The order of a turn, in the four places. Proved by events: what must overlap would wait for ever if it did not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as make_tool
from langgraph.errors import GraphRecursionError

from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import GO, NO_GATE, TOOLS, answers, call, everywhere, model, own, provider_of, sent, turn

READ_ONLY = {"readOnly": True}


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
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        arrived = sent(server)
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4", "5"]
    assert {m.status for m in answers(state)} == {"success"}
    assert sorted(arrived[:2]) == [1, 2]
    assert arrived[2:] == [3, 4, 5]


@everywhere
async def test_writes_begin_one_after_another_in_the_models_order(place, tmp_path):
    steps = [[{"ledger": f"{n} begins"}, {"sleep": 0.01}, {"ledger": f"{n} ends"}] for n in range(6)]
    with FaultServer({"tools": TOOLS, "calls": {"write": steps}}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            calls = [call("write", str(n), n=n) for n in range(6)]
            await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        assert sent(server) == list(range(6))
        assert server.ledger() == [f"{n} {what}" for n in range(6) for what in ("begins", "ends")]


@everywhere
async def test_contradictory_and_non_boolean_hints_do_not_allow_concurrency(place, tmp_path):
    hints = [{"readOnlyHint": "yes"}, {"readOnlyHint": True, "destructiveHint": True}]
    tools = [{"name": f"t{i}", "inputSchema": {"type": "object"}, "annotations": h} for i, h in enumerate(hints)]
    script = {
        "tools": tools,
        "calls": {"t0": [{"ledger": "in"}, {"sleep": 0.05}, {"ledger": "out"}], "t1": [{"ledger": "next"}]},
    }
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            await place(model(turn(call("t0", "1"), call("t1", "2")), "done"), provider).ainvoke(GO)
        assert server.ledger() == ["in", "out", "next"]


@everywhere
async def test_core_tools_marked_read_only_overlap_with_reads_and_others_wait(place, tmp_path):
    log: list[str] = []
    both = threading.Barrier(2, timeout=20)

    async def look(n: int) -> str:
        log.append(f"look {n}")
        await asyncio.to_thread(both.wait)
        return "seen"

    async def change() -> str:
        log.append("change")
        return "changed"

    looks = StructuredTool.from_function(coroutine=look, name="look", description="Look.", metadata=READ_ONLY)
    changes = StructuredTool.from_function(coroutine=change, name="change", description="Change.")
    calls = [own("look", "1", n=1), own("look", "2", n=2), own("change", "3"), call("read", "4")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, core_tools=[looks, changes]) as provider:
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    assert sorted(log[:2]) == ["look 1", "look 2"]
    assert log[2] == "change"
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4"]


@everywhere
async def test_no_more_reads_run_together_than_the_limit(place, tmp_path):
    now, peak, full = 0, 0, asyncio.Event()

    async def look(n: int) -> str:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        if now == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        now -= 1
        return str(n)

    looks = StructuredTool.from_function(coroutine=look, name="look", description="Look.", metadata=READ_ONLY)
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, core_tools=[looks], max_concurrency=3) as provider:
            calls = [own("look", str(n), n=n) for n in range(12)]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    assert peak == 3
    assert [m.content for m in answers(state)] == [str(n) for n in range(12)]


@pytest.mark.case("B22")
@everywhere
async def test_one_failure_among_twenty_calls_costs_only_itself(place, tmp_path):
    steps = [[{"error": {"code": -32602, "message": "bad"}}] if n == 7 else [{"text": f"ok {n}"}] for n in range(20)]
    calls = [call("read", str(n)) for n in range(20)]
    with FaultServer({"tools": TOOLS, "calls": {"read": steps}}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    found = answers(state)
    assert [m.tool_call_id for m in found] == [str(n) for n in range(20)]
    assert sum(m.status == "error" for m in found) == 1


@pytest.mark.case("B22")
@everywhere
async def test_a_core_tool_that_raises_leaves_the_results_of_its_neighbours(place, tmp_path):
    @make_tool
    def breaks() -> str:
        """Break."""
        raise ZeroDivisionError("no number")

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, core_tools=[breaks]) as provider:
            calls = [call("read", "1"), own("breaks", "2"), call("read", "3")]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    assert [m.status for m in answers(state)] == ["success", "error", "success"]
    assert "no number" in answers(state)[1].content


@everywhere
async def test_a_failed_write_does_not_stop_what_follows(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "no", "is_error": True}], [{"text": "yes"}]]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            calls = [call("write", "1"), call("write", "2"), call("read", "3")]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
    assert [m.status for m in answers(state)] == ["error", "success", "success"]


@everywhere
async def test_a_failed_call_stops_what_follows_where_that_is_wanted(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "no", "is_error": True}], [{"text": "yes"}]]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            calls = [call("read", "0", n=0), call("write", "1", n=1), call("write", "2", n=2), call("read", "3", n=3)]
            graph = place(model(turn(*calls), "done"), provider, stop_on_error=True)
            state = await graph.ainvoke(GO)
        assert sent(server) == [0, 1]
    assert [m.status for m in answers(state)] == ["success", "error", "error", "error"]
    assert "Not run" in answers(state)[2].content


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
async def test_two_calls_with_the_same_id_both_run_and_both_get_an_answer(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"read": [{"echo": True}], "write": [{"echo": True}]}}
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            calls = [call("write", "1", n=1), call("write", "1", n=2), call("read", "1", n=3)]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        assert sent(server) == [1, 2, 3]
    assert ['"n": 1' in m.content for m in answers(state)] == [True, False, False]
    assert len(answers(state)) == 3


@everywhere
async def test_a_model_that_speaks_and_calls_in_one_message_is_heard(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await place(model(turn(call("read", "1"), text="Let me look."), "done"), provider).ainvoke(GO)
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert state["messages"][1].text == "Let me look."


@everywhere
async def test_a_model_that_never_stops_ends_at_the_recursion_limit(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            endless = model(
                *[turn(call("write", f"{n}-{k}") if k else call("read", f"{n}")) for n in range(40) for k in (0, 1)]
            )
            with pytest.raises(GraphRecursionError, match="12"):
                await place(endless, provider).ainvoke(GO, {"recursion_limit": 12})


@everywhere
def test_the_synchronous_twin_keeps_the_order_as_well(place, tmp_path):
    script = {
        "tools": TOOLS,
        "calls": {
            "read": [
                [{"touch": "first"}, {"wait_file": "second"}, {"text": "one"}],
                [{"touch": "second"}, {"wait_file": "first"}, {"text": "two"}],
            ],
        },
    }
    calls = [call("read", "1", n=1), call("read", "2", n=2), call("write", "3", n=3), call("write", "4", n=4)]
    with FaultServer(script) as server:
        with provider_of(server, tmp_path, **NO_GATE) as provider:
            state = place(model(turn(*calls), "done"), provider).invoke(GO)
        assert sent(server)[2:] == [3, 4]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3", "4"]


@everywhere
def test_streaming_and_batches_work_without_a_loop(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server, provider_of(server, tmp_path, **NO_GATE) as provider:
        graph = place(model(turn(call("read", "1"), call("write", "2")), "done"), provider)
        last = list(graph.stream(GO, stream_mode="values"))[-1]
        assert [m.status for m in answers(last)] == ["success"] * 2
        states = graph.batch([GO, GO, GO])
        assert [len(answers(state)) for state in states] == [2, 2, 2]
        assert len(server.calls()) == 8


@pytest.mark.parametrize("place", [places.whole_agent, places.langchain_agent], ids=lambda p: p.__name__)
async def test_many_threads_share_one_provider_without_waiting_for_each_other(place, tmp_path):
    # The first thread's write ends only when the second thread's write has begun.
    script = {
        "tools": TOOLS,
        "calls": {"write": [[{"touch": "a"}, {"wait_file": "b"}], [{"touch": "b"}, {"wait_file": "a"}]]},
    }
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1")), "done"), provider)
            states = await asyncio.wait_for(asyncio.gather(graph.ainvoke(GO), graph.ainvoke(GO)), 30)
    assert all(answers(state)[0].status == "success" for state in states)
