"""The applications of `langgraph.json`, loaded as LangGraph loads them and run with the scripted model."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import common

ROOT = Path(__file__).parents[2]
GRAPHS = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
QUESTION = {"messages": [HumanMessage("Which tasks are open?")]}
MODES = (None, "cautious")


def load(name: str) -> Any:
    path, variable = GRAPHS[name].split(":")
    spec = importlib.util.spec_from_file_location(f"served_{name}", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, variable)


@pytest.fixture(autouse=True)
async def fresh_providers(monkeypatch, tmp_path):
    monkeypatch.delenv("MCP_AGENT_MODEL", raising=False)
    monkeypatch.delenv("MCP_AGENT_WORKSPACE", raising=False)
    common.provider.cache_clear()
    yield
    for mode in MODES:
        await common.provider(mode).aclose()
    common.provider.cache_clear()


def test_all_three_are_served():
    assert GRAPHS.keys() == {"agent", "react_agent", "review_agent"}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_loading_a_graph_starts_no_server(name):
    graph = load(name)
    assert graph.checkpointer is None
    for mode in MODES:
        assert {s.pid for s in common.provider(mode).status()} == {None}


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_a_process_that_only_loads_a_graph_ends_by_itself(name):
    path, variable = GRAPHS[name].split(":")
    program = f"import runpy; runpy.run_path({str(ROOT / path)!r})[{variable!r}].get_graph()"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True)


@pytest.mark.parametrize("name", ["agent", "react_agent"])
async def test_the_agent_reads_writes_is_sent_back_to_verify_and_finishes(name):
    state = await load(name).ainvoke(QUESTION)
    tools = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert {m.status for m in tools} == {"success"}
    assert [m.name for m in tools][-1] == "mcp__tasks__list_tasks"
    assert isinstance(state["messages"][-1], AIMessage)
    assert state["unverified_writes"] == []


async def test_one_provider_serves_graphs_that_are_loaded_again_and_again():
    first = await load("agent").ainvoke(QUESTION)
    pids = {s.pid for s in common.provider().status()}
    second = await load("react_agent").ainvoke(QUESTION)
    assert {s.pid for s in common.provider().status()} == pids
    assert first["unverified_writes"] == second["unverified_writes"] == []


async def test_the_review_agent_waits_for_a_person_before_it_writes():
    graph = load("review_agent")
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    state = await graph.ainvoke(QUESTION, config)
    [waiting] = state["__interrupt__"]
    actions = waiting.value["action_requests"]
    assert [a["name"] for a in actions] == ["mcp__tasks__complete_task", "mcp__tasks__add_task"]
    decisions = [{"type": "approve"}, {"type": "reject", "message": "not now"}]
    state = await graph.ainvoke(Command(resume={"decisions": decisions}), config)
    done = {m.name: m for m in state["messages"] if isinstance(m, ToolMessage)}
    assert done["mcp__tasks__complete_task"].status == "success"
    assert done["mcp__tasks__add_task"].status == "error"
    assert "not now" in done["mcp__tasks__add_task"].content
    assert state["unverified_writes"] == []


async def test_the_users_own_servers_can_be_served(tmp_path, monkeypatch):
    entry = {
        "command": sys.executable,
        "args": ["-m", "codebuddy_mcp_tools.demo.servers.files", "--root", str(tmp_path)],
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))
    monkeypatch.setenv("MCP_AGENT_WORKSPACE", str(tmp_path))
    graph = load("review_agent")
    [status] = common.provider("cautious").status()
    assert (status.name, str(status.admission)) == ("mine", "pending")
    assert common.provider("cautious").settings.permission_mode == "cautious"
    assert graph.get_graph().nodes
