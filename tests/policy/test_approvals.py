"""Approvals: what needs one, what an answer is bound to, and a store that is believed only when it can be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.config import ServerEntry, Settings, parse_server
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.approvals import ServerApprovals, needs_approval, pending_message
from codebuddy_mcp_tools.types import Admission, Scope, Transport

NODE = {"command": "node", "args": ["a.js"], "env": {"K": "1"}}
HTTP = {"url": "https://h/mcp?v=1", "headers": {"X-Key": "literal", "Authorization": "Bearer ${TOKEN}"}}


def entry(raw: Mapping[str, Any] = NODE, *, name: str = "s", scope: Scope = Scope.PROJECT) -> ServerEntry:
    return ServerEntry(name, scope, parse_server(name, raw)[0], raw, Path("/w/.mcp.json"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


@pytest.fixture
def approvals(tmp_path: Path, workspace: Path) -> ServerApprovals:
    return ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "bin")})


def again(approvals: ServerApprovals, raw: Mapping[str, Any], **changes: Any) -> Admission:
    return approvals.state(entry(raw, **changes), Settings())


def test_project_servers_wait_until_somebody_answers(approvals: ServerApprovals) -> None:
    assert approvals.state(entry(), Settings()) is Admission.PENDING
    approvals.record(entry(), approved=True)
    assert approvals.state(entry(), Settings()) is Admission.ADMITTED
    approvals.record(entry(), approved=False)
    assert approvals.state(entry(), Settings()) is Admission.REJECTED
    approvals.reset()
    assert approvals.state(entry(), Settings()) is Admission.PENDING


def test_an_answer_outlives_the_process_and_leaves_no_secret(
    tmp_path: Path, approvals: ServerApprovals, workspace: Path
) -> None:
    raw = {"command": "x", "env": {"TOKEN": "ENVSEC"}}
    remote = {"url": "http://u:PASS@h/?k=URLSEC", "headers": {"A": "HDRSEC"}}
    approvals.record(entry(raw), approved=True)
    approvals.record(entry(remote, name="r"), approved=True)
    other = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "bin")})
    assert other.state(entry(raw), Settings()) is Admission.ADMITTED
    assert other.state(entry(remote, name="r"), Settings()) is Admission.ADMITTED
    for file in (tmp_path / "state").iterdir():
        assert not any(secret in file.read_text() for secret in ("ENVSEC", "PASS", "URLSEC", "HDRSEC"))
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("scope", "raw", "stdio_always", "needed"),
    [
        (Scope.PROJECT, NODE, False, True),
        (Scope.PROJECT, HTTP, False, True),
        (Scope.WORKSPACE, NODE, False, True),
        (Scope.WORKSPACE, HTTP, False, True),
        (Scope.USER, NODE, False, False),
        (Scope.LOCAL, NODE, False, False),
        (Scope.CODE, NODE, False, False),
        (Scope.USER, NODE, True, True),
        (Scope.LOCAL, NODE, True, True),
        (Scope.USER, HTTP, True, False),
        (Scope.CODE, NODE, True, False),
    ],
)
def test_which_servers_need_an_answer(
    approvals: ServerApprovals, scope: Scope, raw: dict[str, Any], stdio_always: bool, needed: bool
) -> None:
    settings = Settings(stdio_always=stdio_always)
    assert needs_approval(entry(raw, scope=scope), settings) is needed
    state = approvals.state(entry(raw, scope=scope), settings)
    assert state is (Admission.PENDING if needed else Admission.ADMITTED)


# The case says that a changed VALUE does not ask. The design decided otherwise afterwards ("what approval binds"): an
# unchanged list of names with another PATH, PYTHONPATH or NODE_OPTIONS runs other code, so a changed literal value asks
# again, and only a value behind ${…} may rotate silently.
@pytest.mark.case("B65")
@pytest.mark.parametrize(
    "changed",
    [
        {**NODE, "args": ["b.js"]},
        {**NODE, "args": ["a.js", ""]},
        {**NODE, "env": {"K": "1", "L": "2"}},
        {**NODE, "env": {}},
        {**NODE, "env": {"K": "2"}},
        {**NODE, "env": {"k": "1"}},
        {**NODE, "env": {"K": "${K}"}},
        {**NODE, "command": "nodejs"},
        {**NODE, "cwd": "sub"},
        {"type": "http", "url": "https://h/"},
    ],
)
def test_every_change_of_what_runs_asks_again(approvals: ServerApprovals, changed: dict[str, Any]) -> None:
    approvals.record(entry(NODE), approved=True)
    assert again(approvals, changed) is Admission.PENDING


@pytest.mark.case("B65")
@pytest.mark.parametrize(
    "same",
    [
        {"env": {"K": "1"}, "args": ["a.js"], "command": "node"},
        {**NODE, "description": "something else"},
        {**NODE, "timeout": 5000, "alwaysLoad": True, "tools": {"x": {"enabled": False}}},
        {**NODE, "type": "stdio"},
    ],
)
def test_order_description_and_limits_do_not_ask_again(approvals: ServerApprovals, same: dict[str, Any]) -> None:
    approvals.record(entry(NODE), approved=True)
    assert again(approvals, same) is Admission.ADMITTED


@pytest.mark.parametrize(
    "changed",
    [
        {**HTTP, "url": "https://h/mcp?v=2"},
        {**HTTP, "url": "https://other/mcp?v=1"},
        {**HTTP, "headers": {**HTTP["headers"], "X-Key": "other"}},
        {**HTTP, "headers": {**HTTP["headers"], "Authorization": "Bearer ${OTHER}"}},
        {**HTTP, "headers": {**HTTP["headers"], "X-New": "1"}},
        {**HTTP, "type": "sse"},
        {**HTTP, "env": {"TOKEN": "x"}},
        {**HTTP, "oauth": {"authServerMetadataUrl": "https://evil/"}},
    ],
)
def test_every_change_of_where_data_goes_asks_again(approvals: ServerApprovals, changed: dict[str, Any]) -> None:
    approvals.record(entry(HTTP), approved=True)
    assert again(approvals, HTTP) is Admission.ADMITTED
    assert again(approvals, changed) is Admission.PENDING


def test_a_rotated_variable_does_not_ask_again(tmp_path: Path, workspace: Path) -> None:
    raw = {"command": "x", "env": {"TOKEN": "${TOKEN}"}}
    before = ServerApprovals(tmp_path / "state", workspace, environ={"TOKEN": "old", "PATH": "/nowhere"})
    before.record(entry(raw), approved=True)
    after = ServerApprovals(tmp_path / "state", workspace, environ={"TOKEN": "new", "PATH": "/nowhere"})
    assert after.state(entry(raw), Settings()) is Admission.ADMITTED


def test_argument_boundaries_are_part_of_the_answer(approvals: ServerApprovals) -> None:
    approvals.record(entry({"command": "x", "args": ["a", "b c"]}), approved=True)
    assert again(approvals, {"command": "x", "args": ["a b", "c"]}) is Admission.PENDING


def test_another_program_behind_the_same_command_asks_again(tmp_path: Path, workspace: Path) -> None:
    bin_, first, second = tmp_path / "bin", tmp_path / "first", tmp_path / "second"
    bin_.mkdir()
    for file in (first, second):
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    (bin_ / "tool").symlink_to(first)
    approvals = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(bin_)})
    approvals.record(entry({"command": "tool"}), approved=True)
    assert again(approvals, {"command": "tool"}) is Admission.ADMITTED
    (bin_ / "tool").unlink()
    (bin_ / "tool").symlink_to(second)
    assert again(approvals, {"command": "tool"}) is Admission.PENDING


def test_the_servers_own_path_decides_which_program_is_meant(tmp_path: Path, workspace: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("#!/bin/sh\n")
        (tmp_path / folder / "tool").chmod(0o755)
    one = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "a")})
    two = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "b")})
    own = entry({"command": "tool", "env": {"PATH": str(tmp_path / "a")}})
    assert one.fingerprint(own) == two.fingerprint(own)
    assert one.fingerprint(entry({"command": "tool"})) != two.fingerprint(entry({"command": "tool"}))


def test_answers_belong_to_one_workspace_scope_and_name(tmp_path: Path, approvals: ServerApprovals) -> None:
    approvals.record(entry(), approved=True)
    assert again(approvals, NODE, name="other") is Admission.PENDING
    assert again(approvals, NODE, scope=Scope.WORKSPACE) is Admission.PENDING
    (tmp_path / "w2").mkdir()
    elsewhere = ServerApprovals(tmp_path / "state", tmp_path / "w2", environ={"PATH": str(tmp_path / "bin")})
    assert elsewhere.state(entry(), Settings()) is Admission.PENDING


def test_resetting_one_server_keeps_the_others(approvals: ServerApprovals) -> None:
    approvals.record(entry(), approved=True)
    approvals.record(entry(name="other"), approved=True)
    approvals.reset("s")
    assert again(approvals, NODE) is Admission.PENDING
    assert again(approvals, NODE, name="other") is Admission.ADMITTED


@pytest.mark.case("B67")
def test_without_a_person_the_settings_answer(approvals: ServerApprovals) -> None:
    def states(**settings: Any) -> list[Admission]:
        return [approvals.state(entry(name=name), Settings(**settings)) for name in ("a", "b")]

    yes, no, wait = Admission.ADMITTED, Admission.REJECTED, Admission.PENDING
    assert states() == [wait, wait]
    assert states(enable_all_project_mcp_servers=True) == [yes, yes]
    assert states(enabled_mcpjson_servers=("a",)) == [yes, wait]
    assert states(disabled_mcpjson_servers=("a",)) == [no, wait]
    assert states(enable_all_project_mcp_servers=True, disabled_mcpjson_servers=("a",)) == [no, yes]
    assert states(enabled_mcpjson_servers=("a", "b"), disabled_mcpjson_servers=("A",)) == [no, yes]
    assert pending_message(["b", "a"]).startswith(
        "not started, waiting for approval: a, b (run `codebuddy-mcp approve NAME`"
    )


def test_a_no_that_somebody_gave_outlasts_the_blanket_yes_but_not_the_name(approvals: ServerApprovals) -> None:
    approvals.record(entry(), approved=False)
    assert approvals.state(entry(), Settings(enable_all_project_mcp_servers=True)) is Admission.REJECTED
    assert approvals.state(entry(), Settings(enabled_mcpjson_servers=("s",))) is Admission.ADMITTED


def test_the_project_settings_are_about_project_servers_only(approvals: ServerApprovals) -> None:
    user = entry(scope=Scope.USER)
    assert approvals.state(user, Settings(disabled_mcpjson_servers=("s",))) is Admission.ADMITTED
    assert approvals.state(user, Settings(stdio_always=True, enable_all_project_mcp_servers=True)) is Admission.PENDING


def test_disabled_and_invalid_entries_are_neither_pending_nor_admitted(approvals: ServerApprovals) -> None:
    assert again(approvals, {**NODE, "enabled": False}) is Admission.DISABLED
    assert approvals.state(entry(), Settings(disabled_mcp_servers=("s",))) is Admission.DISABLED
    broken = ServerEntry("s", Scope.PROJECT, None, {}, error="has neither")
    assert approvals.state(broken, Settings()) is Admission.INVALID
    with pytest.raises(ConfigError, match="has neither"):
        approvals.request(broken)


def test_the_request_holds_everything_but_values(approvals: ServerApprovals, workspace: Path) -> None:
    raw = {"command": "npx", "args": ["-y", "pkg", "${DIR:-/tmp}"], "env": {"A": "ENVSEC", "B": "${TOKEN}"}}
    request = approvals.request(entry(raw))
    assert (request.server, request.scope, request.transport) == ("s", Scope.PROJECT, Transport.STDIO)
    assert (request.command, request.args, request.cwd) == (
        "npx",
        ("-y", "pkg", "${DIR:-/tmp}"),
        os.path.realpath(workspace),
    )
    assert (request.env_names, request.variables) == (("A", "B"), ("DIR", "TOKEN"))
    assert (request.workspace, request.source) == (workspace, Path("/w/.mcp.json"))
    assert request.fingerprint == approvals.fingerprint(entry(raw))
    remote = approvals.request(entry({"url": "http://u:PASS@h/mcp?k=URLSEC&t=${T}", "headers": {"H": "HDRSEC"}}))
    assert (remote.url, remote.header_names, remote.command) == ("http://***@h/mcp?k=***&t=${T}", ("H",), None)
    for shown in (request.text(), repr(request), remote.text(), repr(remote)):
        assert not any(secret in shown for secret in ("ENVSEC", "PASS", "URLSEC", "HDRSEC"))
