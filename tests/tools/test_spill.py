"""Where long results are saved: no name of a server or a session leads elsewhere, nothing grows without end."""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.saved_file import RESULT_NAME
from codebuddy_mcp_tools.tools.saved_lines import LineCount, cleaned_chunks, first_lines
from codebuddy_mcp_tools.tools.spill import Cleanup, SpillStore, session_folder

pytestmark = pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="private folders need a POSIX system")
NOW = datetime(2026, 12, 1, 10, 20, 30, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "state", tmp_path / "project", clock=lambda: NOW)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_path_follows_the_scheme(store: SpillStore, tmp_path: Path) -> None:
    saved = store.save("session-1", "git hub", "list.issues", "text")

    folder = saved.path.parent
    assert folder.name == "tool-results"
    assert folder.parent.name == "session-1"
    assert folder.parent.parent.parent == tmp_path / "state" / "projects"
    assert re.fullmatch(r"mcp-git_hub-list_issues-20261201T102030-[0-9a-f]{16}\.txt", saved.path.name)
    assert saved.path.read_text() == "text"


def test_only_the_owner_can_read(store: SpillStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        saved = store.save("s", "a", "b", "text")
    finally:
        os.umask(before)

    assert mode(saved.path) == 0o600
    for folder in (saved.path.parent, saved.path.parent.parent, tmp_path / "state" / "projects", tmp_path / "state"):
        assert mode(folder) == 0o700


def test_two_projects_and_two_sessions_are_kept_apart(tmp_path: Path) -> None:
    one, two = SpillStore(tmp_path, tmp_path / "one"), SpillStore(tmp_path, tmp_path / "two")
    saved = [one.save("s", "a", "b", "x"), one.save("t", "a", "b", "x"), two.save("s", "a", "b", "x")]

    assert len({one.path.parent for one in saved}) == 3


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs", "..", "", "a\0b", "x" * 500, "naïve\u202e", "con/../x", "\n", "-rf"]
)
def test_no_name_steers_the_path(store: SpillStore, name: str) -> None:
    saved = store.save(name or "s", name, name, "text")

    assert saved.path.resolve().is_relative_to(store.root.resolve())
    assert saved.path.parent.name == "tool-results"
    assert RESULT_NAME.fullmatch(saved.path.name)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text(), st.text())
def test_any_names_give_a_file_in_the_folder(store: SpillStore, session: str, server: str, tool: str) -> None:
    saved = store.save(session, server, tool, "text")

    assert saved.path.read_text() == "text"
    assert len(saved.path.name) <= 140
    assert saved.path.parent.parent.parent == store.root / "projects" / saved.path.parent.parent.parent.name


def test_different_sessions_never_share_a_folder() -> None:
    names = ["a", "a.b", "a/b", "a b", "../a", "a" * 65, "a" * 66, "", "é", "\ud83d", "tool-results"]

    assert len({session_folder(name) for name in names}) == len(names)
    assert not any(set(session_folder(name)) & set("/\0") for name in names)


def test_a_link_in_the_way_is_refused(store: SpillStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "projects").symlink_to(elsewhere)

    with pytest.raises(OSError):
        store.save("s", "a", "b", "text")

    assert list(elsewhere.iterdir()) == []


def test_a_session_folder_that_is_a_link_is_refused(store: SpillStore, tmp_path: Path) -> None:
    folder = store.save("s", "a", "b", "text").path.parent
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder.parent.parent / "t").symlink_to(elsewhere)

    with pytest.raises(OSError):
        store.save("t", "a", "b", "text")
    assert store.clean(session_id="t") == Cleanup()


def test_a_folder_that_others_can_write_is_refused(store: SpillStore) -> None:
    folder = store.save("s", "a", "b", "text").path.parent
    folder.parent.chmod(0o777)

    with pytest.raises(OSError):
        store.save("s", "a", "b", "text")


def test_the_state_folder_itself_may_be_a_link_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")

    assert SpillStore(tmp_path / "state", None).save("s", "a", "b", "text").path.read_text() == "text"


def test_what_cannot_be_seen_is_not_saved(store: SpillStore) -> None:
    saved = store.save("s", "a", "b", "a\x1b[31mb\U000e0041c\ud83dd\n")

    assert saved.path.read_text() == "abcd\n"


def test_the_oldest_results_of_a_session_make_room(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, None, max_session_bytes=250)
    first = store.save("s", "a", "b", "1" * 100)
    os.utime(first.path, (1, 1))
    second = store.save("s", "a", "b", "2" * 100)
    os.utime(second.path, (2, 2))
    other = store.save("t", "a", "b", "4" * 100)

    third = store.save("s", "a", "b", "3" * 100)

    assert [one.path.exists() for one in (first, second, third, other)] == [False, True, True, True]
    assert len(list(third.path.parent.iterdir())) == 4  # each with what is known of it


def test_the_number_of_results_of_a_session_is_bounded(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, None, max_session_files=3)
    for number in range(10):
        path = store.save("s", "a", "b", f"{number}").path

    assert len(list(path.parent.glob("*.txt"))) == 3


def test_a_result_beyond_the_quota_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, None, max_session_bytes=1_000)

    with pytest.raises(OSError):
        store.save("s", "a", "b", "x" * 1_001)
    with pytest.raises(OSError):
        store.save("s", "a", "b", "é" * 900)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_cleaning_removes_all_or_the_old_ones_or_one_session(store: SpillStore) -> None:
    old, new, other = (store.save(session, "a", "b", "x" * 10) for session in ("s", "s", "t"))
    os.utime(old.path, (NOW.timestamp() - 7_200,) * 2)
    os.utime(new.path, (NOW.timestamp() - 60,) * 2)
    os.utime(other.path, (NOW.timestamp() - 60,) * 2)
    foreign = new.path.with_name("notes.txt")
    foreign.write_text("not ours")

    assert store.clean(timedelta(hours=1), session_id="s") == Cleanup(files=1, bytes=10)
    assert not old.path.exists()
    assert store.clean(older_than=3_600.0) == Cleanup()
    assert store.clean(session_id="t") == Cleanup(files=1, bytes=10)
    assert store.clean() == Cleanup(files=1, bytes=10)
    assert foreign.exists()
    assert not new.path.exists()
    assert not other.path.exists()


def test_a_store_knows_whether_it_has_results(store: SpillStore, tmp_path: Path) -> None:
    assert not store.has_results()

    store.save("s", "a", "b", "text")

    assert store.has_results()
    assert SpillStore(tmp_path / "state", tmp_path / "project").has_results()
    assert not SpillStore(tmp_path / "state", tmp_path / "other").has_results()
    store.clean()
    assert not store.has_results()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("a", 1),
        ("a\n", 1),
        ("a\nb", 2),
        ("x" * 2_000, 1),
        ("x" * 2_001, 2),
        ("x" * 2_000 + "\n", 2),
        ("\n\n", 2),
    ],
)
def test_lines_are_counted_as_they_are_read(text: str, lines: int) -> None:
    for size in (1, 7, 5_000):
        count = LineCount()
        for start in range(0, len(text), size):
            count.add(text[start : start + size])
        assert (count.lines, count.chars) == (lines, len(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\nc", ("a\nb", 2)),
        ("a", ("a", 1)),
        ("x" * 5_000, ("x" * 50, 1)),
        ("a\n" + "x" * 100, ("a", 1)),
    ],
)
def test_the_first_lines_of_a_text(text: str, expected: tuple[str, int]) -> None:
    assert first_lines(text, 2, 50) == expected


def test_a_long_text_is_cleaned_in_chunks_that_end_with_a_line() -> None:
    text = "line \u202eof text\n" * 200_000

    chunks = list(cleaned_chunks(text))

    assert len(chunks) > 2
    assert all(chunk.endswith("\n") for chunk in chunks)
    assert "".join(chunks) == "line of text\n" * 200_000
