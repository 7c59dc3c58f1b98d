"""The store of approvals: whatever is wrong with it, nothing is believed, nothing lost and nothing raised."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.config import Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.approvals import ServerApprovals
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import Admission
from tests.policy.test_approvals import NODE, again, approvals, entry, workspace

__all__ = ["approvals", "workspace"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"workspaces": []}', b'{"workspaces": {"W": {"project:s": 1}}}'],
)
def test_a_damaged_store_counts_as_empty_and_can_be_written_again(
    tmp_path: Path, approvals: ServerApprovals, content: bytes
) -> None:
    approvals.record(entry(), approved=True)
    (tmp_path / "state" / "mcp-approvals.json").write_bytes(content)
    assert again(approvals, NODE) is Admission.PENDING
    if not content.startswith(b'{"'):
        assert "damaged" in str(approvals.diagnostics[0])
    approvals.record(entry(), approved=True)
    assert again(approvals, NODE) is Admission.ADMITTED


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o660])
def test_a_store_that_others_can_write_counts_as_empty(tmp_path: Path, approvals: ServerApprovals, mode: int) -> None:
    approvals.record(entry(), approved=True)
    (tmp_path / "state" / "mcp-approvals.json").chmod(mode)
    assert again(approvals, NODE) is Admission.PENDING
    assert "can be written by others" in str(approvals.diagnostics[0])
    approvals.record(entry(name="new"), approved=True)
    assert again(approvals, NODE) is Admission.PENDING, "nothing of the untrusted file is carried over"
    assert (tmp_path / "state" / "mcp-approvals.json").stat().st_mode & 0o777 == 0o600


def test_a_directory_that_everybody_can_write_makes_the_store_count_as_empty(
    tmp_path: Path, approvals: ServerApprovals
) -> None:
    approvals.record(entry(), approved=True)
    (tmp_path / "state").chmod(0o777)
    assert again(approvals, NODE) is Admission.PENDING
    assert "everybody" in str(approvals.diagnostics[0])


def test_a_link_in_place_of_the_store_is_not_followed(tmp_path: Path, approvals: ServerApprovals) -> None:
    approvals.record(entry(), approved=True)
    store = tmp_path / "state" / "mcp-approvals.json"
    store.rename(tmp_path / "elsewhere.json")
    store.symlink_to(tmp_path / "elsewhere.json")
    assert again(approvals, NODE) is Admission.PENDING
    assert approvals.diagnostics


@pytest.mark.parametrize("damage", ["content", "mode", "gone"])
def test_without_the_users_key_old_answers_do_not_count(
    tmp_path: Path, approvals: ServerApprovals, workspace: Path, damage: str
) -> None:
    approvals.record(entry(), approved=True)
    key = tmp_path / "state" / "mcp-approvals.key"
    if damage == "content":
        key.write_text("zz")
    elif damage == "mode":
        key.chmod(0o644)
    else:
        key.unlink()
    fresh = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "bin")})
    assert fresh.state(entry(), Settings()) is Admission.PENDING
    assert bool(fresh.diagnostics) is (damage != "gone")
    fresh.record(entry(), approved=True)
    assert key.stat().st_mode & 0o777 == 0o600
    later = ServerApprovals(tmp_path / "state", workspace, environ={"PATH": str(tmp_path / "bin")})
    assert later.state(entry(), Settings()) is Admission.ADMITTED


def test_where_nothing_can_be_written_an_answer_counts_for_this_process(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "file").write_text("")
    approvals = ServerApprovals(tmp_path / "file" / "state", workspace)
    approvals.record(entry(), approved=True)
    assert again(approvals, NODE) is Admission.ADMITTED
    assert again(approvals, {**NODE, "args": []}) is Admission.PENDING
    assert any("this process only" in str(diagnostic) for diagnostic in approvals.diagnostics)
    approvals.reset()
    assert again(approvals, NODE) is Admission.PENDING


@pytest.mark.parametrize(
    "raw",
    [
        {"command": "~nobody-of-that-name/x"},
        {"command": "x", "cwd": "~nobody-of-that-name/x"},
        {"command": "/" + "x" * 5000},
        {"command": "x" * 5000, "cwd": "/" + "y" * 5000},
        {"command": "./loop"},
        {"command": "x", "env": {"PATH": "/" + "z" * 5000}},
    ],
)
def test_paths_that_no_system_takes_are_asked_about_like_others(
    approvals: ServerApprovals, workspace: Path, raw: dict[str, Any]
) -> None:
    (workspace / "loop").symlink_to("loop")
    assert again(approvals, raw) is Admission.PENDING
    assert approvals.request(entry(raw)).text()
    approvals.record(entry(raw), approved=True)
    assert again(approvals, raw) is Admission.ADMITTED


async def test_without_any_home_folder_everything_works_but_remembering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "USERPROFILE", "HOMEPATH", "HOMEDRIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with FaultServer({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}) as server:
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": server.stdio_config()}}))
        async with ToolProvider(workspace=tmp_path, approval_handler=lambda request: True) as provider:
            assert [tool.name for tool in await provider.get_tools_async()] == ["mcp__s__t"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("fault", [28, 30, 13])
def test_a_disk_that_is_full_or_read_only_costs_the_memory_and_not_the_answer(
    approvals: ServerApprovals, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise OSError(fault, os.strerror(fault))

    approvals.record(entry(name="before"), approved=True)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", failing)
        approvals.record(entry(), approved=True)
        assert again(approvals, NODE) is Admission.ADMITTED
        with pytest.raises(ConfigError, match=os.strerror(fault)):
            approvals.reset()
    assert again(approvals, NODE, name="before") is Admission.ADMITTED, "what was kept is still kept"
    assert any("this process only" in str(diagnostic) for diagnostic in approvals.diagnostics)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who may not write everywhere")
def test_a_folder_that_may_not_be_written_costs_the_memory_only(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o500)
    approvals = ServerApprovals(tmp_path / "state", workspace)
    approvals.record(entry(), approved=True)
    assert again(approvals, NODE) is Admission.ADMITTED


@pytest.mark.parametrize("where", ["mcp-approvals.json", "mcp-approvals.key", "mcp-approvals.json.lock", "."])
def test_whatever_stands_in_the_place_of_a_file_of_ours_nothing_is_believed_and_nothing_raised(
    tmp_path: Path, workspace: Path, where: str
) -> None:
    state = tmp_path / "state"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    for make in (Path.mkdir, os.mkfifo, lambda path: path.symlink_to(elsewhere), lambda path: path.symlink_to(path)):
        place = state / where
        if where != ".":
            state.mkdir(exist_ok=True)
        make(place)
        approvals = ServerApprovals(state, workspace)
        assert again(approvals, NODE) is Admission.PENDING
        approvals.record(entry(), approved=True)
        assert again(approvals, NODE) is Admission.ADMITTED
        assert elsewhere.read_text() == "precious"
        shutil.rmtree(state) if state.is_dir() and not state.is_symlink() else state.unlink()


_RECORDER = """
import sys
from pathlib import Path
from codebuddy_mcp_tools.config import ServerEntry, parse_server
from codebuddy_mcp_tools.policy.approvals import ServerApprovals
from codebuddy_mcp_tools.types import Scope
state, workspace, prefix = sys.argv[1:]
sys.stdin.readline()
for number in range(20):
    name = f"{prefix}{number}"
    approvals = ServerApprovals(Path(state), Path(workspace), environ={})
    approvals.record(ServerEntry(name, Scope.PROJECT, parse_server(name, {"command": "x"})[0], {}), approved=True)
"""


def test_two_processes_do_not_lose_each_others_answers(tmp_path: Path, workspace: Path) -> None:
    state = tmp_path / "state"
    processes = [
        subprocess.Popen([sys.executable, "-c", _RECORDER, state, workspace, prefix], stdin=subprocess.PIPE, text=True)
        for prefix in ("a", "b")
    ]
    for process in processes:  # both are ready now, and start together
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait(60) for process in processes] == [0, 0]
    for process in processes:
        process.stdin.close()
    approvals = ServerApprovals(state, workspace, environ={})
    states = {approvals.state(entry({"command": "x"}, name=f"{p}{n}"), Settings()) for p in "ab" for n in range(20)}
    assert states == {Admission.ADMITTED}
    assert approvals.diagnostics == ()


def test_threads_do_not_lose_each_others_answers(approvals: ServerApprovals) -> None:
    threads = [threading.Thread(target=approvals.record, args=(entry(name=f"s{n}"), True)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {again(approvals, NODE, name=f"s{n}") for n in range(10)} == {Admission.ADMITTED}


def test_asking_for_the_state_writes_no_answer(tmp_path: Path, approvals: ServerApprovals) -> None:
    again(approvals, NODE)
    assert not (tmp_path / "state" / "mcp-approvals.json").exists()


def test_the_store_is_a_documented_json_object(tmp_path: Path, approvals: ServerApprovals, workspace: Path) -> None:
    approvals.record(entry(), approved=True)
    data = json.loads((tmp_path / "state" / "mcp-approvals.json").read_text())
    answer = data["workspaces"][os.path.realpath(workspace)]["project:s"]
    assert set(answer) == {"fingerprint", "approved", "at"}
