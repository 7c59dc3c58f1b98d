"""A deny or ask rule that stops nothing is named in the log, once; one that is fine is not."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer

SERVER = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("delete_repo", "look")]}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "permissions." in r.getMessage() and r.levelno >= logging.WARNING]


async def loaded(tmp_path: Any, *, entry: dict[str, Any] | None = None, **rules: list[str]) -> None:
    settings = Settings.model_validate({"permissions": rules})
    with FaultServer(SERVER) as server:
        servers = {"gh": {**server.stdio_config(), **(entry or {})}, "slow": {"command": "true", "enabled": False}}
        async with ToolProvider(servers, settings=settings, state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            await provider.refresh_tools()
            provider.tools_now()


@pytest.mark.parametrize("effect", ["deny", "ask"])
@pytest.mark.parametrize(
    "rule", ["mcp__gh__delete_*", "*", "mcp__gh__delete_repo(*)", "delete_repo", "mcp__g*", "", "mcp__gh__delete_rep"]
)
async def test_a_rule_that_stops_nothing_is_named_once(tmp_path, caplog, effect, rule):
    await loaded(tmp_path, **{effect: [rule]})
    [line] = said(caplog)
    assert line.startswith(f"permissions.{effect}: {rule} ")


async def test_rules_that_work_or_are_about_something_else_are_not_named(tmp_path, caplog):
    others = ["mcp__slow__x", "mcp__slow", "mcp__elsewhere", "mcp_elsewhere_x", "elsewhere.x", "Read", "Bash(rm:*)"]
    await loaded(tmp_path, deny=["mcp__gh__delete_repo", "mcp_gh_delete_repo", *others], ask=["mcp__gh", "mcp__*"])
    assert said(caplog) == []


async def test_a_rule_for_a_tool_that_the_entry_leaves_out_is_not_named(tmp_path, caplog):
    await loaded(tmp_path, entry={"toolAllowlist": ["look"]}, deny=["mcp__gh__delete_repo"])
    assert said(caplog) == []


async def test_a_rule_of_a_settings_file_that_stops_nothing_is_named(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codebuddy").mkdir()
    (tmp_path / ".codebuddy" / "settings.json").write_text(json.dumps({"permissions": {"deny": ["mcp__gh__del*"]}}))
    (tmp_path / "project").mkdir()
    with FaultServer(SERVER) as server:
        async with ToolProvider({"gh": server.stdio_config()}, workspace=tmp_path / "project") as provider:
            await provider.get_tools_async()
    assert ["mcp__gh__del*" in line for line in said(caplog)] == [True]


async def test_a_view_names_its_own_rules_that_stop_nothing_and_does_not_repeat_the_provider_s(tmp_path, caplog):
    settings = Settings.model_validate({"permissions": {"deny": ["mcp__gh__del*"]}})
    with FaultServer(SERVER) as server:
        async with ToolProvider({"gh": server.stdio_config()}, settings=settings, state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            caplog.clear()
            view = provider.view(permissions={"deny": ["mcp__gh__lo*"]})
            await view.get_tools_async()
            narrow = provider.view(tools=["mcp__gh__look"], permissions={"deny": ["mcp__gh__delete_repo"]})
            await narrow.get_tools_async()
    assert ["mcp__gh__lo*" in line for line in said(caplog)] == [True]
