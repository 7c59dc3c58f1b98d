"""The gate of a turn: from tasks and from threads, in whatever order the calls arrive."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from codebuddy_mcp_tools.nodes.callgate import Admission, CallGate, TurnGates
from codebuddy_mcp_tools.nodes.order import CallEvent
from codebuddy_mcp_tools.nodes.schedule import Planned


def call(call_id: str, name: str = "t", **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


def planned(kinds: str) -> list[Planned]:
    return [Planned(at, call(str(at)), kind == "r") for at, kind in enumerate(kinds)]


def gate_of(kinds: str, **options: Any) -> CallGate:
    return CallGate(planned(kinds), limit=options.pop("limit", 10), patience=options.pop("patience", 60), **options)


async def run(gate: CallGate, position: int, log: list[str], event: CallEvent = CallEvent.SUCCEED) -> Admission:
    admission = await gate.aenter(position)
    if admission is Admission.BEGIN:
        log.append(f"+{position}")
        await asyncio.sleep(0)
        log.append(f"-{position}")
        gate.leave(position, event)
    return admission


@pytest.mark.parametrize("seed", range(20))
async def test_the_place_in_the_message_decides_and_not_the_arrival(seed):
    kinds = "rrwrwwrr"
    gate, log, positions = gate_of(kinds), [], list(range(len(kinds)))
    random.Random(seed).shuffle(positions)
    await asyncio.wait_for(asyncio.gather(*(run(gate, at, log) for at in positions)), 10)
    assert [int(entry[1:]) for entry in log if entry[0] == "+"] == sorted(positions)
    assert log.index("-1") < log.index("+2")
    assert log[log.index("+2") : log.index("+2") + 2] == ["+2", "-2"]


@pytest.mark.parametrize("seed", range(5))
def test_threads_wait_at_the_same_gate(seed):
    kinds = "rrwrwwrr"
    gate, log, positions = gate_of(kinds), [], list(range(len(kinds)))
    random.Random(seed).shuffle(positions)

    def one(at: int) -> None:
        assert gate.enter(at) is Admission.BEGIN
        log.append(at)
        gate.leave(at, CallEvent.SUCCEED)

    threads = [threading.Thread(target=one, args=(at,)) for at in positions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [at for at in log if kinds[at] == "w"] == [2, 4, 5]
    assert [sorted(log[:2]), log[2:6], sorted(log[6:])] == [[0, 1], [2, 3, 4, 5], [6, 7]]


async def test_a_call_that_never_comes_holds_nobody_up_for_long():
    gate, log = gate_of("www", patience=0.01), []
    await asyncio.wait_for(asyncio.gather(run(gate, 2, log), run(gate, 1, log)), 10)
    assert log == ["+1", "-1", "+2", "-2"]


def test_a_call_that_never_comes_holds_no_thread_up_for_long():
    gate = gate_of("ww", patience=0.01)
    assert gate.enter(1) is Admission.BEGIN
    gate.leave(1, CallEvent.SUCCEED)
    assert gate.enter(0) is Admission.BEGIN  # it came after all


async def test_a_call_that_was_answered_without_running_lets_the_others_pass():
    gate, log = gate_of("www"), []
    later = asyncio.create_task(run(gate, 1, log))
    await asyncio.sleep(0)
    assert log == []
    gate.skip(0)
    assert await asyncio.wait_for(later, 10) is Admission.BEGIN


async def test_a_cancelled_wait_gives_its_place_free():
    gate, log, held = gate_of("www"), [], asyncio.Event()
    assert await gate.aenter(0) is Admission.BEGIN
    second = asyncio.create_task(run(gate, 1, log))
    third = asyncio.create_task(run(gate, 2, log))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.leave(0, CallEvent.SUCCEED)
    held.set()
    assert await asyncio.wait_for(third, 10) is Admission.BEGIN


async def test_behind_a_call_that_waits_for_a_person_nothing_begins_and_all_come_again():
    gate, log = gate_of("rww"), []
    admissions = await asyncio.gather(run(gate, 0, log), run(gate, 1, log, CallEvent.SUSPEND), run(gate, 2, log))
    assert admissions == [Admission.BEGIN, Admission.BEGIN, Admission.HELD_BACK]
    again = await asyncio.wait_for(asyncio.gather(run(gate, 2, log), run(gate, 1, log)), 10)
    assert again == [Admission.BEGIN, Admission.BEGIN]
    assert [entry for entry in log if entry[0] == "+"] == ["+0", "+1", "+1", "+2"]
    assert gate.is_over


async def test_a_step_that_is_repeated_keeps_the_order_again():
    gate, log = gate_of("ww"), []
    await asyncio.gather(run(gate, 0, log), run(gate, 1, log))
    await asyncio.wait_for(asyncio.gather(run(gate, 1, log), run(gate, 0, log)), 10)
    assert log == ["+0", "-0", "+1", "-1"] * 2


async def test_a_failure_stops_what_follows_only_where_that_is_wanted():
    for stop, expected in ((False, Admission.BEGIN), (True, Admission.STOPPED)):
        gate, log = gate_of("wwr", stop_on_error=stop), []
        found = await asyncio.gather(run(gate, 0, log, CallEvent.FAIL), run(gate, 1, log), run(gate, 2, log))
        assert found == [Admission.BEGIN, expected, expected]
    gate = gate_of("w", stop_on_error=True, after_failure=True)
    assert await run(gate, 0, []) is Admission.STOPPED


def test_calls_that_share_an_id_are_told_apart_by_what_they_ask_for():
    calls = [Planned(0, call("x", n=1)), Planned(1, call("x", n=2)), Planned(2, call("x", n=2))]
    gate = CallGate(calls, limit=1)
    assert [gate.claim(call("x", n=2)).position, gate.claim(call("x", n=1)).position] == [1, 0]
    assert gate.claim(call("x", n=2)).position == 2
    with pytest.raises(KeyError):
        gate.claim(call("y"))


def test_batches_are_announced_once():
    gate, seen = gate_of("rrw"), []

    def announce(kind: str, calls: Any) -> None:
        seen.append((kind, [p.position for p in calls]))

    for at in range(2):
        gate.enter(at, announce)
    for at in range(2):
        gate.leave(at, CallEvent.SUCCEED, announce)
    assert seen == [("mcp_batch_started", [0, 1]), ("mcp_batch_finished", [0, 1])]


def test_a_turn_that_is_over_is_forgotten_and_an_open_one_is_not():
    gates = TurnGates()
    gate = gates.gate("turn", lambda: gate_of("w"))
    gates.forget("turn")
    assert gates.gate("turn", lambda: gate_of("w")) is gate
    gate.enter(0)
    gate.leave(0, CallEvent.SUCCEED)
    gates.forget("turn")
    assert gates.gate("turn", lambda: gate_of("w")) is not gate
