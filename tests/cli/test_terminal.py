"""What a person at a terminal sees."""

from __future__ import annotations

import os
import sys

import pytest

if sys.platform == "win32":
    pytest.skip("needs a pseudo terminal", allow_module_level=True)

from codebuddy_mcp_tools.testing import FaultServer
from tests.cli import terminal

TOOLS = [{"name": "get_issue", "inputSchema": {"type": "object"}}]


@pytest.fixture
def project(cli):
    cli.write(".mcp.json", {"mcpServers": {"a": {"command": "node", "args": ["a.js"]}, "b": {"command": "x"}}})
    return cli


def test_approve_asks_about_each_server_after_showing_it(project):
    answers = {'argument 1  "a.js"': "y\n", '"b" of project': "n\n"}
    code, text = terminal.run("approve", cwd=project.workspace, answers=answers)
    assert code == 0
    assert text.index('"node"') < text.index("Approve?") < text.index('"a" (project scope) is approved')
    assert '"b" (project scope) is refused' in text
    assert [server["admission"] for server in project.json("list")["servers"]] == ["admitted", "rejected"]


def test_an_empty_answer_is_no(project):
    terminal.run("approve", "a", cwd=project.workspace, answers={"Approve?": "\n"})
    assert project.json("get", "a")[0]["admission"] == "rejected"


def test_an_interrupt_leaves_everything_as_it_was(project):
    code, text = terminal.run("approve", "a", cwd=project.workspace, answers={"Approve?": "\x03"})
    assert code != 0
    assert "Traceback" not in text
    assert project.json("get", "a")[0]["admission"] == "pending"


def test_a_list_in_a_terminal_has_a_rule_and_colours_unless_they_are_not_wanted(project):
    _, text = terminal.run("list", cwd=project.workspace)
    assert "─" in text
    assert "\x1b[" in text
    _, plain = terminal.run("list", cwd=project.workspace, env={"NO_COLOR": "1"})
    assert "\x1b[3" not in plain


def test_a_narrow_terminal_shows_everything(project):
    project.run("add", "-s", "user", "wide", "--", "npx", "-y", "@modelcontextprotocol/server-everything", "stdio")
    _, text = terminal.run("list", cwd=project.workspace, columns=50, env={"NO_COLOR": "1"})
    squeezed = "".join(text.split())
    assert "wide" in squeezed
    assert "…" not in text


@pytest.fixture
def waiting(cli):
    """A server that starts when its gate is opened."""
    with FaultServer({"tools": TOOLS, "on_start": [{"wait_file": "go"}]}) as server:
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"slow": server.stdio_config()}})
        yield server


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_status_shows_who_is_waited_for(cli, waiting):
    code, text = terminal.run("status", cwd=cli.workspace, answers={"connecting": waiting.gate("go").touch})
    assert code == 0
    assert text.index("connecting") < text.rindex("connected")


def test_an_interrupt_while_a_server_starts_ends_everything_at_once(cli, waiting):
    code, text = terminal.run("status", cwd=cli.workspace, answers={"connecting": "\x03"})
    assert code != 0
    assert "Traceback" not in text
    assert not [pid for pid in waiting.pids() if is_running(pid)]


def test_watching_goes_on_until_interrupted_and_leaves_nothing_running(cli, waiting):
    waiting.gate("go").touch()
    code, text = terminal.run("status", "--watch", cwd=cli.workspace, answers={"connected": "\x03"})
    assert "Traceback" not in text
    assert code in (0, 1, 130)
    assert waiting.pids()
    assert not [pid for pid in waiting.pids() if is_running(pid)]


def test_a_call_that_needs_a_confirmation_asks_for_it(cli, waiting):
    waiting.gate("go").touch()
    cli.write("~/.codebuddy/settings.json", {"permissionMode": "manual"})
    code, text = terminal.run("call", "get_issue", cwd=cli.workspace, answers={"Call it?": "n\n"})
    assert code == 1
    assert "not called" in text
    assert not [entry for entry in waiting.log() if entry.get("method") == "tools/call"]
