"""What the model node binds, and what it makes of what the model says."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool as make_tool

from codebuddy_mcp_tools import ToolProvider, build_mcp_agent, make_model_node
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import GO, NO_GATE, TOOLS, answers, call, model, own, provider_of, turn, with_state


@make_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@make_tool
def look() -> str:
    """Look."""
    return "seen"


async def test_own_tools_come_first_then_core_tools_then_the_servers(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, core_tools=[look]) as provider:
            chat = model("done")
            await build_mcp_agent(chat, provider, tools=[add]).compile().ainvoke(GO)
    assert chat.bound_names() == ["add", "look", "mcp__s__read", "mcp__s__write"]


async def test_plain_functions_are_tools_of_the_graph_and_of_the_provider(tmp_path):
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    def half(n: int) -> int:
        """Half."""
        return n // 2

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, core_tools=[half]) as provider:
            chat = model(turn(own("double", "1", n=4), own("half", "2", n=4)), "done")
            state = await build_mcp_agent(chat, provider, tools=[double]).compile().ainvoke(GO)
    assert [message.text for message in answers(state)] == ["8", "2"]


async def test_what_a_search_has_loaded_is_only_ever_appended(tmp_path):
    searches = [own("ToolSearch", str(n), query=f"select:mcp__s__{name}") for n, name in enumerate(["write", "read"])]
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred", core_tools=[look]) as provider:
            chat = model(turn(searches[0]), turn(searches[1]), "done")
            await build_mcp_agent(chat, provider).compile().ainvoke(GO)
    bound = [[t["function"]["name"] for t in tools] for tools in chat.bound]
    assert bound[0] == ["look", "ToolSearch", "describe_tool"]
    assert bound[1] == [*bound[0], "mcp__s__write"]
    assert bound[2] == [*bound[1], "mcp__s__read"]


@with_state
async def test_the_tool_that_reads_saved_results_comes_after_what_was_bound(place, tmp_path):
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "long " * 1000}]}}) as server:
        async with provider_of(server, tmp_path, maxOutputTokens=100, core_tools=[look]) as provider:
            chat = model(turn(call("read", "1")), "done")
            await place(chat, provider).ainvoke(GO, {"configurable": {"thread_id": "t"}})
    before, after = ([t["function"]["name"] for t in tools] for tools in chat.bound)
    assert after == [*before, "read_mcp_result"]


@pytest.mark.parametrize(("window", "deferred"), [(1_000_000, False), (200, True)])
async def test_the_models_context_window_decides_what_is_deferred(window, deferred, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1")), "done")
            chat.profile = {"max_input_tokens": window}
            state = await build_mcp_agent(chat, provider).compile().ainvoke(GO)
    assert ("mcp__s__write" not in [t["function"]["name"] for t in chat.bound[0]]) is deferred
    assert (answers(state)[0].status == "error") is deferred


async def test_a_run_can_defer_tools_for_itself(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, **NO_GATE) as provider:
            chat = model(turn(call("write", "1")), "done")
            config: Any = {"configurable": {"mcp_defer": "Defer(mcp__s__write)"}}
            state = await build_mcp_agent(chat, provider).compile().ainvoke(GO, config)
    assert [t["function"]["name"] for t in chat.bound[0]] == ["ToolSearch", "describe_tool", "mcp__s__read"]
    assert state["activated_tools"] == ["mcp__s__write"]


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("Defr(mcp__s__read)", "Defr(mcp__s__read)"),
        (5, "5"),
        ([None], "None"),
        ({"defer": "x"}, "defer"),
        ("mcp__s", "mcp__s"),
    ],
)
@with_state
async def test_a_modifier_of_a_run_that_cannot_be_read_is_an_error_that_quotes_it(place, value, quoted, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            config: Any = {"configurable": {"mcp_defer": value}}
            with pytest.raises(ConfigError) as caught:
                await place(model("done"), provider).ainvoke(GO, config)
    assert quoted in str(caught.value)


async def test_no_defer_of_the_provider_wins_over_defer_of_a_run(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        servers = {"s": server.stdio_config(defer_loading=True)}
        async with ToolProvider(servers, state_dir=tmp_path, defer="NoDefer(mcp__s__read)") as provider:
            chat = model("done")
            config: Any = {"configurable": {"mcp_defer": ["Defer(*)", "Defer(read)"]}}
            await build_mcp_agent(chat, provider).compile().ainvoke(GO, config)
    assert chat.bound_names() == ["ToolSearch", "describe_tool", "mcp__s__read"]


@pytest.mark.parametrize("prompt", ["Be brief.", SystemMessage("Be brief.")])
async def test_the_system_prompt_is_said_every_time_and_kept_nowhere(prompt, tmp_path):
    heard = []

    def say(messages):
        heard.append(messages[0])
        return turn(call("read", "1")) if len(heard) == 1 else "done"

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            graph = build_mcp_agent(model(say, say), provider, system_prompt=prompt).compile()
            state = await graph.ainvoke(GO)
    assert [m.content for m in heard] == ["Be brief."] * 2
    assert not any(isinstance(m, SystemMessage) for m in state["messages"])


async def test_calls_without_an_id_get_one_and_calls_that_are_not_json_are_answered(tmp_path):
    nameless = AIMessage("", tool_calls=[{"name": "mcp__s__read", "args": {}, "id": None, "type": "tool_call"}])
    invalid = {"name": "mcp__s__read", "args": "{", "id": "2", "error": "", "type": "invalid_tool_call"}
    broken = AIMessage("", invalid_tool_calls=[invalid])
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            state = await build_mcp_agent(model(nameless, broken, "done"), provider).compile().ainvoke(GO)
    first, second = answers(state)
    assert first.status == "success"
    assert first.tool_call_id == state["messages"][1].tool_calls[0]["id"] != ""
    assert (second.tool_call_id, second.status) == ("2", "error")
    assert state["messages"][-1].text == "done"


async def test_another_way_of_binding_can_be_given(tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            chat = model("done")
            node = make_model_node(chat, provider, bind=lambda m, tools: m.bind_tools(tools[:1], tool_choice="any"))
            await node.ainvoke(GO)
    assert chat.bound_names() == ["mcp__s__read"]


async def test_a_tool_that_returns_directly_ends_the_run(tmp_path):
    @make_tool(return_direct=True)
    def answer() -> str:
        """Answer the user."""
        return "forty-two"

    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path) as provider:
            agent = build_mcp_agent(model(turn(own("answer", "1")), "more"), provider, tools=[answer])
            state = await agent.compile().ainvoke(GO)
    assert isinstance(state["messages"][-1], ToolMessage)
