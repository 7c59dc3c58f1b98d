"""The pure parts: schedule, turn order, debts, answers, reducers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, add_notification_metadata

from codebuddy_mcp_tools.nodes.debts import MAX_ARGUMENT_CHARS, ledger, ledger_of_turn, owed_in, short_arguments
from codebuddy_mcp_tools.nodes.gate import GATE_SOURCE, reprompts_since_user
from codebuddy_mcp_tools.nodes.order import CallEvent, CallState, TurnOrder
from codebuddy_mcp_tools.nodes.schedule import Planned, batches, next_batch, pending_calls, positioned
from codebuddy_mcp_tools.nodes.state import keep_order_union, latest_review, merge_writes


def call(call_id: str, name: str = "r", **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


def result(call_id: str, effect: str, outcome: str = "ok", server: str = "s") -> ToolMessage:
    artifact = {"server": server, "tool": "t", "effect": effect, "outcome": outcome}
    return ToolMessage("x", tool_call_id=call_id, name=f"mcp__{server}__t", artifact=artifact)


def planned(kinds: str) -> list[Planned]:
    return [Planned(at, call(str(at)), kind == "r") for at, kind in enumerate(kinds)]


# -- schedule ----------------------------------------------------------------------------------------------------


@given(st.text("rw", max_size=12))
def test_batches_keep_the_order_and_only_neighbouring_reads_share_one(kinds):
    found = batches(planned(kinds), lambda p: p.read_only)
    assert [p for batch in found for p in batch] == planned(kinds)
    assert all(len(batch) == 1 or all(p.read_only for p in batch) for batch in found)
    for before, after in itertools.pairwise(found):
        assert not (before[-1].read_only and after[0].read_only)


def test_an_id_used_twice_is_pending_until_both_are_answered():
    asked = AIMessage("", tool_calls=[call("1"), call("1")])
    assert [at for at, _ in pending_calls([asked])] == [0, 1]
    assert [at for at, _ in pending_calls([asked, ToolMessage("a", tool_call_id="1")])] == [1]
    assert pending_calls([asked, ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="1")]) == []
    assert pending_calls([HumanMessage("hi")]) == []


def test_an_answer_to_an_earlier_turn_answers_nothing_of_this_one():
    old, new = AIMessage("", tool_calls=[call("1")]), AIMessage("", tool_calls=[call("1")])
    assert [at for at, _ in pending_calls([old, ToolMessage("a", tool_call_id="1"), new])] == [0]


def test_results_find_their_calls_in_order():
    asked = AIMessage("", tool_calls=[call("1"), call("2"), call("1")])
    a, b, c = ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="1"), ToolMessage("c", tool_call_id="9")
    assert positioned(asked, [a, b, c]) == {0: a, 2: b}


def test_calls_of_one_batch_can_be_told_apart_by_their_ids():
    twice = [Planned(0, call("1"), read_only=True), Planned(1, call("1"), read_only=True)]
    assert next_batch(twice) == twice[:1]
    assert next_batch([]) == []
    assert [p.position for p in next_batch(planned("rrw"))] == [0, 1]
    assert [p.position for p in next_batch(planned("rrw"), one_by_one=True)] == [0]


# -- turn order --------------------------------------------------------------------------------------------------


@given(st.text("rw", min_size=1, max_size=8), st.data())
def test_whatever_order_calls_arrive_and_end_in_only_neighbouring_reads_ever_overlap(kinds, data):
    order, running, begun = TurnOrder(planned(kinds), limit=3), set(), []
    arriving = data.draw(st.permutations(range(len(kinds))))
    while not order.is_over():
        if arriving and (not running or data.draw(st.booleans())):
            order.move(arriving.pop(), CallEvent.ARRIVE)
        elif running:
            ended = data.draw(st.sampled_from(sorted(running)))
            running.remove(ended)
            order.move(ended, data.draw(st.sampled_from([CallEvent.SUCCEED, CallEvent.FAIL])))
        for at in order.waiting():
            if order.may_begin(at):
                order.move(at, CallEvent.BEGIN)
                running.add(at)
                begun.append(at)
        assert len(running) <= 3
        if len(running) > 1:
            low, high = min(running), max(running)
            assert set(kinds[low : high + 1]) == {"r"}
    assert begun == list(range(len(kinds)))


def test_what_cannot_happen_to_a_call_raises():
    order = TurnOrder(planned("r"), limit=1)
    with pytest.raises(ValueError, match="EXPECTED"):
        order.move(0, CallEvent.SUCCEED)


def test_a_call_behind_one_that_waits_for_a_person_is_held_back_until_both_come_again():
    order = TurnOrder(planned("ww"), limit=1)
    for event in (CallEvent.ARRIVE, CallEvent.BEGIN, CallEvent.SUSPEND):
        order.move(0, event)
    order.move(1, CallEvent.ARRIVE)
    assert order.is_held_back(1)
    order.move(1, CallEvent.SUSPEND)
    assert not order.comes_again(1)
    assert {order.state(0), order.state(1)} == {CallState.EXPECTED}
    assert order.missing_before(1) == [0]


# -- debts -------------------------------------------------------------------------------------------------------


def owed(*results: ToolMessage, before: Any = ()) -> list[str]:
    asked = AIMessage("", id="m", tool_calls=[call(m.tool_call_id) for m in results])
    return [w["call_id"] for w in merge_writes(before, ledger(asked, dict(enumerate(results))))]


def test_a_write_is_owed_until_a_later_successful_read_of_its_server():
    assert owed(result("1", "read"), result("2", "write")) == ["2"]
    assert owed(result("1", "write"), result("2", "read")) == []
    assert owed(result("1", "write"), result("2", "read", "tool_error")) == ["1"]
    assert owed(result("1", "write"), result("2", "read", server="other")) == ["1"]


@pytest.mark.parametrize(
    ("outcome", "owes"), [("ok", 1), ("unknown", 1), ("cancelled", 1), ("tool_error", 0), ("not_run", 0)]
)
def test_only_writes_that_may_have_happened_are_owed(outcome, owes):
    assert len(owed(result("1", "write", outcome))) == owes


def test_a_call_id_that_is_used_again_is_another_debt():
    first = AIMessage("", id="a", tool_calls=[call("1")])
    second = AIMessage("", id="b", tool_calls=[call("1")])
    assert len(owed_in([first, result("1", "write"), second, result("1", "write")])) == 2
    assert owed_in([first, result("1", "write"), second, result("1", "read")]) == []


def test_the_account_of_a_turn_is_the_same_when_it_is_written_twice():
    messages = [AIMessage("", id="m", tool_calls=[call("1"), call("2")]), result("1", "read"), result("2", "write")]
    once = merge_writes([], ledger_of_turn(messages))
    assert merge_writes(once, ledger_of_turn(messages)) == once


def test_arguments_of_a_debt_are_short_and_without_known_secrets():
    text = short_arguments({"note": "SECRET", "token": "abc", "text": "x" * 5000}, lambda t: t.replace("SECRET", "***"))
    assert "SECRET" not in text
    assert "abc" not in text
    assert len(text) <= MAX_ARGUMENT_CHARS


@given(st.recursive(st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)))
def test_any_arguments_can_be_shown(value):
    assert len(short_arguments(value)) <= MAX_ARGUMENT_CHARS


# -- reducers ----------------------------------------------------------------------------------------------------


def test_a_plain_list_from_a_subgraph_only_adds():
    mine, other = {"id": "1", "server": "a"}, {"id": "2", "server": "a"}
    assert merge_writes([mine], []) == [mine]
    assert merge_writes([mine], [other, mine]) == [mine, other]
    assert merge_writes([mine, other], [{"event": "read", "server": "a"}]) == []
    assert merge_writes([mine], [{"event": "read", "server": "a"}, other]) == [other]
    assert merge_writes(None, None) == []


def test_two_searches_in_one_turn_merge_in_order():
    assert keep_order_union(["a"], ["b", "a"]) == ["a", "b"]


def test_answers_add_up_within_a_turn_and_are_dropped_with_the_next():
    first = {"message": "a", "calls": {"0": {"type": "approve"}}}
    more = {"message": "a", "calls": {"1": {"type": "reject"}}}
    assert latest_review(first, more)["calls"].keys() == {"0", "1"}
    assert latest_review(first, {"message": "b", "calls": {}}) == {"message": "b", "calls": {}}
    assert latest_review(first, None) == first


def test_reprompts_are_counted_since_the_user_spoke():
    mark = add_notification_metadata(HumanMessage("check"), source=GATE_SOURCE)
    other = add_notification_metadata(HumanMessage("a task has ended"), source="something")
    assert reprompts_since_user([HumanMessage("go"), AIMessage("x"), mark, other, AIMessage("y")]) == 1
    assert reprompts_since_user([mark, HumanMessage("again"), AIMessage("y")]) == 0
    assert reprompts_since_user([AIMessage("y")]) is None
