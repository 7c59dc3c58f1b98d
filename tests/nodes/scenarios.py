"""What the scenarios are made of: a server with a read and a write, calls of them, a model that asks for these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places

READ = {"readOnlyHint": True}
TOOLS = [
    {"name": "read", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "annotations": READ},
    {"name": "write", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
]
GO = {"messages": [("user", "go")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
ASK = {"permissions": {"ask": ["mcp__s__write"]}}
NO_GATE = {"completion_gate_enabled": False}

everywhere = pytest.mark.parametrize("place", places.ALL, ids=lambda p: p.__name__)
with_state = pytest.mark.parametrize("place", places.WITH_STATE, ids=lambda p: p.__name__)


def call(name: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    """A call of a tool of server `s`; a name with two underscores is taken as it is."""
    visible = name if "__" in name else f"mcp__s__{name}"
    return {"name": visible, "args": arguments, "id": call_id, "type": "tool_call"}


def own(name: str, call_id: str, /, **arguments: Any) -> dict[str, Any]:
    """A call of a tool that is not a server's."""
    return {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}


def turn(*calls: dict[str, Any], text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=list(calls))


def model(*turns: Any) -> ScriptedChatModel:
    return ScriptedChatModel(turns=list(turns))


def provider_of(server: FaultServer, folder: Path, *, core_tools: Any = (), **settings: Any) -> ToolProvider:
    chosen = Settings.model_validate(settings)
    return ToolProvider({"s": server.stdio_config()}, settings=chosen, state_dir=folder, core_tools=core_tools)


def answers(state: Any) -> list[ToolMessage]:
    return [m for m in state["messages"] if isinstance(m, ToolMessage)]


def users(state: Any) -> list[HumanMessage]:
    return [m for m in state["messages"] if isinstance(m, HumanMessage)]


def decide(*decisions: Any) -> Command[Any]:
    return Command(resume={"decisions": list(decisions)})


APPROVE = {"type": "approve"}


def sent(server: FaultServer) -> list[Any]:
    """The argument `n` of every call that reached the server, in order of arrival."""
    return [c["arguments"].get("n") for c in server.calls()]
