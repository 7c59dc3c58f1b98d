"""The audit log: a documented line for each event, no value in it, never in anybody's way."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.policy import audit
from codebuddy_mcp_tools.policy.audit import FIELDS, AuditLog
from codebuddy_mcp_tools.policy.secrets import Redactor


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w" / ".codebuddy" / "logs" / "mcp.jsonl"


def test_an_event_is_one_json_line_in_a_private_file(path: Path) -> None:
    log = AuditLog(path, clock=lambda: datetime(2025, 1, 2, 3, 4, 5, 678000, UTC))
    log.write(
        "call",
        server="s",
        tool="t",
        arguments=["b", "a"],
        effect="write",
        decision="allow",
        rule=None,
        duration_ms=1.5,
        chars=9,
    )
    assert lines(path) == [
        {
            "v": 1, "ts": "2025-01-02T03:04:05.678+00:00", "event": "call", "pid": os.getpid(), "server": "s",
            "tool": "t",
            "arguments": ["a", "b"], "effect": "write", "decision": "allow", "duration_ms": 1.5, "chars": 9,
        }
    ]  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_no_argument_value_and_no_secret_is_written(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(path, Redactor("ENVSEC"))
    log.write(
        "call",
        server="s",
        arguments={"path": "VALUE", "ENVSEC": "VALUE"},
        result="VALUE",
        content=["VALUE"],
        headers={"A": "VALUE"},
    )
    log.write("error", server="s", message="http failed with ENVSEC")
    log.write("signal", server="s", tool="ENVSEC", signals=[{"ENVSEC": ["ENVSEC"]}])
    text = path.read_text()
    assert "VALUE" not in text
    assert "ENVSEC" not in text
    assert lines(path)[0]["arguments"] == ["***", "path"]
    assert [record.message for record in caplog.records if "'result'" in record.message]


def test_text_is_cleaned_and_cut_and_values_of_any_kind_become_json(path: Path) -> None:
    log = AuditLog(path)
    log.write(
        "call",
        tool="a\x1b[31m\nb\u202e" + "y" * 5000,
        rule=object(),
        duration_ms=float("nan"),
        server=path,
        signals=list(range(1000)),
        outcome={"a": (1, {2})},
    )
    record = lines(path)[0]
    assert record["tool"].startswith("a b")
    assert len(record["tool"]) == 1000
    assert record["duration_ms"] == "nan"
    assert len(record["signals"]) == 100
    assert record["outcome"] == {"a": [1, [2]]}
    assert record["rule"].startswith("<object")


def test_the_schema_that_people_read_is_the_one_that_is_kept() -> None:
    assert audit.__doc__
    table = audit.__doc__.partition("nothing else can be written:")[2].partition("Policy:")[0]
    described = re.split(r"\n {4}(?=\S)", table)[1:]
    names = [name for head in described for name in re.findall(r"\w+", re.split(r" {6,}|\n", head)[0])]
    assert sorted(names) == sorted(FIELDS)
    for head in described:
        event = re.match(r"\w+", head)[0]
        assert all(re.search(rf"\b{field}\b", head) for field in FIELDS[event] - {"server"}), event


@pytest.mark.parametrize(("event", "fields"), [("x", {"server": "s"}), ("Call", {}), ("log", {"message": "VALUE"})])
def test_an_event_that_the_schema_does_not_have_is_not_written(
    path: Path, caplog: pytest.LogCaptureFixture, event: str, fields: dict[str, str]
) -> None:
    AuditLog(path).write(event, **fields)
    assert not path.exists()
    assert repr(event) in caplog.text


def test_our_own_fields_cannot_be_replaced(path: Path) -> None:
    AuditLog(path).write("error", v=9, ts="never", pid=0)
    record = lines(path)[0]
    assert (record["v"], record["pid"]) == (1, os.getpid())
    assert record["ts"] != "never"


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    AuditLog(None).write("error", server="s")
    assert list(tmp_path.iterdir()) == []


def test_the_file_rotates_by_size_and_keeps_so_many(path: Path) -> None:
    log = AuditLog(path, max_bytes=400, backups=2)
    for number in range(40):
        log.write("error", message=str(number))
    files = sorted(file.name for file in path.parent.iterdir() if not file.name.endswith(".lock"))
    assert files == ["mcp.jsonl", "mcp.jsonl.1", "mcp.jsonl.2"]
    assert all((path.parent / name).stat().st_size <= 400 for name in files)
    newest = lines(path)
    assert newest[-1]["message"] == "39"
    assert int(lines(path.parent / "mcp.jsonl.1")[-1]["message"]) == int(newest[0]["message"]) - 1


def test_without_backups_the_old_file_goes(path: Path) -> None:
    log = AuditLog(path, max_bytes=200, backups=0)
    for number in range(10):
        log.write("error", message=str(number))
    assert not path.with_name("mcp.jsonl.1").exists()
    assert lines(path)[-1]["message"] == "9"


def test_a_line_longer_than_the_limit_is_still_written_once(path: Path) -> None:
    log = AuditLog(path, max_bytes=10, backups=1)
    log.write("connected", message="x" * 100)
    log.write("disconnected")
    assert [record["event"] for record in lines(path)] == ["disconnected"]
    assert [record["event"] for record in lines(path.with_name("mcp.jsonl.1"))] == ["connected"]


def test_what_cannot_be_written_is_said_once_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "logs" / "mcp.jsonl")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.write("error")
    assert len(caplog.records) == 1
    assert "audit log" in caplog.records[0].message


def test_links_that_lead_elsewhere_are_not_followed(
    tmp_path: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / "w").mkdir()
    path.parent.parent.symlink_to(target)
    AuditLog(path).write("error")
    path.parent.parent.unlink()
    path.parent.mkdir(parents=True)
    path.symlink_to(target / "file")
    AuditLog(path).write("error")
    assert list(target.iterdir()) == []
    assert len(caplog.records) == 2


def test_neither_a_pipe_nor_a_linked_lock_in_its_place_stops_or_misleads_anybody(
    tmp_path: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    AuditLog(path).write("error", message="nobody reads")
    path.unlink()
    (tmp_path / "precious").write_text("precious")
    path.with_name("mcp.jsonl.lock").symlink_to(tmp_path / "precious")
    log = AuditLog(path, max_bytes=10)
    log.write("connected")
    log.write("error", message="rotates")
    assert (tmp_path / "precious").read_text() == "precious"
    assert len(caplog.records) == 2


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), OSError(30, "Read-only file system")])
def test_a_full_or_read_only_disk_costs_the_line_only(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: OSError
) -> None:
    def failing(descriptor: int, line: bytes) -> int:
        raise fault

    log = AuditLog(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        log.write("error", message="lost")
    log.write("error", message="kept")
    assert [record["message"] for record in lines(path)] == ["kept"]
    assert str(fault.strerror) in caplog.text


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("")
    path.chmod(0o644)
    AuditLog(path).write("error")
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_event_that_is_no_json_is_dropped_and_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise ValueError("no text")

    AuditLog(path).write("pin", message=Unprintable())
    assert not path.exists()
    assert "ValueError" in caplog.text


def test_threads_write_whole_lines(path: Path) -> None:
    log = AuditLog(path, max_bytes=20_000, backups=50)
    threads = [
        threading.Thread(target=lambda: [log.write("error", message="m" * 200) for _ in range(100)]) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = [file for file in path.parent.iterdir() if not file.name.endswith(".lock")]
    assert sum(len(lines(file)) for file in files) == 500


_WRITER = """
import sys
from pathlib import Path
from codebuddy_mcp_tools.policy.audit import AuditLog
log = AuditLog(Path(sys.argv[1]), max_bytes=20_000, backups=50)
sys.stdin.readline()
for _ in range(200):
    log.write("error", message="m" * 200)
"""


def test_two_processes_write_whole_lines_and_rotate_together(path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", _WRITER, path], stdin=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait(60) for process in processes] == [0, 0]
    for process in processes:
        process.stdin.close()
    files = [file for file in path.parent.iterdir() if not file.name.endswith(".lock")]
    assert sum(len(lines(file)) for file in files) == 400
