"""`toolSearch: provider`: the search of the model's provider in place of ours, as it goes over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ProviderToolSearchMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool as make_tool
from langchain_openai import ChatOpenAI

from codebuddy_mcp_tools import MCPToolsMiddleware, ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.testing import FaultServer
from tests.benchmarks.provider_schemas import provider_problems
from tests.nodes.model_api import model_api
from tests.nodes.scenarios import GO, NO_GATE, TOOLS, answers, call, model, provider_of, turn, with_state
from tests.tools.catalogs import catalog_of

SEARCH = {"anthropic": "tool_search_tool_bm25_20251119", "openai": "tool_search"}
PROVIDERS = list(SEARCH)


def chat_of(name: str, url: str) -> Any:
    if name == "anthropic":
        return ChatAnthropic(model="claude-sonnet-4-5", api_key="k", base_url=url, max_retries=0)
    return ChatOpenAI(model="gpt-5.4", api_key="k", base_url=f"{url}/v1", max_retries=0)


def agent_of(place: str, chat: Any, provider: ToolProvider, *more: Any, tools: Any = ()) -> Any:
    if place == "graph":
        return build_mcp_agent(chat, provider, tools=tools).compile()
    return create_agent(chat, list(tools), middleware=[*more, MCPToolsMiddleware(provider)])


def what(tool: dict[str, Any]) -> str:
    return tool["function"]["name"] if "function" in tool else tool.get("name") or tool["type"]


@pytest.mark.parametrize("place", ["graph", "create_agent"])
@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("exposure", ["deferred", "auto"])
async def test_all_tools_are_sent_marked_as_deferred_beside_the_providers_search(exposure, name, place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure=exposure, toolSearch="provider") as provider:
            chat = chat_of(name, url)
            chat.profile = {"max_input_tokens": 200}
            await agent_of(place, chat, provider).ainvoke(GO)
    search, *others = bodies[0]["tools"]
    assert search["type"] == SEARCH[name]
    assert {what(tool): tool["defer_loading"] for tool in others} == {"mcp__s__read": True, "mcp__s__write": True}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_search_is_the_one_that_langchains_own_middleware_would_bind(name, tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure="deferred", toolSearch="provider") as provider:
            await agent_of("graph", chat_of(name, url), provider).ainvoke(GO)
            tools = await provider.get_tools_async()
            langchains = create_agent(chat_of(name, url), tools, middleware=[ProviderToolSearchMiddleware()])
            await langchains.ainvoke(GO)
    ours, theirs = [sorted(body["tools"], key=what) for body in bodies]
    assert ours == theirs


@pytest.mark.parametrize("name", PROVIDERS)
async def test_langchains_middleware_before_ours_may_defer_the_agents_own_tools(name, tmp_path):
    @make_tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure="deferred", toolSearch="provider") as provider:
            other = ProviderToolSearchMiddleware(searchable_tools=["add"])
            await agent_of("create_agent", chat_of(name, url), provider, other, tools=[add]).ainvoke(GO)
    sent = [what(tool) for tool in bodies[0]["tools"]]
    assert sorted(sent) == sorted(["add", "mcp__s__read", "mcp__s__write", what({"name": None, **_search(name)})])


def _search(name: str) -> dict[str, Any]:
    return {"type": SEARCH[name], **({"name": "tool_search_tool_bm25"} if name == "anthropic" else {})}


@pytest.mark.parametrize("name", PROVIDERS)
async def test_what_is_not_deferred_is_sent_without_a_mark_and_without_a_search(name, tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        for search in ("own", "provider"):
            async with provider_of(server, tmp_path, toolSearch=search) as provider:
                await agent_of("graph", chat_of(name, url), provider).ainvoke(GO)
                await agent_of("create_agent", chat_of(name, url), provider).ainvoke(GO)
    assert len(bodies) == 4
    for body in bodies:
        assert [what(tool) for tool in body["tools"]] == ["mcp__s__read", "mcp__s__write"]
        assert not any("defer_loading" in tool for tool in body["tools"])


@pytest.mark.parametrize("chat", [ChatAnthropic(model_name="m", api_key="k"), ChatOpenAI(model="m", api_key="k")])
async def test_tools_that_somebody_binds_carry_the_mark_where_they_are_deferred_and_only_there(chat, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        defer = ["Defer(mcp__s__write)"]
        async with provider_of(server, tmp_path, defer=defer) as provider:
            tools = await provider.get_tools_async()
            sent = chat.bind_tools(tools).kwargs["tools"]
    assert [tool.extras["defer_loading"] for tool in tools] == [False, True]
    assert [tool.get("defer_loading", "not sent") for tool in sent] == ["not sent", True]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_without_the_switch_nothing_of_a_providers_search_is_sent(name, tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure="deferred") as provider:
            await agent_of("graph", chat_of(name, url), provider).ainvoke(GO)
            await agent_of("create_agent", chat_of(name, url), provider).ainvoke(GO)
    for body in bodies:
        assert [what(tool) for tool in body["tools"]] == ["ToolSearch", "describe_tool"]
        assert not any("defer_loading" in tool for tool in body["tools"])


@with_state
async def test_a_model_whose_provider_has_no_search_gets_ours(place, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        async with provider_of(server, tmp_path, toolExposure="deferred", toolSearch="provider") as provider:
            chat = model("done")
            await place(chat, provider).ainvoke(GO)
    assert chat.bound_names() == ["ToolSearch", "describe_tool"]


@with_state
async def test_a_tool_that_the_provider_has_found_runs_at_its_first_call(place, tmp_path):
    settings = {"toolExposure": "deferred", "toolSearch": "provider", **NO_GATE}
    with FaultServer({"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}) as server:
        async with provider_of(server, tmp_path, **settings) as provider:
            state = await place(model(turn(call("read", "1")), "done"), provider).ainvoke(GO)
    assert "here" in answers(state)[0].content


async def test_a_run_can_take_a_tool_out_of_the_search(tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure="deferred", toolSearch="provider") as provider:
            config: Any = {"configurable": {"mcp_defer": "NoDefer(mcp__s__read)"}}
            await agent_of("graph", chat_of("anthropic", url), provider).ainvoke(GO, config)
    assert {what(t): t.get("defer_loading") for t in bodies[0]["tools"][1:]} == {
        "mcp__s__read": None,
        "mcp__s__write": True,
    }


async def test_stubs_keep_describe_tool_and_need_no_search(tmp_path):
    with FaultServer({"tools": TOOLS}) as server, model_api() as (url, bodies):
        async with provider_of(server, tmp_path, toolExposure="stub", toolSearch="provider") as provider:
            await agent_of("graph", chat_of("anthropic", url), provider).ainvoke(GO)
    assert [what(tool) for tool in bodies[0]["tools"]] == ["describe_tool", "mcp__s__read", "mcp__s__write"]


@pytest.mark.parametrize("style", ["direct", "execute"])
def test_the_discovery_tools_keep_the_rules_of_every_provider(style):
    for tool in catalog_of({"a": ["one"]}, call_style=style).tools():
        assert not any(provider_problems(tool).values())


REFERENCE = {"type": "tool_reference", "tool_name": "mcp__s__read"}
FOUND_AND_CALLED = {
    "anthropic": {
        "stop_reason": "tool_use",
        "content": [
            {"type": "server_tool_use", "id": "srv_1", "name": "tool_search_tool_bm25", "input": {"query": "read"}},
            {
                "type": "tool_search_tool_result",
                "tool_use_id": "srv_1",
                "content": {"type": "tool_search_tool_search_result", "tool_references": [REFERENCE]},
            },
            {"type": "tool_use", "id": "call_1", "name": "mcp__s__read", "input": {"n": 1}},
        ],
    },
    "openai": {
        "output": [
            {
                "type": "tool_search_call",
                "id": "ts_1",
                "execution": "server",
                "call_id": None,
                "arguments": {},
                "status": "completed",
            },
            {
                "type": "tool_search_output",
                "id": "tso_1",
                "execution": "server",
                "call_id": None,
                "tools": [],
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "mcp__s__read",
                "arguments": '{"n": 1}',
                "status": "completed",
            },
        ]
    },
}


@pytest.mark.parametrize("place", ["graph", "create_agent"])
@pytest.mark.parametrize("name", PROVIDERS)
async def test_what_the_provider_says_of_its_search_goes_back_to_it_with_the_result_of_the_call(name, place, tmp_path):
    settings = {"toolExposure": "deferred", "toolSearch": "provider", **NO_GATE}
    script = {"tools": TOOLS, "calls": {"read": [{"text": "here"}]}}
    with FaultServer(script) as server, model_api(FOUND_AND_CALLED[name]) as (url, bodies):
        async with provider_of(server, tmp_path, **settings) as provider:
            state = await agent_of(place, chat_of(name, url), provider).ainvoke(GO)
        assert server.calls("read")[0]["arguments"] == {"n": 1}
    assert "here" in answers(state)[0].content
    assert state["messages"][-1].text == "ok"
    again = str(bodies[1])
    assert ("tool_search_tool_result" if name == "anthropic" else "tool_search_output") in again
    assert bodies[1]["tools"] == bodies[0]["tools"]
