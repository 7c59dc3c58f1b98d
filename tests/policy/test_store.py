"""The private store: whole or not at all, for its owner only, believed only when it can be."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import store as room
from codebuddy_mcp_tools.policy.store import Distrust, PrivateStore, read_private, replace_private


@pytest.fixture
def store(tmp_path: Path) -> PrivateStore:
    return PrivateStore(tmp_path / "deep" / "state" / "x.json")


def test_an_absent_file_is_an_empty_object(store: PrivateStore) -> None:
    assert store.read() == {}
    assert store.problem is None
    store.remove()


def test_a_change_is_written_privately(store: PrivateStore) -> None:
    store.change(lambda data: data.update(a=1))
    store.change(lambda data: data.update(b="\ud800ü"))
    assert store.read() == {"a": 1, "b": "\ud800ü"}
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in store.path.parent.iterdir() if not p.name.endswith(".lock")] == ["x.json"]
    store.remove()
    assert store.read() == {}


def test_a_change_that_fails_leaves_the_file_as_it_was(store: PrivateStore) -> None:
    store.change(lambda data: data.update(a=1))

    def failing(data: dict[str, Any]) -> None:
        data.clear()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.change(failing)
    assert store.read() == {"a": 1}


def test_a_write_that_fails_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    store = PrivateStore(tmp_path / "x.json")
    with pytest.raises(ConfigError, match="No space left"):
        store.change(lambda data: data.update(a=1))
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


def test_a_lock_that_somebody_keeps_is_an_error_that_says_so(
    store: PrivateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.change(lambda data: None)
    monkeypatch.setattr(room, "_LOCK_SECONDS", 0.01)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with FileLock(f"{store.path}.lock"):
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        with pytest.raises(ConfigError, match="locked by another process") as caught:
            store.change(lambda data: None)
        assert caught.value.path == store.path
    finally:
        release.set()
        thread.join()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_empty_and_reported(store: PrivateStore, content: bytes) -> None:
    store.change(lambda data: None)
    store.path.write_bytes(content)
    assert store.read() == {}
    assert "damaged" in str(store.problem)
    store.change(lambda data: data.update(a=1))
    assert store.read() == {"a": 1}
    assert store.problem is None


def test_what_is_no_regular_file_or_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    assert isinstance(read_private(tmp_path / "folder"), Distrust)
    os.mkfifo(tmp_path / "pipe")
    assert isinstance(read_private(tmp_path / "pipe"), Distrust), "and nobody waits for a writer"
    replace_private(tmp_path / "big", b"x" * 100)
    monkeypatch.setattr(room, "_MAX_BYTES", 99)
    assert isinstance(read_private(tmp_path / "big"), Distrust)


def test_a_secret_file_must_not_be_readable_for_others(tmp_path: Path) -> None:
    replace_private(tmp_path / "key", b"k")
    assert read_private(tmp_path / "key", secret=True) == b"k"
    (tmp_path / "key").chmod(0o640)
    assert read_private(tmp_path / "key") == b"k"
    assert isinstance(read_private(tmp_path / "key", secret=True), Distrust)


def test_what_cannot_be_deleted_is_an_error_that_says_so(store: PrivateStore) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be deleted"):
        store.remove()
    PrivateStore(Path(__file__) / "below" / "x.json").remove()


def test_the_file_is_readable_json(store: PrivateStore) -> None:
    store.change(lambda data: data.update(a=[1]))
    assert json.loads(store.path.read_text("ascii")) == {"a": [1]}
