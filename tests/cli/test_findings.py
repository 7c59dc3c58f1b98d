"""What `doctor` says of an entry without starting it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from codebuddy_mcp_tools.cli.findings import World, check_admission, check_entry, check_names, check_status
from codebuddy_mcp_tools.config import HttpServer, ServerEntry, Settings, SseServer, StdioServer
from codebuddy_mcp_tools.types import Admission, CircuitState, ClientState, Scope, ServerStatus


def world(tmp_path=None, *, has=(), environ=None, platform="linux", **settings):
    known = {"which": lambda command, path: command if command in has else None}
    return World(environ or {}, platform, tmp_path, Settings(**settings), **known)


def entry(config, scope=Scope.USER):
    return ServerEntry("s", scope, config, {}, Path("f.json"))


def found(config, where=None, scope=Scope.USER):
    return [(f.severity, f.message, f.suggestion) for f in check_entry(entry(config, scope), where or world())]


@pytest.mark.parametrize(
    ("command", "hint"),
    [("node", "Node.js"), ("npx", "Node.js"), ("uvx", "install uv"), ("docker", "Docker is missing"),
     ("python", "python3"), ("/opt/x/npx", "Node.js"), ("npx.cmd", "Node.js"), ("zzz", "full path")],
)  # fmt: skip
def test_a_missing_command_comes_with_what_to_install(command, hint):
    [(severity, message, suggestion)] = found(StdioServer(command=command))
    assert (severity, message) == ("error", f"command not found: {command}")
    assert hint in suggestion


def test_a_command_that_is_there_is_fine(tmp_path):
    assert found(StdioServer(command="npx"), world(has=["npx"])) == []
    (tmp_path / "tool").touch()
    assert found(StdioServer(command="./tool"), world(tmp_path)) == []
    assert found(StdioServer(command="${X:-npx}"), world(has=["npx"])) == []


def test_the_path_of_the_entry_is_looked_in_before_that_of_the_process():
    looked = []
    where = World({"PATH": "/process"}, "linux", None, Settings(), which=lambda command, path: looked.append(path))
    list(check_entry(entry(StdioServer(command="x", env={"PATH": "/own"})), where))
    list(check_entry(entry(StdioServer(command="x")), where))
    assert looked == ["/own", "/process"]


def test_npx_on_windows_is_wrapped_with_cmd():
    [(severity, _, suggestion)] = found(StdioServer(command="npx"), world(has=["npx"], platform="win32"))
    assert (severity, '"cmd", "args": ["/c", "npx"' in suggestion) == ("warning", True)
    assert found(StdioServer(command="cmd", args=("/c", "npx")), world(has=["cmd"], platform="win32")) == []


@pytest.mark.parametrize("url", ["https://h/sse", "https://h/mcp/sse/", "https://h/sse?x=1"])
def test_a_url_that_wants_sse_is_told(url):
    [(_, _, suggestion)] = found(HttpServer(url=url))
    assert '"type": "sse"' in suggestion
    assert found(SseServer(url=url)) == []


def test_missing_variables_are_all_named():
    http = HttpServer(url="https://h/", headers={"A": "${API_TOKEN}", "B": "${DATABASE_URL}"})
    [(severity, message, suggestion)] = found(http)
    assert severity == "error"
    assert "Missing environment variables: API_TOKEN, DATABASE_URL" in message
    assert "${API_TOKEN:-value}" in suggestion
    stdio = StdioServer(command="x", env={"A": "${API_TOKEN}"})
    assert [severity for severity, _, _ in found(stdio, world(has=["x"]))] == ["warning"]
    assert found(stdio, world(has=["x"], environ={"API_TOKEN": "1"})) == []


def test_a_private_address_is_told_with_the_way_to_allow_it():
    [(severity, _, suggestion)] = found(HttpServer(url="http://10.0.0.1/mcp"))
    assert (severity, "allowedHosts" in suggestion) == ("error", True)
    assert found(HttpServer(url="http://10.0.0.1/mcp"), world(allowed_hosts=["10.0.0.1"])) == []
    assert found(HttpServer(url="http://localhost:3001/mcp")) == []
    [(_, _, suggestion)] = found(HttpServer(url="http://localhost:3001/mcp"), scope=Scope.PROJECT)
    assert "user or local scope" in suggestion


def test_a_secret_in_a_file_of_the_project_is_told_without_showing_it():
    http = HttpServer(url="https://h/", headers={"Authorization": "Bearer SEC"})
    [(severity, message, suggestion)] = found(http, scope=Scope.PROJECT)
    assert (severity, "Authorization" in message, "${AUTHORIZATION}" in suggestion) == ("warning", True, True)
    assert "SEC" not in message + suggestion
    assert found(http) == []


def test_a_folder_that_is_not_there_and_an_entry_that_cannot_be_used_are_errors(tmp_path):
    messages = [m for _, m, _ in found(StdioServer(command="x", cwd="nowhere"), world(tmp_path, has=["x"]))]
    assert messages == ["the working directory nowhere does not exist"]
    [finding] = check_entry(ServerEntry("s", Scope.USER, None, {}, error="server: bad"), world())
    assert (finding.severity, finding.message) == ("error", "server: bad")
    assert found(StdioServer(command="x", enabled=False)) == []
    endless = {f"V{i}": f"${{V{i + 1}}}" * 10 for i in range(9)} | {"V9": "x"}
    assert [severity for severity, _, _ in found(StdioServer(command="x", env=endless))] == ["error"]


@pytest.mark.parametrize(
    ("admission", "severity"),
    [(Admission.PENDING, "warning"), (Admission.REJECTED, "note"), (Admission.DISABLED, "note")],
)
def test_a_server_that_does_not_start_is_told_with_the_way_to_start_it(admission, severity):
    [finding] = check_admission(entry(StdioServer(command="x")), admission)
    assert finding.severity == severity
    assert list(check_admission(entry(StdioServer(command="x")), Admission.ADMITTED)) == []


def test_names_in_settings_that_no_server_has_are_told():
    [finding] = check_names(Settings(enabled_mcpjson_servers=["a", "zz"]), ("a", "b"))
    assert finding.subject == "enabledMcpjsonServers"
    assert finding.message.endswith("zz")


@pytest.mark.parametrize(
    ("config", "error", "hint"),
    [
        (
            StdioServer(command="docker", args=("mcp", "gateway", "run")),
            "no answer within 30 s",
            "gateway answered nothing",
        ),
        (StdioServer(command="x"), "exited with code 1", "by hand"),
        (HttpServer(url="https://h/"), "answered 405", '"type": "sse"'),
        (SseServer(url="https://h/"), "answered 405", '"type": "http"'),
        (HttpServer(url="https://h/"), "answered 401", "login"),
        (HttpServer(url="https://h/"), "connection refused", "whether the server runs"),
    ],
)
def test_a_server_that_failed_comes_with_a_remedy(config, error, hint):
    status = ServerStatus("s", Scope.USER, Admission.ADMITTED, state=ClientState.ERROR, last_error=error)
    [finding] = check_status(status, config)
    assert (finding.severity, finding.message) == ("error", error)
    assert hint in finding.suggestion


def test_an_open_breaker_warnings_and_a_high_cost_are_told():
    status = ServerStatus(
        "s",
        Scope.USER,
        Admission.ADMITTED,
        state=ClientState.CONNECTED,
        connected_since=datetime.now(UTC),
        last_error="earlier",
        breaker=CircuitState.OPEN,
        retry_after=200.0,
        warnings=("tool x changed",),
        context_tokens=50_000,
    )
    messages = [finding.message for finding in check_status(status, None)]
    assert "open for another 200 s" in messages[0]
    assert messages[1] == "tool x changed"
    assert "50,000 tokens" in messages[2]
