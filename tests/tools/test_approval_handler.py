"""What an approval handler answers, and what becomes of one that fails: only `True` lets anything happen."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import Admission

PAY = {"name": "pay", "inputSchema": {"type": "object"}}
CALL = {"name": "mcp__bank__pay", "args": {}, "id": "c1", "type": "tool_call"}
NOT_AN_ANSWER = ["no", "yes", {"type": "reject"}, [False], 1, 0]


async def a_call(server: FaultServer, tmp_path: Any, handler: Any) -> Any:
    settings = Settings(permission_mode="manual")
    servers = {"bank": server.stdio_config()}
    async with ToolProvider(servers, settings=settings, approval_handler=handler, state_dir=tmp_path) as provider:
        [pay] = await provider.get_tools_async()
        return await pay.ainvoke(CALL)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "handler" in r.getMessage()]


@pytest.mark.parametrize("answer", NOT_AN_ANSWER, ids=repr)
async def test_a_call_is_not_made_for_an_answer_that_is_neither_true_nor_false(tmp_path, caplog, answer):
    with FaultServer({"tools": [PAY]}) as server:
        message = await a_call(server, tmp_path, lambda request: answer)
        assert server.calls() == []
    assert message.status == "error"
    assert "did not approve" in message.content
    [line] = warnings(caplog)
    assert "must return True or False" in line
    assert f"a {type(answer).__name__}" in line


@pytest.mark.parametrize("answer", [False, None])
async def test_a_plain_no_refuses_without_a_warning(tmp_path, caplog, answer):
    with FaultServer({"tools": [PAY]}) as server:
        assert (await a_call(server, tmp_path, lambda request: answer)).status == "error"
        assert server.calls() == []
    assert warnings(caplog) == []


async def test_a_server_is_not_started_for_an_answer_that_is_neither_true_nor_false(tmp_path, caplog):
    workspace = tmp_path / "project"
    workspace.mkdir()
    with FaultServer({"tools": [PAY]}) as server:
        (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"bank": server.stdio_config()}}))
        options = {"workspace": workspace, "state_dir": tmp_path / "state", "settings": Settings()}
        async with ToolProvider(approval_handler=lambda request: "no", **options) as provider:
            assert await provider.get_tools_async() == []
            [status] = [s for s in provider.status() if s.name == "bank"]
        assert server.pids() == []
    assert status.admission is Admission.REJECTED
    assert len(warnings(caplog)) == 1


async def test_a_call_whose_approval_handler_fails_is_not_made_and_says_so(tmp_path, caplog):
    with FaultServer({"tools": [PAY]}) as server:
        message = await a_call(server, tmp_path, lambda request: 1 / 0)
        assert server.calls() == []
    assert message.status == "error"
    assert "the approval handler failed (ZeroDivisionError); the call was not made" in message.content
    assert message.artifact["outcome"] == "not_run"
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("role", ["approval_handler", "elicitation_handler"])
def test_a_handler_that_cannot_be_called_is_refused_at_once(tmp_path, role):
    with pytest.raises(ConfigError, match=f"{role} must be something to call, not a str"):
        ToolProvider({}, state_dir=tmp_path, **{role: "yes"})
