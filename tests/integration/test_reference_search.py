"""An agent that sees none of the tools of the reference servers, and has to find and use one on each."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from codebuddy_mcp_tools import Settings, ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from tests.servers.npm import Servers


@pytest.mark.npm
@pytest.mark.parametrize("settings", [{"tool_exposure": "deferred"}, {"call_style": "execute"}], ids=str)
async def test_a_tool_on_each_reference_server_is_found_and_used(
    settings, npm_servers: Servers, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("milk and bread")
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
    tasks = [
        ("add two numbers", "mcp__everything__get-sum", {"a": 20, "b": 22}, "42"),
        ("read a text file", "mcp__fs__read_text_file", {"path": str(tmp_path / "notes.txt")}, "milk and bread"),
        ("remember new entities in the knowledge graph", "mcp__memory__create_entities", {"entities": [entity]}, "Ada"),
    ]
    turns: list[object] = []
    for words, tool, arguments, _ in tasks:
        turns.append([("ToolSearch", {"query": words})])
        is_direct = "call_style" not in settings
        turns.append([(tool, arguments) if is_direct else ("execute_tool", {"name": tool, "arguments": arguments})])
    entries = {
        "everything": npm_servers.config("everything", "stdio"),
        "fs": npm_servers.config("filesystem", str(tmp_path)),
        "memory": npm_servers.config("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}),
    }
    chosen = Settings(completion_gate_enabled=False, **settings)
    async with ToolProvider(entries, settings=chosen, state_dir=tmp_path / "state") as provider:
        model = ScriptedChatModel(turns=[*turns, "done"])
        state = await build_mcp_agent(model, provider).compile().ainvoke({"messages": [("user", "go")]})
    results = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    for number, (_, tool, _, said) in enumerate(tasks):
        found, used = results[2 * number : 2 * number + 2]
        assert tool in found.artifact["found"]
        assert used.status == "success"
        assert said in str(used.content)
