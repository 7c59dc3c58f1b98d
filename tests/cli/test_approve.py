"""Approving a project's servers."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from codebuddy_mcp_tools.policy.audit import FIELDS
from codebuddy_mcp_tools.testing import FaultServer

TOOL = {"name": "t", "description": "Reads.", "inputSchema": {"type": "object"}}


@pytest.fixture
def project(cli):
    cli.write(".mcp.json", {"mcpServers": {"a": {"command": "node", "args": ["a.js"], "env": {"K": "ENVSEC"}},
                                           "b": {"url": "https://h/mcp", "headers": {"X": "HDRSEC"}}}})  # fmt: skip
    return cli


def admissions(cli):
    return {server["name"]: server["admission"] for server in cli.json("list")["servers"]}


def test_without_a_terminal_everything_is_shown_and_nothing_is_approved(project):
    result = project.run("approve", code=3)
    for part in ('"node"', '"a.js"', "K", "https://h/mcp", "--yes"):
        assert part in result.stdout + result.stderr
    assert "SEC" not in result.output
    assert admissions(project) == {"a": "pending", "b": "pending"}


def test_yes_approves_those_named_or_all_that_wait(project):
    assert '"a" (project scope) is approved' in project.run("approve", "a", "--yes").stdout
    assert admissions(project) == {"a": "admitted", "b": "pending"}
    project.run("approve", "-y")
    assert admissions(project) == {"a": "admitted", "b": "admitted"}
    assert "No server waits" in project.run("approve", "-y").stdout


def test_deny_refuses_and_a_later_approval_counts(project):
    project.run("approve", "a", "--deny")
    assert admissions(project)["a"] == "rejected"
    project.run("approve", "a", "--yes")
    assert admissions(project)["a"] == "admitted"


def test_every_answer_is_in_the_audit_log_with_what_it_is_bound_to(project):
    project.run("approve", "a", "--yes")
    project.run("approve", "b", "--deny")
    lines = [json.loads(line) for line in project.path(".codebuddy/logs/mcp.jsonl").read_text().splitlines()]
    assert [(line["event"], line["server"], line["approved"], line["scope"]) for line in lines] == [
        ("approval", "a", True, "project"),
        ("approval", "b", False, "project"),
    ]
    for line in lines:
        assert len(line["fingerprint"]) == 64
        assert set(line) == FIELDS["approval"] | {"v", "ts", "event", "pid"}


def test_a_changed_definition_is_shown_before_it_is_accepted(cli):
    with FaultServer({"tools": [TOOL]}) as server:
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"s": server.stdio_config()}})
        cli.write("~/.codebuddy/settings.json", {"pinPolicy": "block"})
        assert "mcp__s__t" in cli.run("tools").stdout
        assert 'No changed definition of "s" waits' in cli.run("approve", "s", "--tools").stdout
        server.update(tools=[TOOL | {"description": "Reads,\nand \u202esends."}])
        held = cli.run("tools", code=None)
        assert "mcp__s__t" not in held.stdout
        assert "approve --tools s" in cli.run("doctor", code=None).stdout
        unanswered = cli.run("approve", "--tools", code=3)
        assert r"~ description: Reads. → Reads,\nand \u202esends." in unanswered.stdout
        assert "--yes" in unanswered.stderr
        assert "mcp__s__t" not in cli.run("tools", code=None).stdout, "looking accepts nothing"
        cli.run("approve", "--tools", "--deny", code=2)
        accepted = cli.run("approve", "s", "--tools", "--yes")
        assert "~ description" in accepted.stdout
        assert 'Accepted for "s": t' in accepted.stdout
        assert "mcp__s__t" in cli.run("tools").stdout
        assert "accepted: t" in cli.path(".codebuddy/logs/mcp.jsonl").read_text()


@pytest.mark.case("B65")
@pytest.mark.parametrize(
    ("change", "asks_again"),
    [
        ({"args": ["b.js"]}, True),
        ({"env": {"K": "ENVSEC", "L": "2"}}, True),
        ({"env": {"K": "other"}}, True),
        ({"command": "deno"}, True),
        ({"description": "new words"}, False),
    ],
)
def test_a_change_of_what_runs_asks_again(project, change, asks_again):
    project.run("approve", "a", "--yes")
    content = project.read(".mcp.json")
    content["mcpServers"]["a"] |= change
    project.write(".mcp.json", content)
    assert admissions(project)["a"] == ("pending" if asks_again else "admitted")


def test_reset_asks_about_one_or_all_again(project):
    project.run("approve", "--yes")
    project.run("reset-approvals", "a")
    assert admissions(project) == {"a": "pending", "b": "admitted"}
    project.run("approve", "--yes")
    project.run("reset-approvals")
    assert admissions(project) == {"a": "pending", "b": "pending"}
    project.run("reset-approvals", "no-longer-there")


def test_a_server_of_the_users_needs_no_approval(cli):
    cli.run("add", "-s", "user", "u", "--", "x")
    assert "needs no approval" in cli.run("approve", "u", "--yes").stderr


def test_an_approval_that_changes_nothing_says_why(project):
    project.write("~/.codebuddy/settings.json", {"disabledMcpjsonServers": ["a"]})
    assert "disabledMcpjsonServers" in project.run("approve", "a", "--yes").stderr


def test_a_pending_entry_that_a_users_hides_can_be_approved(project):
    project.run("add", "-s", "user", "a", "--", "mine")
    assert project.json("get", "a")[0]["scope"] == "user"
    project.run("approve", "a", "--yes")
    assert project.json("get", "a")[0]["scope"] == "project"


def test_an_unknown_or_unusable_server_is_an_error(project):
    project.run("approve", "zz", "--yes", code=1)
    project.write(".mcp.json", {"mcpServers": {"bad": {"command": 5}}})
    project.run("approve", "bad", "--yes", code=1)


def test_an_approved_server_that_another_scope_hides_is_told(project):
    project.write("~/.codebuddy.json", {"projects": {str(project.workspace): {"mcpServers": {"a": {"command": "x"}}}}})
    assert 'the local scope has a "a" as well' in project.run("approve", "a", "--yes").stderr
    assert "as well" not in project.run("approve", "b", "--yes").stderr


def test_an_answer_that_cannot_be_kept_is_an_error_of_one_line(project):
    project.write("~/.codebuddy", "no folder")
    for command in (["approve", "a", "--yes"], ["approve", "a", "--deny"]):
        result = project.run(*command, code=1)
        assert "could not be kept" in result.stderr
        assert "Traceback" not in result.output
        assert all(line.startswith(("warning: ", "error: ")) for line in result.stderr.splitlines())
    assert admissions(project)["a"] == "pending"
    project.run("reset-approvals", code=0)


def test_a_store_that_somebody_else_could_have_written_is_told_and_can_be_written_anew(project):
    project.run("approve", "--yes")
    project.path("~/.codebuddy/mcp-approvals.json").chmod(0o666)
    assert "can be written by others" in project.run("list").stderr
    assert admissions(project) == {"a": "pending", "b": "pending"}
    assert "can be written by others" in project.run("doctor", code=None).stdout
    project.run("approve", "a", "--yes")
    assert admissions(project) == {"a": "admitted", "b": "pending"}
    assert "can be written" not in project.run("list").stderr


_APPROVER = """
import sys
from codebuddy_mcp_tools.cli.app import run
sys.stdin.readline()
sys.argv = ["codebuddy-mcp", *sys.argv[1:]]
run()
"""


def test_commands_that_run_at_the_same_time_lose_no_answer(project):
    servers = {f"s{number}": {"command": "x"} for number in range(4)}
    project.write(".mcp.json", {"mcpServers": servers})
    arguments = [["approve", name, "--yes"] for name in servers]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _APPROVER, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=project.workspace,
            text=True,
        )
        for args in arguments
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * len(processes)
    assert set(admissions(project).values()) == {"admitted"}
    project.run("reset-approvals")
    assert set(admissions(project).values()) == {"pending"}


def test_doctor_tells_a_damaged_pin_store_shadowing_and_rules_that_do_nothing(cli):
    tools = [TOOL, {"name": "describe_tool", "inputSchema": {"type": "object"}}]
    with FaultServer({"tools": tools}) as server, FaultServer({"tools": [TOOL | {"name": "T"}]}) as other:
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"s": server.stdio_config(), "S_": other.stdio_config()}})
        cli.write("~/.codebuddy/settings.json", {"permissions": {"deny": ["mcp__s__wipe", "mcp__s*"]}})
        cli.run("tools")
        for pins in cli.path("~/.codebuddy/mcp-pins").glob("*.json"):
            pins.write_text("{")
        told = cli.run("doctor", code=None).stdout
        for part in (
            "is damaged",
            "has the name of the core tool describe_tool",
            "look the same and are spelled differently",
            "permissions.deny: mcp__s__wipe matches no tool",
            "permissions.deny: mcp__s* matches nothing",
        ):
            assert part in told, part
        findings = cli.json("doctor", code=None)["findings"]
        assert all(set(finding) == {"severity", "subject", "message", "suggestion"} for finding in findings)


def test_a_command_to_copy_never_approves_more_than_its_server(cli):
    servers = {name: {"command": "x"} for name in ("--yes", "a b", "a", "b")}
    cli.write(".mcp.json", {"mcpServers": servers})
    suggestions = {f["subject"]: f["suggestion"] for f in cli.json("doctor", "--no-connect", code=1)["findings"]}
    for name in ("--yes", "a b"):
        program, *arguments = shlex.split(suggestions[name])
        assert program == "codebuddy-mcp"
        cli.run(arguments[0], "--yes", *arguments[1:])
    assert admissions(cli) == {"--yes": "admitted", "a b": "admitted", "a": "pending", "b": "pending"}
