"""State that survives: checkpointers, strict serialisation, another process, time travel, subgraphs, streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from codebuddy_mcp_tools import MCPAgentState, Settings, ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer

READ = {"readOnlyHint": True}
TOOLS = [
    {"name": "read", "inputSchema": {"type": "object"}, "annotations": READ},
    {"name": "write", "inputSchema": {"type": "object"}},
]
GO = {"messages": [HumanMessage("go")]}
CONFIG: Any = {"configurable": {"thread_id": "t"}}

RESUME = """
import json, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from codebuddy_mcp_tools import Settings, ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel

database, entry, state_dir = sys.argv[1:]
settings = Settings.model_validate({"permissions": {"ask": ["mcp__s__write"]}, "completion_gate_enabled": False})
with SqliteSaver.from_conn_string(database) as saver, ToolProvider(
    {"s": json.loads(entry)}, settings=settings, state_dir=state_dir
) as provider:
    agent = build_mcp_agent(ScriptedChatModel(turns=["unused", "unused", "done"]), provider).compile(checkpointer=saver)
    state = agent.invoke(
        Command(resume={"decisions": [{"type": "approve"}]}), {"configurable": {"thread_id": "t"}}
    )
    print(json.dumps([m.type for m in state["messages"]]))
"""


def call(name: str, call_id: str) -> Any:
    return {"name": f"mcp__s__{name}", "args": {}, "id": call_id, "type": "tool_call"}


def turn(*calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


def provider_of(server: FaultServer, tmp_path: Path, **settings: Any) -> ToolProvider:
    chosen = Settings.model_validate(settings)
    return ToolProvider({"s": server.stdio_config()}, settings=chosen, state_dir=tmp_path / "state")


def test_an_approval_can_be_given_in_another_process_and_nothing_runs_twice(tmp_path):
    script = {"tools": TOOLS, "calls": {"write": [{"ledger": "written"}, {"text": "ok"}], "read": [{"ledger": "read"}]}}
    database = str(tmp_path / "checkpoints.db")
    with FaultServer(script) as server:
        with (
            SqliteSaver.from_conn_string(database) as saver,
            provider_of(server, tmp_path, permissions={"ask": ["mcp__s__write"]}) as provider,
        ):
            model = ScriptedChatModel(turns=[turn(call("read", "1")), turn(call("write", "2")), "done"])
            agent = build_mcp_agent(model, provider, gate=False).compile(checkpointer=saver)
            assert "__interrupt__" in agent.invoke(GO, CONFIG)
            assert server.ledger() == ["read"]
        argv = [sys.executable, "-c", RESUME, database, json.dumps(server.stdio_config()), str(tmp_path / "state")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[-2:] == ["tool", "ai"]
        assert server.ledger() == ["read", "written"]


def test_the_state_passes_the_strict_serialiser(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(Path.cwd())!r})
from tests.nodes.test_durable import strict_run
strict_run({str(tmp_path)!r})
"""
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env, check=False
    )
    assert done.returncode == 0, done.stderr


def strict_run(folder: str) -> None:
    """Runs in a process with LANGGRAPH_STRICT_MSGPACK; reads the state back from the checkpoint."""
    with FaultServer({"tools": TOOLS}) as server, provider_of(server, Path(folder)) as provider:
        model = ScriptedChatModel(turns=[turn(call("write", "1")), "done", "done"])
        agent = build_mcp_agent(model, provider).compile(checkpointer=InMemorySaver())
        agent.invoke(GO, CONFIG)
        values = agent.get_state(CONFIG).values
        assert [w["tool"] for w in values["unverified_writes"]] == ["write"]
        message = next(m for m in values["messages"] if isinstance(m, ToolMessage))
        assert message.artifact["server"] == "s"


async def test_a_fork_from_before_a_write_does_not_carry_its_debt(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            model = ScriptedChatModel(turns=[turn(call("write", "1")), "done", "done"])
            agent = build_mcp_agent(model, provider).compile(checkpointer=InMemorySaver())
            await agent.ainvoke(GO, CONFIG)
            history = [s async for s in agent.aget_state_history(CONFIG)]
            before = next(s for s in history if s.next == ("tools",))
            assert not before.values.get("unverified_writes")
            assert agent.get_state(CONFIG).values["unverified_writes"] != []


async def test_activation_stays_in_its_thread_and_survives_there(tmp_path):
    search = {"name": "ToolSearch", "args": {"query": "select:mcp__s__read"}, "id": "1", "type": "tool_call"}
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            saver = InMemorySaver()
            model = ScriptedChatModel(turns=[turn(search), turn(call("read", "2")), "done", "again"])
            agent = build_mcp_agent(model, provider).compile(checkpointer=saver)
            state = await agent.ainvoke(GO, CONFIG)
            assert state["activated_tools"] == ["mcp__s__read"]
            assert [m.status for m in state["messages"] if isinstance(m, ToolMessage)] == ["success"] * 2
            again = await agent.ainvoke({"messages": [HumanMessage("more")]}, CONFIG)
            assert again["activated_tools"] == ["mcp__s__read"]
            other = build_mcp_agent(ScriptedChatModel(turns=["hello"]), provider).compile(checkpointer=saver)
            assert not (await other.ainvoke(GO, {"configurable": {"thread_id": "other"}})).get("activated_tools")
    first, after_search, *_ = ([t["name"] for t in bound] for bound in map(_names, model.bound))
    assert after_search == [*first, "mcp__s__read"]


def _names(bound: list[Any]) -> list[dict[str, str]]:
    return [{"name": t["function"]["name"] if "function" in t else t["name"]} for t in bound]


async def test_an_activated_tool_that_is_gone_is_simply_not_bound(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            agent = build_mcp_agent(ScriptedChatModel(turns=["done"]), provider).compile()
            state = await agent.ainvoke({**GO, "activated_tools": ["mcp__renamed__tool", "mcp__s__read"]})
            assert state["messages"][-1].content == "done"


async def test_a_subgraph_passes_its_debts_up(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            child = build_mcp_agent(ScriptedChatModel(turns=[turn(call("write", "1")), "done", "done"]), provider)
            parent = StateGraph(MCPAgentState)
            parent.add_node("child", child.compile())
            parent.add_edge(START, "child")
            state = await parent.compile().ainvoke(GO)
    assert [w["tool"] for w in state["unverified_writes"]] == ["write"]


async def test_the_custom_stream_tells_batches_and_what_stayed_unverified(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            model = ScriptedChatModel(turns=[turn(call("read", "1"), call("read", "2"), call("write", "3")), "a", "b"])
            agent = build_mcp_agent(model, provider).compile()
            events = [e async for e in agent.astream(GO, stream_mode="custom")]
    begun = [[c["id"] for c in e["calls"]] for e in events if e["type"] == "mcp_batch_started"]
    assert begun == [["1", "2"], ["3"]]
    [unverified] = [e for e in events if e["type"] == "mcp_unverified_writes"]
    assert [w["tool"] for w in unverified["writes"]] == ["write"]


async def test_execute_style_binds_three_tools_and_permissions_apply_to_the_target(tmp_path):
    target = {"name": "mcp__s__write", "arguments": {}}
    execute = {"name": "execute_tool", "args": target, "id": "1", "type": "tool_call"}
    settings = {"callStyle": "execute", "permissions": {"ask": ["mcp__s__write"]}}
    with FaultServer({"tools": TOOLS, "calls": {"write": [{"text": "written"}]}}) as server:
        async with provider_of(server, tmp_path, **settings) as provider:
            model = ScriptedChatModel(turns=[turn(execute), "done", "done"])
            agent = build_mcp_agent(model, provider).compile(checkpointer=InMemorySaver())
            state = await agent.ainvoke(GO, CONFIG)
            assert [a["name"] for a in state["__interrupt__"][0].value["action_requests"]] == ["execute_tool"]
            state = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    [message] = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert "written" in message.content
    assert [t["name"] for t in _names(model.bound[0])] == ["ToolSearch", "describe_tool", "execute_tool"]
    assert [w["tool"] for w in state["unverified_writes"]] == ["write"]
