"""Noticing changed files."""

from __future__ import annotations

import os
import threading

import pytest

from codebuddy_mcp_tools.config import ConfigWatcher


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    return path


def test_a_change_is_reported_once_after_it_has_settled(file):
    watcher = ConfigWatcher([file], print)
    assert watcher.look() == ()
    file.write_text('{"a": 1}')
    assert watcher.look() == ()
    assert watcher.look() == (file,)
    assert watcher.look() == ()


def test_a_file_that_is_still_being_written_is_not_reported(file):
    watcher = ConfigWatcher([file], print)
    for text in ("{", '{"a"', '{"a": 1'):
        file.write_text(text)
        assert watcher.look() == ()
    file.write_text('{"a": 1}')
    assert watcher.look() == ()
    assert watcher.look() == (file,)


def test_the_content_counts_and_not_the_time(file):
    watcher = ConfigWatcher([file], print)
    os.utime(file, (1, 1))
    assert watcher.look() == watcher.look() == ()
    times = file.stat()
    file.write_text("[]")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (watcher.look(), watcher.look()) == ((), (file,))


def test_a_change_that_was_taken_back_is_none(file):
    watcher = ConfigWatcher([file], print)
    file.write_text("[]")
    watcher.look()
    file.write_text("{}")
    assert (watcher.look(), watcher.look()) == ((), ())


def test_files_that_appear_and_vanish_are_changes_and_come_together(file, tmp_path):
    other = tmp_path / "other.json"
    watcher = ConfigWatcher([file, other], print)
    file.unlink()
    watcher.look()
    other.write_text("{}")
    assert watcher.look() == ()
    assert watcher.look() == (file, other)


def test_the_thread_reports_changes_survives_a_failing_callback_and_stops(file, caplog):
    seen, calls = threading.Event(), []

    def on_change(paths):
        calls.append(paths)
        if len(calls) == 1:
            raise ValueError("first")
        seen.set()

    watcher = ConfigWatcher([file], on_change, interval=0.005)
    watcher.start()
    watcher.start()
    try:
        for number in range(10_000):
            file.write_text(f"[{number}]")
            if seen.wait(0.05):
                break
    finally:
        watcher.stop()
    assert calls[:2] == [(file,), (file,)]
    assert "could not take over" in caplog.text
    watcher.stop()


def test_a_callback_may_stop_its_watcher(file):
    stopped = threading.Event()

    def on_change(paths):
        watcher.stop()
        stopped.set()

    watcher = ConfigWatcher([file], on_change, interval=0.005)
    watcher.start()
    file.write_text("[]")
    assert stopped.wait(30)
