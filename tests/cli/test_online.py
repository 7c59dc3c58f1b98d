"""Commands that start servers: status, tools, describe, search, call, doctor."""

from __future__ import annotations

import json
import os
import sys

import pytest

from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.tools.spill import SpillStore

TOOLS = [
    {
        "name": "get_issue",
        "description": "Reads one issue.\nSecond line \u202e\u001b[31m[bold]x[/].",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "close_issue", "description": "Closes one issue.", "inputSchema": {"type": "object"}},
]
SCRIPT = {
    "name": "tracker",
    "version": "2.1",
    "tools": TOOLS,
    "calls": {
        "get_issue": [[{"echo": True}]],
        "close_issue": [[{"result": {"content": [{"type": "text", "text": "no such issue"}], "isError": True}}]],
    },
}


@pytest.fixture
def tracker():
    with FaultServer(SCRIPT) as server:
        yield server


@pytest.fixture
def online(cli, tracker):
    """A user's server that works, one that does not, and a project's that nobody has approved."""
    cli.write(
        "~/.codebuddy/.mcp.json",
        {"mcpServers": {"tracker": tracker.stdio_config(), "bad": {"command": "no-such-cmd-xyz"}}},
    )
    cli.write(".mcp.json", {"mcpServers": {"theirs": tracker.stdio_config() | {"env": {"T": "ENVSEC"}}}})
    return cli


def rows(result):
    header, *lines = (line.split("\t") for line in result.stdout.splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


@pytest.mark.case("B40")
def test_status_connects_what_may_run_and_names_what_does_not(online):
    result = online.run("status", code=1)
    found = {row["server"]: row for row in rows(result)}
    assert (found["tracker"]["state"], found["tracker"]["tools"]) == ("connected", "2")
    assert (found["bad"]["state"], found["bad"]["what is wrong"]) == ("error", "command not found: no-such-cmd-xyz")
    assert found["theirs"]["state"] == "pending"
    assert "theirs" in result.stderr
    assert "ENVSEC" not in result.output


@pytest.mark.parametrize("command", ["status", "tools"])
def test_a_broken_entry_is_told_once(cli, command):
    cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"odd": {"command": 5}}})
    assert cli.run(command, code=1).stderr.count("should be a valid string") == 1


@pytest.mark.parametrize("command", ["status", "tools", "doctor"])
def test_what_is_wrong_in_the_settings_is_told_once(cli, tracker, command):
    cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"tracker": tracker.stdio_config()}})
    rules = {"dney": ["mcp__tracker"], "deny": ["mcp__tracker__close_*"]}
    typos = {"permissionMod": "strict", "toolTimeoutMs": "x", "permissions": rules}
    cli.write("~/.codebuddy/settings.json", typos)
    result = cli.run(command, code=None)
    said = "\n".join(
        line for line in (result.stdout + result.stderr).splitlines() if line.startswith(("error", "warning"))
    )
    for word in ('"permissionMod"', '"dney"', '"toolTimeoutMs"', "mcp__tracker__close_*"):
        assert said.count(word) == 1, said


def test_status_as_json_has_everything(online):
    found = {server["name"]: server for server in online.json("status", code=1)}
    assert found["tracker"]["server_info"] == {
        "name": "tracker",
        "version": "2.1",
        "protocol": found["tracker"]["server_info"]["protocol"],
    }
    assert found["tracker"]["connected_since"]
    assert found["bad"]["last_error"]


def test_status_is_content_when_everything_runs(cli, tracker):
    cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"tracker": tracker.stdio_config()}})
    assert cli.run("status").exit_code == 0
    assert tracker.pids()
    for pid in tracker.pids():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.case("B67")
def test_without_a_person_project_servers_are_named_and_settings_let_them_in(cli, tracker):
    config = tracker.stdio_config()
    cli.write(".mcp.json", {"mcpServers": {"a": config, "b": config}})
    nothing = cli.run("tools")
    assert rows(nothing) == []
    assert "a, b" in nothing.stderr
    every = rows(cli.run("--settings", '{"enableAllProjectMcpServers": true}', "tools"))
    assert {row["server"] for row in every} == {"a", "b"}
    only_a = rows(cli.run("--settings", '{"enabledMcpjsonServers": ["a"]}', "tools"))
    assert {row["server"] for row in only_a} == {"a"}


@pytest.mark.case("B65")
def test_nothing_of_a_pending_server_is_started(cli, tracker):
    cli.write(".mcp.json", {"mcpServers": {"a": tracker.stdio_config()}})
    for command in (["status"], ["tools"], ["search", "x"], ["doctor"]):
        cli.run(*command, code=None)
    assert tracker.log() == []
    cli.run("approve", "a", "--yes")
    assert len(rows(cli.run("tools"))) == 2


def test_tools_show_effect_rule_exposure_and_cost(online):
    online.write("~/.codebuddy/settings.json", {"permissions": {"ask": ["mcp__tracker__close_issue"]}})
    found = {row["tool"]: row for row in rows(online.run("tools", "tracker"))}
    reading, writing = found["mcp__tracker__get_issue"], found["mcp__tracker__close_issue"]
    assert (reading["effect"], reading["rule"], reading["exposure"]) == ("read", "allow", "full")
    assert (writing["effect"], writing["rule"]) == ("write", "ask")
    assert int(reading["full"]) > 0
    assert int(reading["stub"]) > 0
    deferred = rows(online.run("--tools", "default,Defer(mcp__tracker__*)", "tools", "tracker"))
    assert {row["exposure"] for row in deferred} == {"deferred"}


def test_tools_of_a_server_that_does_not_run_end_with_an_error(online):
    online.run("tools", "bad", code=1)
    online.run("tools", "nowhere", code=1)


@pytest.mark.parametrize("name", ["mcp__tracker__get_issue", "tracker.get_issue"])
def test_a_name_that_tells_the_server_starts_no_other(cli, tracker, name):
    with FaultServer(SCRIPT) as other:
        servers = {"tracker": tracker.stdio_config(), "other": other.stdio_config()}
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": servers})
        cli.run("describe", name)
        assert other.log() == []


@pytest.mark.parametrize("name", ["mcp__theirs__get_issue", "theirs.get_issue"])
def test_a_tool_of_a_server_that_waits_for_approval_ends_with_3_and_says_how(online, name):
    assert "codebuddy-mcp approve theirs" in online.run("call", name, code=3).stderr


@pytest.mark.parametrize("name", ["get_issue", "mcp__tracker__get_issue", "mcp_tracker_get_issue", "tracker.get_issue"])
def test_describe_takes_every_spelling_and_shows_schema_and_rules(online, name):
    text = online.run("describe", name).stdout
    for part in ("Reads one issue.", '"required"', 'trust="untrusted"', "autonomous"):
        assert part in text


def test_text_of_a_server_cannot_act_on_the_terminal(online):
    for command in (["describe", "get_issue"], ["describe", "get_issue", "--json"], ["tools", "tracker", "--json"]):
        text = online.run(*command).output
        assert "\x1b" not in text
        assert "\u202e" not in text
    definition = online.json("describe", "get_issue")["definition"]
    assert definition == TOOLS[0]


def test_search_finds_by_words_and_ends_with_1_when_nothing_is_found(online):
    assert rows(online.run("search", "read", "issue"))[0]["tool"] == "mcp__tracker__get_issue"
    assert online.json("search", "select:close_issue")[0]["tool"] == "close_issue"
    assert online.json("search", "close")[0]["fields"]["name"] == ["close"]
    assert online.run("search", "+zzzz", code=1).stdout == ""


def test_call_sends_the_arguments_and_prints_the_enveloped_answer(online, tracker):
    text = online.run("call", "get_issue", "--json", '{"id": "7"}').stdout
    assert text.startswith('<mcp_response server="tracker" tool="get_issue" trust="untrusted">')
    assert json.loads(text[text.index(">") + 1 : text.rindex("</mcp")]) == {"id": "7"}
    raw = json.loads(online.run("call", "get_issue", "--json", '{"id": "7"}', "--raw").stdout)
    assert (raw["status"], raw["artifact"]["server"]) == ("success", "tracker")


def test_call_reads_arguments_from_standard_input(online):
    assert '"id": "8"' in online.run("call", "get_issue", "--json", "-", stdin='{"id": "8"}').stdout
    assert '"id": "9"' in online.run("call", "get_issue", '{"id": "9"}').stdout
    assert "twice" in online.run("call", "get_issue", "{}", "--json", "{}", code=2).stderr


def test_a_failed_call_ends_with_1_and_a_wrong_one_with_2(online):
    assert "no such issue" in online.run("call", "close_issue", code=1).stdout
    online.run("call", "get_issue", "--json", "{", code=2)
    online.run("call", "get_issue", "--json", "[1]", code=2)
    assert "did you mean" in online.run("call", "get_isue", code=1).stderr


def test_rules_hold_for_a_call_from_the_command_line(online, tracker):
    online.write(
        "~/.codebuddy/settings.json", {"permissions": {"deny": ["mcp__tracker__get_issue"]}, "permissionMode": "manual"}
    )
    online.run("call", "get_issue", "--json", '{"id": "1"}', "--yes", code=1)
    result = online.run("call", "close_issue", code=3)
    assert "--yes" in result.stderr
    assert "close_issue" in result.stderr
    assert [entry for entry in tracker.log() if entry.get("method") == "tools/call"] == []
    assert "no such issue" in online.run("call", "close_issue", "--yes", code=1).stdout


def test_doctor_finds_what_is_wrong_and_says_what_to_do(online):
    online.write(
        "~/.codebuddy/settings.json", {"permissions": {"allow": ["mcp__nobody"]}, "enabledMcpjsonServers": ["gone"]}
    )
    online.write("mcp.json", {"mcpServers": {"old": {"command": "x"}}})
    text = online.run("doctor", code=1).output
    for part in (
        "command not found: no-such-cmd-xyz",
        "waits for approval",
        "mcp__nobody",
        "gone",
        "comes first: old",
        "tracker 2.1",
        "enabledMcpjsonServers",
    ):
        assert part in text
    assert text.count("command not found: no-such-cmd-xyz") <= 2  # one finding, one line of the log
    found = online.json("doctor", code=1)
    assert found["token_cost"]["full"] > 0
    assert found["settings"]["permissions"]["from"].endswith("settings.json")
    assert found["settings"]["audit"] == {"value": True, "from": "default"}
    assert all(finding["suggestion"] for finding in found["findings"])


def test_doctor_without_connecting_starts_nothing(online, tracker):
    found = online.json("doctor", "--no-connect", code=1)
    assert found["status"] == []
    assert tracker.log() == []


def test_doctor_shows_where_variables_come_from_and_no_value(cli, monkeypatch):
    monkeypatch.setenv("FROM_PROCESS", "PROCSEC")
    cli.write(
        "~/.codebuddy/.mcp.json",
        {
            "mcpServers": {
                "s": {
                    "url": "https://h/${FROM_PROCESS}/${OWN}/${WITH:-d}/${NOT_SET}",
                    "env": {"OWN": "OWNSEC"},
                    "headers": {"A": "HDRSEC"},
                }
            }
        },
    )
    result = cli.run("doctor", "--no-connect", "--json", code=1)
    assert json.loads(result.stdout)["servers"][0]["variables"] == {
        "FROM_PROCESS": "environment",
        "OWN": "the entry's env",
        "WITH": "default",
        "NOT_SET": "not set",
    }
    for secret in ("PROCSEC", "OWNSEC", "HDRSEC"):
        assert secret not in result.output


def test_doctor_is_content_with_nothing(cli):
    assert "Nothing is wrong." in cli.run("doctor").stdout


@pytest.mark.case("B60")
def test_no_secret_is_printed_when_a_server_dies_at_the_start_or_refuses(cli):
    dying = "import os, sys; sys.stderr.write('token is ' + os.environ['MY_TOKEN']); sys.exit(3)"
    cli.write(
        "~/.codebuddy/.mcp.json",
        {
            "mcpServers": {
                "dying": {"command": sys.executable, "args": ["-c", dying], "env": {"MY_TOKEN": "ENVSECRET"}},
                "remote": {
                    "url": "http://u:PASSWORDSEC@127.0.0.1:9/mcp?api_key=URLSECRET",
                    "headers": {"Authorization": "Bearer HDRSECRET"},
                },
            }
        },
    )
    for command in (["-vv", "status"], ["-vv", "status", "--json"], ["-vv", "doctor"], ["tools"], ["call", "x"]):
        result = cli.run(*command, code=1)
        for secret in ("ENVSECRET", "PASSWORDSEC", "URLSECRET", "HDRSECRET"):
            assert secret not in result.output


def test_clean_removes_saved_results(cli):
    store = SpillStore(cli.home / ".codebuddy", cli.workspace)
    store.save("session", "s", "t", "text " * 100)
    assert "Removed 0" in cli.run("clean", "--older-than", "7d").stdout
    assert "Removed 1 saved results" in cli.run("clean").stdout
    cli.run("clean", "--older-than", "soon", code=2)


def test_the_demonstration_refuses_a_question_without_a_model(cli):
    cli.run("demo", "--question", "why?", code=2)
