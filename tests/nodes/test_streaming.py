"""What a watcher of a run sees, in the four places."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import GO, NO_GATE, TOOLS, call, everywhere, model, provider_of, turn

SECRET = "sk-of-the-server-4711"
PROGRESS = {"progress": [1, 2, "half"]}
LOG = {"notify": {"method": "notifications/message",
                  "params": {"level": "warning", "logger": "disk", "data": {"text": "nearly\nfull"}}}}  # fmt: skip


def speaking(*steps):
    return {"tools": TOOLS, "calls": {"read": [list(steps)], "write": [list(steps)]}}


@everywhere
async def test_batches_announce_themselves_in_order(place, tmp_path):
    calls = [call("read", "1"), call("read", "2"), call("write", "3"), call("read", "4")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done"), provider)
            events = [e async for e in graph.astream(GO, stream_mode="custom")]
    told = [(e["type"], [c["id"] for c in e["calls"]]) for e in events if e["type"].startswith("mcp_batch")]
    expected = [["1", "2"], ["3"], ["4"]]
    assert told == [pair for ids in expected for pair in (("mcp_batch_started", ids), ("mcp_batch_finished", ids))]


@everywhere
async def test_progress_and_log_messages_come_with_server_and_tool(place, tmp_path):
    with FaultServer(speaking(PROGRESS, LOG, {"text": "done"})) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("read", "1")), "done"), provider)
            events = [e async for e in graph.astream(GO, stream_mode="custom")]
    about = {"server": "s", "tool": "read", "tool_call_id": "1"}
    assert [e for e in events if e["type"] == "mcp_progress"] == [
        {"type": "mcp_progress", **about, "progress": 1, "total": 2, "message": "half"}
    ]
    [log] = [e for e in events if e["type"] == "mcp_log"]
    assert log.items() >= {**about, "level": "warning", "logger": "disk"}.items()
    assert "nearly" in log["message"]
    assert "\n" not in log["message"]


async def test_secrets_are_taken_out_of_progress_and_log_messages(tmp_path):
    said = {"method": "notifications/message", "params": {"level": "info", "logger": SECRET, "data": f"key {SECRET}"}}
    script = speaking({"progress": [1, 2, f"key {SECRET}"]}, {"notify": said}, {"text": "done"})
    with FaultServer(script) as server:
        entry = server.stdio_config(env={"KEY": SECRET})
        async with ToolProvider(
            {"s": entry}, settings=Settings.model_validate(NO_GATE), state_dir=tmp_path
        ) as provider:
            graph = places.whole_agent(model(turn(call("read", "1")), "done"), provider)
            events = [e async for e in graph.astream(GO, stream_mode="custom")]
    told = [e for e in events if e["type"] in {"mcp_progress", "mcp_log"}]
    assert [e["message"] for e in told] == ["key ***", "key ***"]
    assert SECRET not in repr(events)


@everywhere
async def test_what_a_server_says_becomes_output_deltas_of_the_tool(place, tmp_path):
    with FaultServer(speaking(PROGRESS, LOG, {"text": "done"})) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(call("read", "1")), "done"), provider)
            events = [e async for e in graph.astream(GO, stream_mode="tools")]
    assert [e["event"] for e in events] == ["tool-started", "tool-output-delta", "tool-output-delta", "tool-finished"]
    assert [e["delta"]["type"] for e in events[1:3]] == ["mcp_progress", "mcp_log"]
    assert {e["tool_call_id"] for e in events} == {"1"}


@everywhere
def test_the_synchronous_stream_shows_the_same(place, tmp_path):
    server = FaultServer(speaking(PROGRESS, LOG, {"text": "done"}))
    with server, provider_of(server, tmp_path, **NO_GATE) as provider:
        graph = place(model(turn(call("read", "1")), "done"), provider)
        events = [e["type"] for e in graph.stream(GO, stream_mode="custom")]
    assert events == ["mcp_batch_started", "mcp_progress", "mcp_log", "mcp_batch_finished"]


@pytest.mark.parametrize("mode", ["values", "updates"])
@everywhere
async def test_the_other_streams_are_those_of_a_graph_with_a_tool_node(place, mode, tmp_path):
    calls = [call("read", "1"), call("write", "2")]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            graph = place(model(turn(*calls), "done"), provider)
            chunks = [c async for c in graph.astream(GO, stream_mode=mode)]
    if mode == "values":
        assert len(chunks[-1]["messages"]) == 5
        return
    updates = [chunk["tools"] for chunk in chunks if "tools" in chunk]
    assert [m.tool_call_id for update in updates for m in update["messages"]] == ["1", "2"]
