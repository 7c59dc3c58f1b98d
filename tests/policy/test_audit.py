"""The audit log: a documented line for each event, no value in it, never in anybody's way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.policy.audit import AuditLog
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
    log.write("error", server="s", message="http failed with ENVSEC", details={"ENVSEC": ["ENVSEC"]})
    text = path.read_text()
    assert "VALUE" not in text
    assert "ENVSEC" not in text
    assert lines(path)[0]["arguments"] == ["***", "path"]
    assert [record.message for record in caplog.records if "'result'" in record.message]


def test_text_is_cleaned_and_cut_and_values_of_any_kind_become_json(path: Path) -> None:
    log = AuditLog(path)
    log.write(
        "x",
        message="a\x1b[31m\nb\u202e" + "y" * 5000,
        odd=object(),
        nan=float("nan"),
        path=path,
        many=list(range(1000)),
        deep={"a": (1, {2})},
    )
    record = lines(path)[0]
    assert record["message"].startswith("a b")
    assert len(record["message"]) == 1000
    assert record["nan"] == "nan"
    assert len(record["many"]) == 100
    assert record["deep"] == {"a": [1, [2]]}
    assert record["odd"].startswith("<object")


def test_our_own_fields_cannot_be_replaced(path: Path) -> None:
    AuditLog(path).write("x", v=9, ts="never", pid=0)
    record = lines(path)[0]
    assert (record["v"], record["pid"]) == (1, os.getpid())
    assert record["ts"] != "never"


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    AuditLog(None).write("x", server="s")
    assert list(tmp_path.iterdir()) == []


def test_the_file_rotates_by_size_and_keeps_so_many(path: Path) -> None:
    log = AuditLog(path, max_bytes=400, backups=2)
    for number in range(40):
        log.write("x", number=number)
    files = sorted(file.name for file in path.parent.iterdir() if not file.name.endswith(".lock"))
    assert files == ["mcp.jsonl", "mcp.jsonl.1", "mcp.jsonl.2"]
    assert all((path.parent / name).stat().st_size <= 400 for name in files)
    newest = lines(path)
    assert newest[-1]["number"] == 39
    assert lines(path.parent / "mcp.jsonl.1")[-1]["number"] == newest[0]["number"] - 1


def test_without_backups_the_old_file_goes(path: Path) -> None:
    log = AuditLog(path, max_bytes=200, backups=0)
    for number in range(10):
        log.write("x", number=number)
    assert not path.with_name("mcp.jsonl.1").exists()
    assert lines(path)[-1]["number"] == 9


def test_a_line_longer_than_the_limit_is_still_written_once(path: Path) -> None:
    log = AuditLog(path, max_bytes=10, backups=1)
    log.write("first", message="x" * 100)
    log.write("second")
    assert [record["event"] for record in lines(path)] == ["second"]
    assert [record["event"] for record in lines(path.with_name("mcp.jsonl.1"))] == ["first"]


def test_what_cannot_be_written_is_said_once_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "logs" / "mcp.jsonl")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            log.write("x")
    assert len(caplog.records) == 1
    assert "audit log" in caplog.records[0].message


def test_links_that_lead_elsewhere_are_not_followed(
    tmp_path: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / "w").mkdir()
    path.parent.parent.symlink_to(target)
    AuditLog(path).write("x")
    path.parent.parent.unlink()
    path.parent.mkdir(parents=True)
    path.symlink_to(target / "file")
    AuditLog(path).write("x")
    assert list(target.iterdir()) == []
    assert len(caplog.records) == 2


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("")
    path.chmod(0o644)
    AuditLog(path).write("x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_event_that_is_no_json_is_dropped_and_said(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    endless: list[Any] = []
    endless.append(endless)
    AuditLog(path).write("x", odd=endless)
    assert not path.exists()
    assert "RecursionError" in caplog.text


def test_threads_write_whole_lines(path: Path) -> None:
    log = AuditLog(path, max_bytes=20_000, backups=50)
    threads = [
        threading.Thread(target=lambda: [log.write("x", message="m" * 200) for _ in range(100)]) for _ in range(5)
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
for number in range(200):
    log.write("x", message="m" * 200, number=number)
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
