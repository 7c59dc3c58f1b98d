"""Adding servers."""

from __future__ import annotations

import shlex

import pytest

STDIO = "stdio"


@pytest.mark.case("B68")
@pytest.mark.parametrize(
    ("line", "where", "name", "entry"),
    [
        ("mcp add -s user -e FOO=bar t1 -- echo hi", "user", "t1",
         {"type": STDIO, "command": "echo", "args": ["hi"], "env": {"FOO": "bar"}}),
        ("mcp add t2 -s user -- docker run -i --rm -p 127.0.0.1:8085:8085 img", "user", "t2",
         {"type": STDIO, "command": "docker", "args": ["run", "-i", "--rm", "-p", "127.0.0.1:8085:8085", "img"]}),
        ("mcp add t3 -e A=b=c -e EMPTY= -- x -- --y", "local", "t3",
         {"type": STDIO, "command": "x", "args": ["--", "--y"], "env": {"A": "b=c", "EMPTY": ""}}),
        ('mcp add --transport http --header "X-T: a:b" -- n http://127.0.0.1:1', "local", "n",
         {"type": "http", "url": "http://127.0.0.1:1", "headers": {"X-T": "a:b"}}),
        ("add t -- x -s user -e A=1 --scope project --transport sse --header 'A: b' --help", "local", "t",
         {"type": STDIO, "command": "x",
          "args": ["-s", "user", "-e", "A=1", "--scope", "project", "--transport", "sse",
                   "--header", "A: b", "--help"]}),
        ("add -e A=1 -e 'B=x y' -s user t -- x '' 'a b' '$HOME' '\"'", "user", "t",
         {"type": STDIO, "command": "x", "args": ["", "a b", "$HOME", '"'], "env": {"A": "1", "B": "x y"}}),
        ("add t x y", "local", "t", {"type": STDIO, "command": "x", "args": ["y"]}),
        ("add --env A=1 -- t x --env B=2", "local", "t",
         {"type": STDIO, "command": "x", "args": ["--env", "B=2"], "env": {"A": "1"}}),
        ("add t https://h/mcp", "local", "t", {"type": "http", "url": "https://h/mcp"}),
        ("add t https://h/mcp -t streamable-http -H A:b", "local", "t",
         {"type": "streamable-http", "url": "https://h/mcp", "headers": {"A": "b"}}),
    ],
)  # fmt: skip
def test_what_stands_after_two_dashes_is_stored_exactly(cli, line, where, name, entry):
    cli.run(*shlex.split(line))
    assert getattr(cli, where)(name) == entry


PAGE_COMMANDS = [
    ("mcp add --scope user my-tool -- /path/to/tool arg1 arg2", "user", "my-tool",
     {"type": STDIO, "command": "/path/to/tool", "args": ["arg1", "arg2"]}),
    ("mcp add --scope project python-tool -- python /path/to/script.py", "project", "python-tool",
     {"type": STDIO, "command": "python", "args": ["/path/to/script.py"]}),
    ("mcp add --scope user --transport sse sse-server https://example.com/mcp/sse", "user", "sse-server",
     {"type": "sse", "url": "https://example.com/mcp/sse"}),
    ("mcp add --scope project --transport http http-server https://example.com/mcp/http", "project", "http-server",
     {"type": "http", "url": "https://example.com/mcp/http"}),
    ("""mcp add-json --scope user my-server '{"type":"stdio","command":"/usr/local/bin/tool","args":["--verbose"]}'""",
     "user", "my-server", {"type": STDIO, "command": "/usr/local/bin/tool", "args": ["--verbose"]}),
    ("""mcp add-json --scope user http-server \
     '{"type":"http","url":"https://example.com/mcp","headers":{"Authorization":"Bearer token"}}'""",
     "user", "http-server",
     {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer token"}}),
    ("""mcp add-json --scope project sse-server \
     '{"type":"sse","url":"https://api.example.com/mcp/sse","headers":{"X-API-Key":"your-api-key"}}'""",
     "project", "sse-server",
     {"type": "sse", "url": "https://api.example.com/mcp/sse", "headers": {"X-API-Key": "your-api-key"}}),
    ("""mcp add-json --scope user python-tool \
     '{"type":"stdio","command":"python","args":["-m","my_mcp_server"],"env":{"PYTHONPATH":"/path/to/tools"}}'""",
     "user", "python-tool",
     {"type": STDIO, "command": "python", "args": ["-m", "my_mcp_server"], "env": {"PYTHONPATH": "/path/to/tools"}}),
    ("""mcp add --scope user --transport http --header "X-Tapd-Access-Token: TAPD_ACCESS_TOKEN" \
     -- tapd_mcp_http https://mcp-oa.tapd.woa.com/mcp""",
     "user", "tapd_mcp_http", {"type": "http", "url": "https://mcp-oa.tapd.woa.com/mcp",
                               "headers": {"X-Tapd-Access-Token": "TAPD_ACCESS_TOKEN"}}),
    ("mcp add --scope user chrome-devtools -- npx -y chrome-devtools-mcp@latest", "user", "chrome-devtools",
     {"type": STDIO, "command": "npx", "args": ["-y", "chrome-devtools-mcp@latest"]}),
    ("mcp add --scope user iwiki -- npx -y mcp-remote@latest https://prod.mcp.it.woa.com/app_iwiki_mcp/mcp3", "user",
     "iwiki", {"type": STDIO, "command": "npx",
               "args": ["-y", "mcp-remote@latest", "https://prod.mcp.it.woa.com/app_iwiki_mcp/mcp3"]}),
]  # fmt: skip


@pytest.mark.parametrize("spelling", ["mcp", ""])
def test_every_command_of_the_page_runs_one_after_another(cli, spelling):
    for line, where, name, entry in PAGE_COMMANDS:
        cli.run(*shlex.split(line.removeprefix("mcp ") if not spelling else line))
        assert getattr(cli, where)(name) == entry
    mcp = ("mcp",) if spelling else ()
    assert "my-server" in cli.run(*mcp, "list").stdout
    assert "/usr/local/bin/tool --verbose" in cli.run(*mcp, "get", "my-server").stdout
    cli.run(*mcp, "remove", "my-server")
    cli.run(*mcp, "add-json", "-s", "user", "my-server", '{"command":"x"}')
    cli.run(*mcp, "remove", "my-server", "--scope", "user")
    assert "my-server" not in cli.read("~/.codebuddy/.mcp.json")["mcpServers"]


def test_an_option_of_the_servers_command_without_two_dashes_is_explained(cli):
    result = cli.run("add", "t", "npx", "-y", "pkg", code=2)
    assert 'put "--" before' in " ".join(result.stderr.replace("│", " ").split())
    assert not cli.path("~/.codebuddy.json").exists()


@pytest.mark.parametrize(
    "line",
    [
        "add", "add t", "add -e NOVALUE t -- x", "add -e =x t -- x", "add -H NoColon t https://h/",
        "add -H A:b t -- x", "add -t http t https://h/ more", "add -s nowhere t -- x", "add-json t", "add-json t '{'",
        "add-json t '[]'", "--workspace /no/such/folder list",
    ],
)  # fmt: skip
def test_a_wrong_command_line_ends_with_code_2_and_writes_nothing(cli, line):
    cli.run(*shlex.split(line), code=2)
    assert not cli.path("~/.codebuddy.json").exists()


@pytest.mark.parametrize(
    "line",
    [
        "add t -- 'npx -y pkg'", "add a__b -- x", "add 'a/b' -- x", "add -t carrier-pigeon t https://h/",
        "add t ftp://h/ -t http",
        """add-json t '{"command":"x","url":"http://h/"}'""", "add-json t '{}'",
    ],
)  # fmt: skip
def test_an_entry_that_would_not_load_is_not_written(cli, line):
    result = cli.run(*shlex.split(line), code=1)
    assert result.stderr.startswith("error: ")
    assert not cli.path("~/.codebuddy.json").exists()


def test_an_entry_of_that_name_is_kept_unless_force_is_given(cli):
    cli.run("add", "t", "--", "x")
    assert "already" in cli.run("add", "t", "--", "y", code=1).stderr
    assert cli.local("t")["command"] == "x"
    assert "Already there" in cli.run("add", "t", "--", "x").stdout
    cli.run("add", "--force", "t", "--", "y")
    assert cli.local("t")["command"] == "y"
    cli.run("add", "-s", "user", "t", "--", "z")
    assert cli.read("~/.codebuddy.json")["mcpServers"]["t"]["command"] == "z"  # the first file that exists


def test_the_first_existing_file_of_a_scope_is_written(cli):
    cli.write("~/.codebuddy/mcp.json", {"mcpServers": {}})
    cli.write("mcp.json", "// team\n{}")
    cli.run("add", "-s", "user", "u", "--", "x")
    cli.run("add", "-s", "project", "p", "--", "x")
    assert "u" in cli.read("~/.codebuddy/mcp.json")["mcpServers"]
    assert cli.path("mcp.json").read_text().startswith("// team\n{")
    assert not cli.path("~/.codebuddy/.mcp.json").exists()
    assert not cli.path(".mcp.json").exists()


def test_an_entry_goes_where_the_servers_of_the_file_are(cli):
    cli.write(".mcp.json", {"servers": {"a": {"command": "x"}}})
    cli.run("add", "-s", "project", "b", "--", "y")
    assert list(cli.read(".mcp.json")["servers"]) == ["a", "b"]
    cli.write(".mcp.json", {"a": {"command": "x"}})
    cli.run("add", "-s", "project", "b", "--", "y")
    assert list(cli.read(".mcp.json")) == ["a", "b"]


@pytest.mark.case("B51")
@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1, "a": 2}', '{"mcpServers": []}'])
def test_a_file_that_cannot_be_read_is_not_rewritten(cli, content):
    path = cli.write(".mcp.json", content)
    assert str(path) in cli.run("add", "-s", "project", "t", "--", "x", code=1).stderr
    assert path.read_text() == content


@pytest.mark.case("B53")
def test_adding_and_removing_keeps_the_rest_of_the_file_byte_for_byte(cli):
    text = '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}, // a\n  },\n  "x-team": [1,  2],\n}\n'
    path = cli.write(".mcp.json", text)
    cli.run("add", "-s", "project", "b", "--", "y")
    assert "// mine" in path.read_text()
    cli.run("remove", "b")
    assert path.read_text() == text


@pytest.mark.case("B60")
def test_adding_does_not_repeat_a_secret(cli):
    lines = [
        ["add", "-e", "TOKEN=ENVSEC", "a", "--", "x", "--api-key", "ARGSEC"],
        ["add", "-H", "Authorization: Bearer HDRSEC", "b", "http://u:PASS@127.0.0.1:1/mcp?api_key=URLSEC"],
        ["add", "-s", "project", "-H", "Authorization: Bearer HDRSEC", "c", "http://h/"],
    ]
    for line in lines:
        result = cli.run(*line)
        for secret in ("ENVSEC", "ARGSEC", "HDRSEC", "PASS", "URLSEC"):
            assert secret not in result.output
    assert "Authorization: the value stands in a file of the project" in cli.run(*lines[2]).stderr
    assert "ENVSEC" not in cli.run("add", "-e", "ENVSEC", "a", "--", "x", code=2).output


def test_a_workspace_may_be_named(cli, tmp_path):
    (tmp_path / "other").mkdir()
    cli.run("-C", str(tmp_path / "other"), "add", "-s", "project", "t", "--", "x")
    assert (tmp_path / "other" / ".mcp.json").exists()
    cli.run("--workspace", "../other", "remove", "t")
