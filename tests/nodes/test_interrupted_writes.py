"""A write that was under way when its run was cut off is not made again when the run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import GO, NO_GATE, THREAD, TOOLS, answers, call, everywhere, model, provider_of, sent, turn

ROOT = Path(__file__).parents[2]
WAITS = {"wait_file": "go-on"}
HANGS_ONCE = {name: [[WAITS, {"text": "late"}], [{"text": "done"}]] for name in ("read", "write")}


def marks(state_dir: Path) -> list[str]:
    return [mark.name for mark in (state_dir / "in-flight").glob("*")]


async def until_under_way(server: FaultServer) -> None:
    await asyncio.to_thread(server.wait_until_seen, "tools/call")


async def cut_off(graph: Any, server: FaultServer) -> None:
    run = asyncio.create_task(graph.ainvoke(GO, THREAD))
    await until_under_way(server)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@everywhere
async def test_a_write_whose_run_was_cancelled_is_not_made_again(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": HANGS_ONCE}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done", "done"), provider, checkpointer=InMemorySaver())
            await cut_off(graph, server)
            state = await graph.ainvoke(None, THREAD)
        assert sent(server) == [1]
    (answer,) = answers(state)
    assert (answer.status, answer.artifact["outcome"]) == ("error", "unknown")
    assert "was under way when this run was interrupted" in answer.content
    if place in places.WITH_STATE:
        assert [w["outcome"] for w in state["unverified_writes"]] == ["unknown"]


@everywhere
@pytest.mark.parametrize("way", ["its checkpoint", "an update"])
async def test_nor_when_the_run_goes_on_from_a_checkpoint_that_is_named_or_updated(way, place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": HANGS_ONCE}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("write", "1", n=1)), "done", "done"), provider, checkpointer=InMemorySaver())
            await cut_off(graph, server)
            if way == "its checkpoint":
                state = await graph.ainvoke(None, (await graph.aget_state(THREAD)).config)
            else:
                await graph.aupdate_state(THREAD, {"messages": []})
                state = await graph.ainvoke(None, THREAD)
        assert sent(server) == [1]
    assert [message.artifact["outcome"] for message in answers(state)] == ["unknown"]


@everywhere
async def test_a_write_of_the_same_turn_that_had_ended_is_not_made_again_either(place, tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "first"}], [WAITS], [{"text": "third"}]]}}
    calls = [call("write", str(n), n=n) for n in (1, 2, 3)]
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done", "done"), provider, checkpointer=InMemorySaver())
            run = asyncio.create_task(graph.ainvoke(GO, THREAD))
            await asyncio.to_thread(server.wait_until_seen, "tools/call", 2)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            state = await graph.ainvoke(None, THREAD)
        assert sent(server) == [1, 2, 3]
    assert [message.artifact["outcome"] for message in answers(state)] == ["ok", "unknown", "ok"]


@everywhere
async def test_a_read_whose_run_was_cancelled_is_made_again(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": HANGS_ONCE}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("read", "1")), "done", "done"), provider, checkpointer=InMemorySaver())
            await cut_off(graph, server)
            state = await graph.ainvoke(None, THREAD)
    assert [message.status for message in answers(state)] == ["success"]


def dies(place: str, database: str, entry: Any, folder: str) -> None:
    provider = ToolProvider({"s": entry}, settings=Settings.model_validate(NO_GATE), state_dir=folder)
    with SqliteSaver.from_conn_string(database) as saver:
        chat = model(turn(call("write", "1", n=1), call("write", "2", n=2)))
        getattr(places, place)(chat, provider, checkpointer=saver).invoke(GO, THREAD, durability="sync")


@everywhere
async def test_writes_of_a_turn_whose_process_was_killed_are_not_made_again(place, tmp_path):
    database, state_dir = str(tmp_path / "checkpoints.db"), tmp_path / "state"
    program = (
        f"import sys, json; sys.path.insert(0, {str(ROOT)!r}); import tests.nodes.test_interrupted_writes as t; "
        "t.dies(*json.loads(sys.argv[1]))"
    )
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "first"}], [WAITS], [{"text": "again"}]]}}
    with FaultServer(script) as server:
        arguments = json.dumps([place.__name__, database, server.stdio_config(), str(state_dir)])
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, arguments)
        try:
            await asyncio.to_thread(server.wait_until_seen, "tools/call", 2)
        finally:
            process.kill()
        assert await process.wait() == -signal.SIGKILL
        with SqliteSaver.from_conn_string(database) as saver, provider_of(server, state_dir, **NO_GATE) as provider:
            graph = place(model("unused", "done"), provider, checkpointer=saver)
            state = await asyncio.to_thread(graph.invoke, None, THREAD)
        assert sent(server) == [1, 2]
    first, second = (message.artifact["outcome"] for message in answers(state))
    assert first in ("ok", "unknown")  # its answer is lost where the whole turn is one step
    assert second == "unknown"


@everywhere
async def test_of_writes_that_were_answered_only_the_marks_of_the_last_step_are_left(place, tmp_path):
    refused = {"error": {"code": -1, "message": "no"}}
    script = {"tools": TOOLS, "calls": {"write": [[{"text": "done"}], [refused], [{"exit": 1}]]}}
    turns = [turn(call("write", str(n), n=n)) for n in range(3)]
    with FaultServer(script) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(*turns, "done"), provider, checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
        assert sent(server) == [0, 1, 2]
    assert [m.artifact["outcome"] for m in answers(state)] == ["ok", "tool_error", "unknown"]
    assert len(marks(tmp_path)) == 1


async def test_without_a_thread_nothing_can_go_on_and_nothing_is_marked(tmp_path):
    with FaultServer({"tools": TOOLS, "calls": HANGS_ONCE}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            run = asyncio.create_task(places.whole_agent(model(turn(call("write", "1", n=1))), provider).ainvoke(GO))
            await until_under_way(server)
            assert marks(tmp_path) == []
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run


async def test_where_no_mark_can_be_made_the_call_is_made_and_the_log_says_what_is_missing(tmp_path, caplog):
    (tmp_path / "in-flight").write_text("a file where the folder should be")
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1")), "done")
            graph = places.whole_agent(chat, provider, checkpointer=InMemorySaver())
            state = await graph.ainvoke(GO, THREAD)
    assert [message.status for message in answers(state)] == ["success"]
    assert f"{tmp_path / 'in-flight'}: File exists" in caplog.text


async def test_where_no_mark_can_be_made_the_same_process_still_knows(tmp_path):
    (tmp_path / "in-flight").write_text("a file where the folder should be")
    with FaultServer({"tools": TOOLS, "calls": HANGS_ONCE}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1", n=1)), "done")
            graph = places.whole_agent(chat, provider, checkpointer=InMemorySaver())
            await cut_off(graph, server)
            await graph.ainvoke(None, THREAD)
        assert sent(server) == [1]


async def test_marks_that_nobody_can_need_any_more_are_removed(tmp_path):
    folder = tmp_path / "in-flight"
    folder.mkdir()
    old, new = folder / "old", folder / "new"
    old.touch()
    new.touch()
    os.utime(old, (0, 0))
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1")), "done")
            graph = places.whole_agent(chat, provider, checkpointer=InMemorySaver())
            await graph.ainvoke(GO, THREAD)
    assert "new" in marks(tmp_path)
    assert "old" not in marks(tmp_path)
