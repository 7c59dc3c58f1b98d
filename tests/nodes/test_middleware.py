"""`MCPToolsMiddleware` beside other parts of `create_agent`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from codebuddy_mcp_tools import MCPToolsMiddleware
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import (
    ASK,
    GO,
    NO_GATE,
    THREAD,
    TOOLS,
    answers,
    call,
    decide,
    model,
    own,
    provider_of,
    sent,
    turn,
    users,
)


@make_tool
def breaks() -> str:
    """Break."""
    raise ZeroDivisionError("no number")


@make_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_without_langchain_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['langchain'] = None; sys.modules['langchain.agents'] = None\n"
        "sys.modules['langchain.agents.middleware'] = None\n"
        "import codebuddy_mcp_tools as c; c.MCPToolNode\n"
        "try: c.MCPToolsMiddleware\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "codebuddy-mcp-tools[langchain]" in done.stdout


async def test_the_agents_own_tools_come_first_and_the_servers_behind_them(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            chat = model("done")
            await create_agent(chat, [add], middleware=[MCPToolsMiddleware(provider)]).ainvoke(GO)
            assert chat.bound_names() == ["add", "mcp__s__read", "mcp__s__write"]


async def test_an_agent_that_was_given_all_tools_by_hand_still_binds_each_once(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            chat = model(turn(call("read", "1")), "done")
            tools = await provider.get_tools_async()
            state = await create_agent(chat, tools, middleware=[MCPToolsMiddleware(provider)]).ainvoke(GO)
            assert sorted(chat.bound_names()) == ["mcp__s__read", "mcp__s__write"]
    assert answers(state)[0].status == "success"


async def test_what_the_agents_own_tools_raise_is_the_agents_to_handle(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            chat = model(turn(call("read", "1"), own("breaks", "2")), "done")
            ours = MCPToolsMiddleware(provider)
            with pytest.raises(ZeroDivisionError):
                await create_agent(chat, [breaks], middleware=[ours]).ainvoke(GO)
            handled = ToolErrorMiddleware(lambda error, request: f"handled {error}")
            state = await create_agent(chat, [breaks], middleware=[ours, handled]).ainvoke(GO)
    assert answers(state)[1].content == "handled no number"


async def test_a_retry_of_other_middleware_runs_inside_the_calls_place_in_the_turn(tmp_path):
    failures = iter([True, False])

    @make_tool
    def shaky() -> str:
        """Fail once."""
        if next(failures):
            raise ConnectionError("once")
        return "well"

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
            chat = model(turn(call("write", "1", n=1), own("shaky", "2"), call("write", "3", n=3)), "done")
            agent = create_agent(chat, [shaky], middleware=[MCPToolsMiddleware(provider), retry])
            state = await agent.ainvoke(GO)
        assert sent(server) == [1, 3]
    assert [m.status for m in answers(state)] == ["success"] * 3


@pytest.mark.parametrize("first", [True, False])
async def test_a_call_that_other_middleware_answers_holds_nobody_up(first, tmp_path):
    class Cache(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            raise NotImplementedError

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["id"] == "1":
                return ToolMessage("cached", tool_call_id="1")
            return await handler(request)

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1", n=1), call("write", "2", n=2), call("write", "3", n=3)), "done")
            both = [Cache(), MCPToolsMiddleware(provider)]
            agent = create_agent(chat, middleware=both if first else both[::-1])
            state = await agent.ainvoke(GO)
        assert sent(server) == [2, 3]
    assert [m.tool_call_id for m in answers(state)] == ["1", "2", "3"]


async def test_langchains_own_approval_can_guard_the_agents_own_tools_beside_ours(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **ASK, **NO_GATE) as provider:
            chat = model(turn(own("add", "1", a=1, b=2), call("write", "2", n=2)), "done")
            both = [MCPToolsMiddleware(provider), HumanInTheLoopMiddleware({"add": True})]
            agent = create_agent(chat, [add], middleware=both, checkpointer=InMemorySaver())
            asked = []
            state = await agent.ainvoke(GO, THREAD)
            while "__interrupt__" in state:
                asked += [a["name"] for a in state["__interrupt__"][0].value["action_requests"]]
                assert server.calls() == []
                state = await agent.ainvoke(decide({"type": "approve"}), THREAD)
        assert sent(server) == [2]
    assert sorted(asked) == ["add", "mcp__s__write"]
    assert [m.status for m in answers(state)] == ["success"] * 2


async def test_a_structured_answer_does_not_hide_what_was_written_in_the_same_turn(tmp_path):
    class Report(BaseModel):
        done: bool

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1", n=1), own("Report", "2", done=True)), "done")
            agent = create_agent(chat, middleware=[MCPToolsMiddleware(provider)], response_format=ToolStrategy(Report))
            state = await agent.ainvoke(GO)
        assert sent(server) == [1]
    assert state["structured_response"] == Report(done=True)
    assert [w["tool"] for w in state["unverified_writes"]] == ["write"]


async def test_a_structured_answer_is_held_back_for_verification_as_well(tmp_path):
    class Report(BaseModel):
        done: bool

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            turns = [turn(call("write", "1")), turn(own("Report", "2", done=False)), turn(call("read", "3")),
                     turn(own("Report", "4", done=True))]  # fmt: skip
            agent = create_agent(
                model(*turns), middleware=[MCPToolsMiddleware(provider)], response_format=ToolStrategy(Report)
            )
            state = await agent.ainvoke(GO)
    assert state["structured_response"] == Report(done=True)
    assert state["unverified_writes"] == []


async def test_other_limits_of_the_agent_hold(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(*[turn(call("read", str(n))) for n in range(9)])
            limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="end")
            state = await create_agent(chat, middleware=[MCPToolsMiddleware(provider), limit]).ainvoke(GO)
    assert len(answers(state)) == 3


async def test_two_agents_with_different_views_share_the_sessions(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            reader = provider.view(tools=["mcp__s__read"])
            asked = turn(call("read", "1"), call("write", "2"))
            reads = create_agent(model(asked, "done"), middleware=[MCPToolsMiddleware(reader)])
            writes = create_agent(model(asked, "done"), middleware=[MCPToolsMiddleware(provider)])
            states = [await agent.ainvoke(GO) for agent in (reads, writes)]
        assert len(server.pids()) == 1
    assert [m.status for m in answers(states[0])] == ["success", "error"]
    assert [m.status for m in answers(states[1])] == ["success", "success"]


async def test_a_call_that_is_not_json_is_answered_by_the_agent(tmp_path):
    invalid = {"name": "mcp__s__read", "args": "{", "id": "1", "error": "", "type": "invalid_tool_call"}
    broken = AIMessage("", invalid_tool_calls=[invalid])
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await create_agent(model(broken), middleware=[MCPToolsMiddleware(provider)]).ainvoke(GO)
    assert len(users(state)) == 1
