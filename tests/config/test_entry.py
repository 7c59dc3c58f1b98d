"""One server entry: spellings, mistakes and what is said about them."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from codebuddy_mcp_tools.config import HttpServer, SseServer, StdioServer, name_problem, parse_server
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import Transport

URL = "http://127.0.0.1:1/mcp"


def read(raw, name="s", **more):
    return parse_server(name, raw, **more)[0]


def said(raw, name="s"):
    return [(d.severity, d.message) for d in parse_server(name, raw)[1]]


def refusal(raw, name="s"):
    with pytest.raises(ConfigError) as caught:
        parse_server(name, raw, path=Path("f.json"), pointer="/mcpServers/s")
    assert caught.value.path == Path("f.json")
    assert f'server "{name}"' in str(caught.value)
    return caught.value


@pytest.mark.case("B54")
@pytest.mark.parametrize("key", ["type", "transport"])
@pytest.mark.parametrize(
    "spelling", ["http", "streamable-http", "streamableHttp", "streamable_http", "HTTP", "Streamable HTTP"]
)
def test_every_spelling_of_streamable_http_is_http(key, spelling):
    assert read({key: spelling, "url": URL}).transport is Transport.HTTP


@pytest.mark.case("B54")
def test_sse_and_stdio_are_read_from_either_key():
    assert isinstance(read({"transport": "sse", "url": URL}), SseServer)
    assert isinstance(read({"type": "SSE", "url": URL}), SseServer)
    assert isinstance(read({"transport": "stdio", "command": "x"}), StdioServer)


@pytest.mark.case("B54")
@pytest.mark.parametrize("value", ["remote", "websocket", "", 5, None, ["http"], "stdio|sse|http"])
def test_an_unknown_type_names_server_value_and_choices(value):
    if value is None:
        assert isinstance(read({"type": value, "url": URL}), HttpServer)
        return
    error = refusal({"type": value, "url": URL})
    assert error.pointer == "/mcpServers/s/type"
    for choice in ("stdio", "http", "sse"):
        assert choice in str(error)


@pytest.mark.case("B55")
def test_the_type_follows_from_command_or_url():
    assert isinstance(read({"url": URL}), HttpServer)
    assert isinstance(read({"command": "x"}), StdioServer)
    assert "both" in str(refusal({"command": "x", "url": URL}))
    assert "neither" in str(refusal({}))
    assert 'did you mean "command" instead of "cmd"' in str(refusal({"cmd": "x"}))


def test_type_and_content_that_contradict_each_other_are_an_error_or_a_warning():
    assert 'needs "command"' in str(refusal({"type": "stdio", "url": URL}))
    assert 'needs "url"' in str(refusal({"type": "http", "command": "x"}))
    assert "keep one" in str(refusal({"type": "http", "transport": "sse", "url": URL}))
    assert said({"type": "http", "url": URL, "command": "x"}) == [
        ("warning", 'server "s": "command" is ignored for a server of type http')
    ]


@pytest.mark.case("X12")
@pytest.mark.parametrize("command", ["npx -y pkg", "npx\t-y pkg", "/no/such dir/tool --flag", " npx -y"])
def test_arguments_in_the_command_are_refused_with_the_remedy(command):
    error = refusal({"command": command, "args": ["last"]})
    assert 'put them into "args"' in str(error)
    assert error.pointer == "/mcpServers/s/command"
    assert '"command": "npx", "args": ["-y", "pkg", "last"]' in str(
        refusal({"command": "npx -y pkg", "args": ["last"]})
    )


@pytest.mark.case("X12")
def test_a_path_with_spaces_that_exists_is_a_command(tmp_path):
    tool = tmp_path / "my tools" / "run me"
    tool.parent.mkdir()
    tool.touch()
    assert read({"command": str(tool)}).command == str(tool)
    assert read({"command": "my tools/run me"}, base=tmp_path).command == "my tools/run me"
    assert read({"command": "${TOOL:-my tool}"}).command == "${TOOL:-my tool}"


def test_arguments_in_the_command_do_not_show_a_credential():
    assert "s3cret" not in str(refusal({"command": "npx pkg --api-key=s3cret"}))


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [
        ({"command": "x", "args": "-y pkg"}, "/args"),
        ({"command": "x", "args": ["a", {"b": 1}]}, "/args/1"),
        ({"command": "x", "args": ["a", None]}, "/args/1"),
        ({"command": ["npx", "-y"]}, "/command"),
        ({"command": 5}, "/command"),
        ({"command": "   "}, "/command"),
        ({"command": "x", "env": ["A=1"]}, "/env"),
        ({"command": "x", "env": {"A": {"b": "SECRET"}}}, "/env/A"),
        ({"command": "x", "env": {"": "1"}}, "/env"),
        ({"command": "x", "env": {"A=B": "1"}}, "/env"),
        ({"command": "x\x00y"}, "/command"),
        ({"command": "x", "args": ["\ud83d"]}, "/args/0"),
        ({"command": "x", "enabled": "false"}, "/enabled"),
        ({"command": "x", "disabled": "true"}, "/disabled"),
        ({"command": "x", "timeout": -1}, "/timeout"),
        ({"command": "x", "timeout": float("nan")}, "/timeout"),
        ({"command": "x", "timeout": True}, "/timeout"),
        ({"command": "x", "maxResultChars": 0}, "/maxResultChars"),
        ({"command": "x", "tools": {"t": {"enabled": "no"}}}, "/tools/t/enabled"),
        ({"command": "x", "tools": {"t": 5}}, "/tools/t"),
        ({"command": "x", "toolAllowlist": [1]}, "/toolAllowlist/0"),
        ({"url": "127.0.0.1/mcp"}, "/url"),
        ({"url": "ws://h/mcp"}, "/url"),
        ({"url": "file:///etc/passwd"}, "/url"),
        ({"url": "http:/h"}, "/url"),
        ({"url": "http://h/a b"}, "/url"),
        ({"url": URL, "headers": {"A b": "x"}}, "/headers/A b"),
        ({"url": URL, "headers": {"A": "x\r\nB: y"}}, "/headers/A"),
        ({"url": URL, "headers": "Authorization: SECRET"}, "/headers"),
        ({"url": URL, "oauth": "yes"}, "/oauth"),
    ],
)
def test_a_value_that_cannot_work_is_refused_at_its_place_without_showing_it(raw, pointer):
    error = refusal(raw)
    assert error.pointer == "/mcpServers/s" + pointer
    assert "SECRET" not in str(error)
    assert "\n" not in str(error)


def test_numbers_and_booleans_in_args_env_and_headers_become_text_with_a_note():
    config = read({"command": "x", "args": ["--port", 8080, True], "env": {"DEBUG": True, "N": 1.5, "E": ""}})
    assert config.args == ("--port", "8080", "true")
    assert config.env == {"DEBUG": "true", "N": "1.5", "E": ""}
    assert {severity for severity, _ in said({"command": "x", "args": [1], "env": {"K": 12345}})} == {"note"}
    assert not any("12345" in message for _, message in said({"command": "x", "env": {"K": 12345}}))


def test_paths_and_timedeltas_given_in_code_are_read():
    config = read({"command": Path(sys.executable), "args": [Path("a")], "timeout": timedelta(seconds=5)})
    assert (config.command, config.args, config.start_timeout_s) == (sys.executable, ("a",), 5.0)


@pytest.mark.parametrize(
    ("raw", "enabled"),
    [
        ({}, True),
        ({"disabled": True}, False),
        ({"disabled": False}, True),
        ({"enabled": False}, False),
        ({"enabled": True, "disabled": True}, False),
        ({"enabled": False, "disabled": False}, False),
    ],
)
def test_enabled_and_disabled_say_the_same_and_off_wins(raw, enabled):
    assert read({"command": "x", **raw}).enabled is enabled


def test_every_field_of_the_three_pages_is_read():
    config = read(
        {
            "command": "x",
            "description": "d",
            "defer_loading": True,
            "tools": {
                "t": {"enabled": False, "defer_loading": False, "maxResultChars": 5, "timeout": 1500},
                "u": False,
            },
            "toolAllowlist": ["t", "v"],
            "maxResultChars": 20000,
            "alwaysLoad": True,
            "timeout": 12000,
            "toolTimeout": 3000,
            "breakerThreshold": 5,
            "breakerCooldown": 60000,
            "cwd": "sub",
        }
    )
    assert (config.description, config.defer_loading, config.always_load, config.cwd) == ("d", True, True, "sub")
    assert (config.start_timeout_s, config.call_timeout_s, config.breaker_cooldown_s) == (12.0, 3.0, 60.0)
    assert (config.tool("t").call_timeout_s, config.tool("t").max_result_chars) == (1.5, 5)
    assert config.tool("t").defer_loading is False
    assert [name for name in "tuvw" if config.offers(name)] == ["v"]
    assert (config.max_result_chars, config.breaker_threshold) == (20000, 5)


def test_unknown_keys_are_kept_and_near_misses_are_named():
    config, diagnostics = parse_server("s", {"command": "x", "argz": ["1"], "x-team": 1, "autoApprove": [], "zone": 2})
    assert set(config.unknown_keys) == {"argz", "x-team", "autoApprove", "zone"}
    assert [(d.severity, d.message) for d in diagnostics] == [
        ("warning", 'server "s": unknown key "argz"; did you mean "args"?'),
        ("note", 'server "s": unknown key "zone" (kept, not used)'),
    ]


def test_spellings_of_other_hosts_are_read_with_a_note():
    assert read({"serverUrl": URL}).url == URL
    assert read({"command": "x", "tools": ["a", "b"]}).tool_allowlist == ("a", "b")
    assert read({"command": "x", "tools": ["*"]}).tool_allowlist is None
    assert ("note", 'server "s": "httpUrl" is read as "url"') in said({"httpUrl": URL})


def test_a_timeout_that_looks_like_seconds_is_remarked_on():
    assert any("milliseconds" in message for _, message in said({"command": "x", "timeout": 60}))
    assert not said({"command": "x", "timeout": 60000})


@pytest.mark.case("B56")
def test_placeholders_of_vs_code_are_reported_as_unsupported():
    messages = [message for _, message in said({"url": URL, "headers": {"A": "${input:x}", "B": "${env:My.Var}"}})]
    assert any("${input:x}" in message and "not supported" in message for message in messages)
    assert any("use ${MY_VAR}" in message for message in messages)


@pytest.mark.case("B60")
@pytest.mark.parametrize("show", [repr, str, "{}".format, lambda config: repr([config])])
def test_no_way_of_printing_a_model_shows_a_secret(show):
    remote = read(
        {
            "url": "http://u:PASS@h:1/mcp?api_key=URLSEC",
            "headers": {"Authorization": "Bearer HDRSEC"},
            "env": {"MY_TOKEN": "ENVSEC"},
            "oauth": {"clientId": "id", "clientSecret": "OASEC"},
            "password": "XTRASEC",
        }
    )
    local = read({"command": "x", "args": ["--token", "ARGSEC", "--api-key=ARGSEC2"], "env": {"MY_TOKEN": "ENVSEC"}})
    text = show(remote) + show(local)
    for secret in ("PASS", "URLSEC", "HDRSEC", "ENVSEC", "OASEC", "XTRASEC", "ARGSEC", "ARGSEC2"):
        assert secret not in text
    for name in ("MY_TOKEN", "Authorization", "h:1/mcp", "--token"):
        assert name in text


@pytest.mark.parametrize("name", ["a", "Google Sheets.v2", "web-search", "a_b", "名前", "9lives", "x" * 128])
def test_these_server_names_are_fine(name):
    assert name_problem(name) is None
    read({"command": "x"}, name)


@pytest.mark.parametrize(
    "name", ["", " ", "a__b", "a/b", "a:b", "a\nb", "a ", " a", "a\u202eb", "-", "..", "<b>", 'a"b', "x" * 129, "a\x1b"]
)
def test_these_server_names_are_refused(name):
    assert name_problem(name)
    with pytest.raises(ConfigError):
        parse_server(name, {"command": "x"})


@pytest.mark.parametrize("raw", [None, [], "x", 5, True])
def test_an_entry_that_is_no_object_is_refused(raw):
    assert "expected an object" in str(refusal(raw))


def test_models_take_the_names_of_files_and_of_python_and_do_not_change():
    assert StdioServer(command="x", maxResultChars=5) == StdioServer(command="x", max_result_chars=5)
    with pytest.raises(ValueError, match="frozen"):
        StdioServer(command="x").command = "y"
