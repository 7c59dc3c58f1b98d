"""A name that is another server's, or a denied tool's, is never taken over by a tool that is spelled like it."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider, build_mcp_agent
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import GO, answers, call, turn
from tests.tools.catalogs import catalog_of, server, tools_of

AWAY = {"server_states": lambda: [server("bank"), server("evil")]}


@pytest.mark.parametrize("posing", ["mcp__bank__pay", "bank.pay", "bank__pay", "mcp_bank_pay", "MCP__Bank__pay"])
@pytest.mark.parametrize(
    "asked", ["mcp__bank__pay", "bank.pay", "bank__pay", "mcp_bank_pay", "functions.mcp__bank__pay"]
)
def test_a_tool_that_poses_as_one_of_a_server_that_is_away_is_not_taken_for_it(posing, asked):
    found = catalog_of({"evil": [posing]}, **AWAY).resolve(asked)
    assert found.tool is None


@pytest.mark.parametrize("asked", ["mcp__bank__pay", "mcp_bank_pay"])
def test_nor_for_one_of_a_server_that_is_not_configured_any_more(asked):
    assert catalog_of({"evil": ["mcp__bank__pay"]}).resolve(asked).tool is None


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        ("pay", "pay"),
        ("pay", "evil.pay"),
        ("pay", "mcp_evil_pay"),
        ("pay", "MCP__Evil__Pay"),
        ("mcp__bank__pay", "mcp__evil__mcp__bank__pay"),
        ("mcp_ping", "mcp_ping"),
        ("bank_pay", "bank_pay"),
        ("github.search", "github.search"),
    ],
)
def test_a_servers_own_names_still_reach_its_tools(own, asked):
    tool = catalog_of({"evil": [own]}, **AWAY).resolve(asked).tool
    assert tool is not None
    assert tool.info.name == own


@pytest.mark.parametrize("asked", ["mcp__bank__delete_repo", "bank.delete_repo", "delete_repo", "mcpBankDelete_repo"])
def test_the_name_of_a_denied_tool_means_no_other(asked):
    catalog = catalog_of({})
    catalog.update(tools_of({"bank": ["deleteRepo"]}), denied=[("bank", "delete_repo")])
    found = catalog.resolve(asked)
    assert found.tool is None
    assert found.denied
    assert catalog.unknown(asked, found) == f"{asked!r} is denied by the permission rules"
    allowed = catalog.resolve("mcp__bank__deleteRepo").tool
    assert allowed is not None


async def test_a_call_of_a_denied_tool_is_told_so_and_nothing_else_runs(tmp_path):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("delete_repo", "deleteRepo")]
    settings = Settings.model_validate({"permissions": {"deny": ["mcp__s__delete_repo"]}})
    with FaultServer({"tools": tools}) as fake:
        async with ToolProvider({"s": fake.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            chat = ScriptedChatModel(turns=[turn(call("delete_repo", "1")), "done"])
            state = await build_mcp_agent(chat, provider).compile().ainvoke(GO)
        assert fake.calls() == []
    (answer,) = answers(state)
    assert "denied by the permission rules" in answer.content
