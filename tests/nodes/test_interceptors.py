"""Interceptors of langchain-mcp-adapters in the four places: one that raises, one that answers, one that commands."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import GO, NO_GATE, TOOLS, answers, call, everywhere, model, sent, turn, with_state


def intercepted(server: FaultServer, folder: Any, interceptor: Any) -> ToolProvider:
    settings = Settings.model_validate(NO_GATE)
    return ToolProvider({"s": server.stdio_config()}, settings=settings, state_dir=folder, interceptors=[interceptor])


@everywhere
async def test_one_that_raises_costs_its_own_call(place, tmp_path):
    async def raises(request: Any, handler: Any) -> Any:
        if request.args.get("n") == 1:
            raise ZeroDivisionError("no number")
        return await handler(request)

    with FaultServer({"tools": TOOLS}) as server:
        async with intercepted(server, tmp_path, raises) as provider:
            calls = [call("write", "1", n=1), call("write", "2", n=2)]
            state = await place(model(turn(*calls), "done"), provider).ainvoke(GO)
        assert sent(server) == [2]
    assert [m.status for m in answers(state)] == ["error", "success"]


@everywhere
async def test_one_that_answers_with_a_message_speaks_from_inside_the_envelope(place, tmp_path):
    async def answer(request: Any, handler: Any) -> Any:
        return ToolMessage("from the interceptor", tool_call_id="1")

    with FaultServer({"tools": TOOLS}) as server:
        async with intercepted(server, tmp_path, answer) as provider:
            state = await place(model(turn(call("write", "1")), "done"), provider).ainvoke(GO)
        assert sent(server) == []
    [message] = answers(state)
    assert message.content.startswith("<mcp_response")
    assert "from the interceptor" in message.content


@with_state
async def test_one_that_commands_changes_the_state(place, tmp_path):
    async def command(request: Any, handler: Any) -> Any:
        message = ToolMessage("noted", tool_call_id="1")
        return Command(update={"messages": [message], "activated_tools": ["mcp__s__read"]})

    with FaultServer({"tools": TOOLS}) as server:
        async with intercepted(server, tmp_path, command) as provider:
            state = await place(model(turn(call("write", "1")), "done"), provider).ainvoke(GO)
    assert state["activated_tools"] == ["mcp__s__read"]
    assert [m.content for m in answers(state)] == ["noted"]
