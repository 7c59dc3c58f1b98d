"""Looking at what is configured, and removing it."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def three_scopes(cli):
    for scope in ("user", "project", "local"):
        cli.run("add", "-s", scope, "x", "--", scope)
    cli.run("add", "-s", "user", "only", "--", "y")
    return cli


def lines(result):
    return [line.split("\t") for line in result.stdout.splitlines()]


@pytest.mark.case("B69")
def test_list_shows_every_scope_and_which_one_counts(three_scopes):
    header, *rows = lines(three_scopes.run("list"))
    assert header == ["name", "scope", "type", "state", "target", "file"]
    assert [row[:5] for row in rows] == [
        ["x", "local", "stdio", "ready", "local"],
        ["x", "project", "stdio", "pending approval, shadowed by local", "project"],
        ["x", "user", "stdio", "shadowed by local", "user"],
        ["only", "user", "stdio", "ready", "y"],
    ]


@pytest.mark.case("B69")
def test_get_shows_the_entry_that_counts_first(three_scopes):
    text = three_scopes.run("get", "x").stdout
    assert [line.split()[1] for line in text.splitlines() if line.startswith("scope:")] == ["local", "project", "user"]
    assert [entry["counts"] for entry in three_scopes.json("get", "x")] == [True, False, False]


@pytest.mark.case("B69")
def test_remove_without_a_scope_refuses_when_several_have_the_name(three_scopes):
    error = three_scopes.run("remove", "x", code=1).stderr
    for scope in ("local", "project", "user", "--scope"):
        assert scope in error
    three_scopes.run("remove", "x", "--scope", "project")
    assert three_scopes.read(".mcp.json") == {"mcpServers": {}}
    assert three_scopes.local("x")
    assert three_scopes.user("x")
    assert "still in user" in three_scopes.run("remove", "x", "-s", "local").stderr
    three_scopes.run("remove", "x")
    assert "configured servers: only" in three_scopes.run("remove", "x", "-s", "user", code=1).stderr


def test_remove_says_where_the_server_is_instead(three_scopes):
    assert "it is in: user" in three_scopes.run("remove", "only", "--scope", "local", code=1).stderr


def test_remove_takes_a_server_out_of_editor_settings(cli):
    cli.write(".vscode/settings.json", '{\n  // e\n  "codebuddy.mcp.servers": {"e": {"command": "x"}}\n}')
    cli.run("remove", "e")
    assert cli.path(".vscode/settings.json").read_text() == '{\n  // e\n  "codebuddy.mcp.servers": {}\n}'


def test_remove_takes_out_an_entry_that_cannot_be_used(cli):
    cli.write(".mcp.json", {"mcpServers": {"bad": {"command": 5}, "a__b": {"command": "x"}}})
    cli.run("remove", "bad")
    cli.run("remove", "a__b")
    assert cli.read(".mcp.json") == {"mcpServers": {}}


@pytest.mark.case("B10")
def test_a_name_is_found_in_every_spelling(cli):
    cli.run("add", "-s", "user", "Google Sheets.v2", "--", "x")
    assert cli.json("get", "google_sheets_v2")[0]["name"] == "Google Sheets.v2"
    cli.run("remove", "google-sheets-v2")


def test_a_name_that_is_not_there_is_an_error_that_names_the_others(cli):
    assert "configured servers: none" in cli.run("get", "x", code=1).stderr
    cli.run("add", "a", "--", "x")
    assert "configured servers: a" in cli.run("get", "x", code=1).stderr


def test_list_without_servers_says_how_to_add_one(cli):
    assert "codebuddy-mcp add" in cli.run("list").stdout
    assert cli.json("list") == {"servers": [], "diagnostics": []}


@pytest.mark.case("B58")
def test_a_broken_file_and_a_bad_entry_are_reported_beside_the_others(cli):
    cli.write("~/.codebuddy/.mcp.json", "{\n  oops")
    cli.write(".mcp.json", {"mcpServers": {"bad": {"type": "remote", "url": "http://h/"}, "good": {"command": "x"}}})
    result = cli.run("list")
    assert [row[0] for row in lines(result)[1:]] == ["bad", "good"]
    assert ".codebuddy/.mcp.json:2:" in result.stderr
    found = cli.json("list")
    assert [server["admission"] for server in found["servers"]] == ["invalid", "pending"]
    assert {diagnostic["severity"] for diagnostic in found["diagnostics"]} == {"error"}


@pytest.mark.case("B60")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_secret_is_shown(cli, form):
    cli.write(
        ".mcp.json",
        {
            "mcpServers": {
                "a": {
                    "type": "http",
                    "url": "http://u:PASS@127.0.0.1:1/mcp?api_key=URLSEC",
                    "headers": {"Authorization": "Bearer HDRSEC"},
                    "oauth": {"clientSecret": "OASEC"},
                    "apiKey": "XTRASEC",
                },
                "b": {
                    "command": "x",
                    "env": {"MY_TOKEN": "ENVSEC"},
                    "args": ["--token", "ARGSEC"],
                    "tools": {"t": {"zz": "TOOLSEC"}},
                },
                "c": {"command": "x y --token=BADSEC", "env": {"A": "ENVSEC"}},
            }
        },
    )
    text = cli.run("list", *form).output + "".join(cli.run("get", name, *form).output for name in "abc")
    for secret in ("PASS", "URLSEC", "HDRSEC", "ENVSEC", "ARGSEC", "OASEC", "XTRASEC", "BADSEC"):
        assert secret not in text
    assert "MY_TOKEN" in text
    assert "Authorization" in text
    assert "***" in text


@pytest.mark.case("B65")
def test_looking_starts_nothing(cli, tmp_path):
    ran = tmp_path / "ran"
    script = tmp_path / "server.py"
    script.write_text(f"open({str(ran)!r}, 'w').close()")
    for scope in ("user", "project"):
        cli.run("add", "-s", scope, scope, "--", sys.executable, str(script))
    cli.run("list")
    cli.run("get", "user")
    cli.run("list", "--json")
    assert not ran.exists()


def test_text_of_a_file_cannot_act_on_the_terminal(cli):
    cli.write(
        ".mcp.json", {"mcpServers": {"a": {"command": "x", "args": ["\x1b[31mred\u202e"], "description": "[bold]b[/]"}}}
    )
    text = cli.run("list").output + cli.run("get", "a").output
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]b[/]" in text


def test_settings_given_on_the_command_line_count(cli):
    cli.run("add", "-s", "project", "a", "--", "x")
    cli.run("add", "-s", "project", "b", "--", "x")
    only_a = '{"enabledMcpjsonServers": ["a"]}'
    found = cli.json("--settings", only_a, "list")["servers"]
    assert [server["admission"] for server in found] == ["admitted", "pending"]
    everything = '{"enableAllProjectMcpServers": true}'
    assert {s["admission"] for s in cli.json("--settings", everything, "list")["servers"]} == {"admitted"}
    assert "a, b" in cli.run("list").stderr


@pytest.mark.parametrize("source", ["{broken", "no-such-file.json"])
def test_settings_that_cannot_be_read_end_the_command(cli, source):
    cli.run("--settings", source, "list", code=2)


def test_names_of_every_script_are_shown(cli):
    cli.run("add", "-s", "user", "ünï-名前", "--", "x")
    assert "ünï-名前" in cli.run("list").stdout


def test_no_colour_and_no_frame_without_a_terminal(cli):
    cli.run("add", "a", "--", "x" * 300)
    result = cli.run("list")
    assert "\x1b" not in result.output
    assert "x" * 300 in result.stdout


@pytest.mark.parametrize("command", ["list", "status"])
def test_no_servers_because_a_file_is_broken_is_a_failure(cli, command):
    assert "No servers are configured" in cli.run(command).stdout
    cli.write(".mcp.json", '{"mcpServers": {')
    result = cli.run(command, code=1)
    assert "No servers are configured" not in result.stdout
    assert ".mcp.json" in result.stderr
    assert "could be read" in result.stderr
