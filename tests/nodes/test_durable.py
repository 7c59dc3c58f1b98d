"""State that survives: checkpointers, strict serialisation, other processes, crashes, time travel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, interrupt

from codebuddy_mcp_tools import Settings, ToolProvider, build_mcp_agent
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

ROOT = Path(__file__).parents[2]


def in_another_process(function: str, *arguments: Any, code: int = 0, **environment: str) -> Any:
    """Call a function of this file in a process of its own; returns what it printed, read as JSON."""
    program = (
        f"import sys, json; sys.path.insert(0, {str(ROOT)!r}); import tests.nodes.test_durable as t; "
        f"json.dump(t.{function}(*json.loads(sys.argv[1])), sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(arguments)],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else None


def resumed(place: str, database: str, entry: Any, folder: str, answer: Any, *settings: Any) -> list[Any]:
    """Resume thread `t`, and tell what answered its calls."""
    chosen = Settings.model_validate(settings[0] if settings else ASK | NO_GATE)
    provider = ToolProvider({"s": entry}, settings=chosen, state_dir=folder)
    with SqliteSaver.from_conn_string(database) as saver, provider:
        chat = model("unused", "unused", "done")
        graph = getattr(places, place)(chat, provider, checkpointer=saver, tools=[ask_user])
        state = graph.invoke(None if answer is None else Command(resume=answer), THREAD)
    return [[m.tool_call_id, m.status] for m in answers(state)]


@make_tool
def ask_user(question: str) -> str:
    """Ask the user."""
    return str(interrupt(question))


@everywhere
def test_an_approval_can_be_given_in_another_process_and_nothing_runs_twice(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [{"ledger": "written"}], "read": [{"ledger": "read"}]}}
    database = str(tmp_path / "checkpoints.db")
    turns = [turn(call("read", "1")), turn(call("read", "2"), call("write", "3"), call("write", "4")), "done"]
    with FaultServer(script) as server:
        with SqliteSaver.from_conn_string(database) as saver, provider_of(server, tmp_path, **ASK) as provider:
            graph = place(model(*turns), provider, checkpointer=saver, tools=[ask_user])
            assert "__interrupt__" in graph.invoke(GO, THREAD)
        assert server.ledger() == ["read"]
        answer = {"decisions": [APPROVE, {"type": "reject"}]}
        told = in_another_process(
            "resumed", place.__name__, database, server.stdio_config(), str(tmp_path / "state"), answer
        )
        assert told == [["1", "success"], ["2", "success"], ["3", "success"], ["4", "error"]]
        assert server.ledger() == ["read", "read", "written"]


@pytest.mark.parametrize("place", [places.whole_agent, places.langchain_agent], ids=lambda p: p.__name__)
def test_an_interrupt_among_writes_can_be_answered_in_another_process(place, tmp_path):
    database = str(tmp_path / "checkpoints.db")
    calls = [call("write", "1", n=1), own("ask_user", "2", question="Go on?"), call("write", "3", n=3)]
    with FaultServer({"tools": TOOLS}) as server:
        with SqliteSaver.from_conn_string(database) as saver, provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "unused", "done"), provider, checkpointer=saver, tools=[ask_user])
            assert "__interrupt__" in graph.invoke(GO, THREAD)
        assert sent(server) == [1]
        told = in_another_process(
            "resumed", place.__name__, database, server.stdio_config(), str(tmp_path / "state"), "yes", NO_GATE
        )
        assert told == [["1", "success"], ["2", "success"], ["3", "success"]]
        assert sent(server) == [1, 3]


def crashed(database: str, entry: Any, folder: str) -> None:
    """Runs two writes and dies in the second, as the power would go."""

    @make_tool
    def die() -> str:
        """Die."""
        os._exit(9)

    provider = ToolProvider({"s": entry}, settings=Settings.model_validate(NO_GATE), state_dir=folder)
    with SqliteSaver.from_conn_string(database) as saver:
        chat = model(turn(call("write", "1", n=1), call("read", "2"), own("die", "3"), call("write", "4", n=4)))
        build_mcp_agent(chat, provider, tools=[die]).compile(checkpointer=saver).invoke(GO, THREAD, durability="sync")


def test_after_a_crash_nothing_that_had_run_runs_again(tmp_path):
    database = str(tmp_path / "checkpoints.db")
    with FaultServer({"tools": TOOLS}) as server:
        entry = server.stdio_config()
        in_another_process("crashed", database, entry, str(tmp_path / "1"), code=9)
        assert sent(server) == [1, None]
        told = in_another_process("resumed", "whole_agent", database, entry, str(tmp_path / "2"), None, NO_GATE)
        assert sent(server) == [1, None, 4]
    assert [pair[0] for pair in told] == ["1", "2", "3", "4"]


@with_state
def test_the_state_passes_the_strict_serialiser(place, tmp_path):
    told = in_another_process("strict", place.__name__, str(tmp_path), LANGGRAPH_STRICT_MSGPACK="true")
    assert told == [["write"], "s", ["mcp__s__write"], "approve"]


def strict(place: str, folder: str) -> list[Any]:
    """Runs with `LANGGRAPH_STRICT_MSGPACK`, and reads the state back from the checkpoint."""
    with FaultServer({"tools": TOOLS}) as server, provider_of(server, Path(folder), **ASK) as provider:
        chat = model(turn(call("write", "1")), "done", "done")
        with SqliteSaver.from_conn_string(f"{folder}/checkpoints.db") as saver:
            graph = getattr(places, place)(chat, provider, checkpointer=saver)
            graph.invoke(GO, THREAD)
            graph.invoke(decide({"type": "approve", "scope": "session"}), THREAD)
            values = graph.get_state(THREAD).values
    message = next(m for m in values["messages"] if isinstance(m, ToolMessage))
    decision = values["reviewed"]["calls"]["0"]["type"]
    return [[w["tool"] for w in values["unverified_writes"]], message.artifact["server"], values["approved_tools"],
            decision]  # fmt: skip


@with_state
async def test_the_state_is_plain_data_beside_the_messages(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK) as provider:
            chat = model(turn(call("write", "1")), "done", "done")
            graph = place(chat, provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            state = await graph.ainvoke(decide({"type": "edit", "edited_action": {"args": {"n": 2}}}), THREAD)
    rest = {key: value for key, value in state.items() if key != "messages"}
    assert json.loads(json.dumps(rest)) == rest
    serializer = JsonPlusSerializer(allowed_msgpack_modules=[])
    again = serializer.loads_typed(serializer.dumps_typed(state))
    assert {key: value for key, value in again.items() if key != "messages"} == rest


@with_state
async def test_an_asynchronous_database_keeps_it_as_well(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with (
            provider_of(server, tmp_path, **ASK, **NO_GATE) as provider,
            AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver,
        ):
            graph = place(model(turn(call("write", "1")), "done"), provider, checkpointer=saver)
            await graph.ainvoke(GO, THREAD)
            await graph.ainvoke(decide(APPROVE), THREAD)
            state = await graph.aget_state(THREAD)
    assert len(state.values["unverified_writes"]) == 1


@with_state
async def test_a_fork_from_before_a_write_runs_it_again_and_owes_it_once(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            history = [snapshot async for snapshot in graph.aget_state_history(THREAD)]
            before = next(snapshot for snapshot in history if "tools" in snapshot.next)
            assert not before.values.get("unverified_writes")
            again = await graph.ainvoke(None, before.config)
        assert sent(server) == [1, 1]
    assert len(again["unverified_writes"]) == 1


@with_state
async def test_another_answer_can_be_given_from_an_earlier_checkpoint(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done"), provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
            waiting = await graph.aget_state(THREAD)
            rejected = await graph.ainvoke(decide({"type": "reject"}), THREAD)
            fork = await graph.aupdate_state(waiting.config, {"activated_tools": ["x"]})
            state = await graph.ainvoke(None, fork)
            if "__interrupt__" in state:
                state = await graph.ainvoke(decide(APPROVE), fork | THREAD)
        assert sent(server) == [1]
    assert answers(rejected)[0].status == "error"
    assert answers(state)[0].status == "success"


async def test_activation_stays_in_its_thread_and_survives_there(tmp_path):
    search = own("ToolSearch", "1", query="select:mcp__s__read")
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            saver = InMemorySaver()
            chat = model(turn(search), turn(call("read", "2")), "done", "again")
            agent = build_mcp_agent(chat, provider).compile(checkpointer=saver)
            state = await agent.ainvoke(GO, THREAD)
            assert state["activated_tools"] == ["mcp__s__read"]
            again = await agent.ainvoke({"messages": [HumanMessage("more")]}, THREAD)
            assert again["activated_tools"] == ["mcp__s__read"]
            other = build_mcp_agent(model("hello"), provider).compile(checkpointer=saver)
            assert not (await other.ainvoke(GO, {"configurable": {"thread_id": "other"}})).get("activated_tools")
    first, after_search, *_ = ([t["function"]["name"] for t in bound] for bound in chat.bound)
    assert after_search == [*first, "mcp__s__read"]


@with_state
async def test_a_conversation_from_before_a_server_was_renamed_goes_on(place, tmp_path):
    saver = InMemorySaver()
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path / "1", toolExposure="deferred") as provider:
            chat = model(turn(own("ToolSearch", "1", query="select:mcp__s__write")), turn(call("write", "2")), "a", "b")
            await place(chat, provider, checkpointer=saver).ainvoke(GO, THREAD)
        settings = Settings.model_validate({"toolExposure": "deferred"})
        renamed = ToolProvider({"new": server.stdio_config()}, settings=settings, state_dir=tmp_path / "2")
        async with renamed:
            chat = model("x", "x", "x", "x", turn(call("write", "5")), "done", "done")
            state = await place(chat, renamed, checkpointer=saver).ainvoke(GO, THREAD)
    assert "mcp__new__write" in answers(state)[-1].content
    assert "mcp__s__write" not in {t["function"]["name"] for t in chat.bound[0]}
    assert [w["server"] for w in state["unverified_writes"]] == ["s"]
