"""Finding a tool among many: its own name comes first in every spelling."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from codebuddy_mcp_tools import MCPToolsMiddleware, Settings, ToolProvider
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer
from tests.tools.catalogs import catalog_of

NOUNS = ["file", "issue", "message", "page", "row", "chart", "user", "event", "image", "branch"]
VERBS = ["create", "delete", "list", "update", "search", "export", "move", "copy", "ask", "describe"]
HAY = [
    {
        "name": f"{verb}_{noun}",
        "description": f"{verb.title()} a {noun} and ask for it.",
        "inputSchema": {"type": "object"},
    }
    for verb in VERBS
    for noun in NOUNS
][:99]
NEEDLE = {"name": "ask_codex", "description": "Put a question to Codex.", "inputSchema": {"type": "object"}}


def named(tools: list[BaseTool], name: str) -> BaseTool:
    return next(t for t in tools if t.name == name)


@pytest.fixture
async def provider(tmp_path):
    settings = Settings.model_validate({"toolExposure": "deferred"})
    with FaultServer({"tools": [NEEDLE]}) as plugin, FaultServer({"tools": HAY}) as hay:
        servers = {"hay": hay.stdio_config(), "plugin_x": plugin.stdio_config()}
        made = ToolProvider(servers, settings=settings, state_dir=tmp_path)
        await made.get_tools_async()
        yield made
        await made.aclose()


@pytest.mark.case("B70")
@pytest.mark.parametrize(
    "query",
    [
        "ask_codex", "ask codex", "codex", "askCodex", "ask-codex", "ASK_CODEX", "codx",
        "select:mcp__plugin_x__ask_codex", "select:ask_codex", "+plugin_x ask", "+codex", "plugin_x.ask_codex",
    ],
)  # fmt: skip
async def test_a_tools_own_name_finds_it_first_in_every_spelling(query, provider):
    assert provider.catalog.search(query)[0].name == "mcp__plugin_x__ask_codex"


async def test_a_search_in_a_graph_activates_what_it_found_and_outside_it_only_answers(provider):
    search = named(provider.catalog.tools(), "ToolSearch")
    text = await search.ainvoke({"query": "select:ask_codex"})
    assert "Put a question to Codex." in text
    call = {"name": "ToolSearch", "args": {"query": "select:ask_codex"}, "id": "1", "type": "tool_call"}
    answer = await search.ainvoke(call)
    assert isinstance(answer, Command)
    assert answer.update["activated_tools"] == ["mcp__plugin_x__ask_codex"]
    assert answer.update["messages"][0].tool_call_id == "1"


async def test_a_name_that_does_not_exist_is_answered_with_near_misses(provider):
    describe = named(provider.catalog.tools(), "describe_tool")
    assert "mcp__plugin_x__ask_codex" in await describe.ainvoke({"name": "ask_codx"})
    assert '"object"' in await describe.ainvoke({"name": "ask_codex"})


def test_a_name_space_of_the_models_before_a_name_is_looked_over_unless_it_is_a_servers():
    catalog = catalog_of({"a": ["t", "mcp__b__t"], "b": ["t"]})
    assert catalog.resolve("functions.mcp__b__t").tool.info.server == "b"
    assert catalog.resolve("a.mcp__b__t").tool.info.server == "a"
    assert catalog.resolve("functions.t").tool is None


async def test_activation_only_appends_to_what_is_bound(provider):
    before = [t.name for t in provider.catalog.visible()]
    after = [t.name for t in provider.catalog.visible(["mcp__hay__list_row", "mcp__plugin_x__ask_codex", "gone"])]
    assert after == [*before, "mcp__hay__list_row", "mcp__plugin_x__ask_codex"]


async def test_the_search_tool_lists_the_names_it_can_find_by_server(provider):
    description = named(provider.catalog.tools(), "ToolSearch").description
    assert "plugin_x: mcp__plugin_x__ask_codex" in description
    assert len(description) < 21_000


async def test_auto_shows_everything_while_it_fits_the_models_window_and_nothing_beyond(tmp_path):
    with FaultServer({"tools": HAY}) as hay:
        async with ToolProvider({"hay": hay.stdio_config()}, state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            assert len(provider.catalog.visible(context_window=1_000_000)) == len(HAY)
            assert provider.catalog.visible(context_window=8_000) == []


async def test_modifiers_of_the_provider_and_of_a_run(tmp_path):
    with FaultServer({"tools": HAY[:3]}) as hay:
        servers = {"hay": hay.stdio_config()}
        async with ToolProvider(servers, defer=["Defer(mcp__hay__*)"], state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            assert provider.catalog.visible() == []
            [shown] = provider.catalog.visible(modifiers=["NoDefer(mcp__hay__create_file)"])
            assert shown.name == "mcp__hay__create_file"


@pytest.mark.case("B23")
async def test_wrapped_tools_can_be_given_to_tool_node_and_to_create_agent(provider):
    from langchain.agents import create_agent  # noqa: PLC0415

    tools: list[Any] = await provider.get_tools_async()
    assert len(ToolNode(tools).tools_by_name) == len(tools)
    model = ScriptedChatModel(turns=["fine", "fine"])
    for agent in (create_agent(model, tools), create_agent(model, middleware=[MCPToolsMiddleware(provider)])):
        state = await agent.ainvoke({"messages": [("user", "hi")]})
        assert state["messages"][-1].content == "fine"
