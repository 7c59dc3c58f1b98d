"""The pure parts: batches, the call gate, debts, reducers."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from codebuddy_mcp_tools.nodes.callgate import CallGate
from codebuddy_mcp_tools.nodes.debts import settle, settled
from codebuddy_mcp_tools.nodes.gate import GATE_MARK, reprompts_since_user
from codebuddy_mcp_tools.nodes.schedule import batches, pending_calls
from codebuddy_mcp_tools.nodes.state import keep_order_union, merge_writes


def call(call_id: str, name: str = "r") -> Any:
    return {"name": name, "args": {}, "id": call_id, "type": "tool_call"}


def result(call_id: str, effect: str, outcome: str = "ok", server: str = "s") -> ToolMessage:
    artifact = {"server": server, "tool": "t", "effect": effect, "outcome": outcome}
    return ToolMessage("x", tool_call_id=call_id, name=f"mcp__{server}__t", artifact=artifact)


@given(st.lists(st.sampled_from("rw"), max_size=12))
def test_batches_keep_the_order_and_only_neighbouring_reads_share_one(kinds):
    calls = [call(str(i), kind) for i, kind in enumerate(kinds)]
    found = batches(calls, lambda c: c["name"] == "r")
    assert [c for batch in found for c in batch] == calls
    assert all(len(batch) == 1 or {c["name"] for c in batch} == {"r"} for batch in found)
    for before, after in itertools.pairwise(found):
        assert "w" in {before[-1]["name"], after[0]["name"]}


def test_an_id_used_twice_is_pending_until_both_are_answered():
    asked = AIMessage("", tool_calls=[call("1"), call("1")])
    assert len(pending_calls([asked])) == 2
    assert len(pending_calls([asked, ToolMessage("a", tool_call_id="1")])) == 1
    assert pending_calls([asked, ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="1")]) == []
    assert pending_calls([HumanMessage("hi")]) == []


async def test_the_gate_lets_neighbouring_reads_overlap_and_makes_everything_else_wait_its_turn():
    gate, log, go, both = CallGate(), [], asyncio.Event(), asyncio.Event()

    async def run(name: str, *, read_only: bool) -> None:
        async with gate.aenter(read_only=read_only):
            log.append(f"+{name}")
            if len(log) == 2:
                both.set()
            await go.wait()
            log.append(f"-{name}")

    names = [("r1", True), ("r2", True), ("w1", False), ("r3", True), ("w2", False)]
    tasks = [asyncio.create_task(run(name, read_only=ro)) for name, ro in names]
    await both.wait()
    go.set()
    await asyncio.gather(*tasks)
    assert log == ["+r1", "+r2", "-r1", "-r2", "+w1", "-w1", "+r3", "-r3", "+w2", "-w2"]


async def test_a_cancelled_wait_gives_its_place_free():
    gate, held = CallGate(), asyncio.Event()

    async def run() -> None:
        async with gate.aenter(read_only=False):
            await held.wait()

    first, second = asyncio.create_task(run()), asyncio.create_task(run())
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    third = asyncio.create_task(run())
    held.set()
    await asyncio.wait_for(asyncio.gather(first, third), 5)


def test_threads_wait_at_the_same_gate():
    gate, log = CallGate(), []
    begun, go = threading.Event(), threading.Event()

    def first() -> None:
        with gate.enter(read_only=False):
            begun.set()
            go.wait(5)
            log.append("first")

    def second() -> None:
        with gate.enter(read_only=True):
            log.append("second")

    one = threading.Thread(target=first)
    one.start()
    assert begun.wait(5)
    two = threading.Thread(target=second)
    two.start()
    go.set()
    one.join(5)
    two.join(5)
    assert log == ["first", "second"]


def test_a_write_is_owed_until_a_later_successful_read_of_its_server():
    owed = settled([], [], [result("1", "read"), result("2", "write")])
    assert [w["id"] for w in owed] == ["2"]
    assert [w["id"] for w in settled(owed, [], [result("3", "read", "tool_error")])] == ["2"]
    assert [w["id"] for w in settled(owed, [], [result("3", "read", server="other")])] == ["2"]
    assert settled(owed, [], [result("3", "read")]) == []


@pytest.mark.parametrize(("outcome", "owes"), [("ok", 1), ("unknown", 1), ("tool_error", 0), ("not_run", 0)])
def test_only_writes_that_may_have_happened_are_owed(outcome, owes):
    assert len(settled([], [], [result("1", "write", outcome)])) == owes


def test_arguments_of_a_debt_are_short_and_without_known_secrets():
    asked = AIMessage("", tool_calls=[{**call("1"), "args": {"token": "SECRET", "text": "x" * 5000}}])
    [write] = settle([], [asked], [result("1", "write")], lambda t: t.replace("SECRET", "***"))["add"]
    assert "SECRET" not in write["arguments"]
    assert len(write["arguments"]) <= 200


def test_a_plain_list_from_a_subgraph_only_adds():
    mine = {"id": "1", "server": "a"}
    assert merge_writes([mine], []) == [mine]
    assert merge_writes([mine], [{"id": "2", "server": "a"}]) == [mine, {"id": "2", "server": "a"}]
    assert merge_writes([mine], {"clear": ["1"]}) == []
    assert merge_writes(None, {"add": [mine]}) == [mine]


def test_two_searches_in_one_turn_merge_in_order():
    assert keep_order_union(["a"], ["b", "a"]) == ["a", "b"]


def test_reprompts_are_counted_since_the_user_spoke():
    mark = HumanMessage("check", additional_kwargs={GATE_MARK: True})
    assert reprompts_since_user([HumanMessage("go"), AIMessage("x"), mark, AIMessage("y")]) == 1
    assert reprompts_since_user([mark, HumanMessage("again"), AIMessage("y")]) == 0
