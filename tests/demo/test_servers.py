from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from codebuddy_mcp_tools.demo.servers.store import TaskStore
from codebuddy_mcp_tools.demo.servers.tree import MAX_FILE, Tree


@asynccontextmanager
async def session(name: str, *arguments: str) -> AsyncIterator[ClientSession]:
    module = f"codebuddy_mcp_tools.demo.servers.{name}"
    parameters = StdioServerParameters(command=sys.executable, args=["-W", "error", "-m", module, *arguments])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TaskStore]:
    with closing(TaskStore(str(tmp_path / "tasks.db"))) as store:
        yield store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "README.md").write_text("# Title\n\npip install it\nthen PIP again\n")
    (root / "docs" / "more.md").write_text("nothing here\n")
    (root / "docs" / "image.bin").write_bytes(b"pip\xff\xfe")
    (root / ".git" / "config").write_text("pip secret\n")
    (tmp_path / "outside.md").write_text("pip outside\n")
    return root


async def test_tasks_are_kept_in_the_database_between_two_processes(tmp_path: Path) -> None:
    database = str(tmp_path / "tasks.db")
    async with session("tasks", "--database", database) as client:
        added = await client.call_tool("add_task", {"title": "Buy milk", "due": "2026-04-01"})
        assert added.structuredContent == {
            "id": 1, "title": "Buy milk", "notes": "", "due": "2026-04-01", "done": False,
        }  # fmt: skip
    async with session("tasks", "--database", database) as client:
        listed = await client.call_tool("list_tasks", {})
        assert [task["title"] for task in listed.structuredContent["result"]] == ["Buy milk"]


async def test_every_tool_of_both_servers_says_what_it_does_to_the_world(tmp_path: Path) -> None:
    async with session("tasks") as tasks, session("files", "--root", str(tmp_path)) as files:
        listed = [*(await tasks.list_tools()).tools, *(await files.list_tools()).tools]
    assert all(tool.annotations and tool.annotations.readOnlyHint is not None for tool in listed)
    reads = {tool.name for tool in listed if tool.annotations.readOnlyHint}
    assert reads == {"list_tasks", "search_tasks", "get_task", "list_files", "read_file", "search_text"}


async def test_tasks_are_offered_as_a_resource_and_a_prompt_too() -> None:
    async with session("tasks", "--sample") as client:
        (content,) = (await client.read_resource("tasks://open")).contents
        prompt = await client.get_prompt("plan_day", {"day": "Monday"})
    assert "1. Write the quick start" in content.text
    assert "Plan Monday with 6 hours" in prompt.messages[0].content.text


async def test_an_unknown_task_is_a_failure_with_its_number() -> None:
    async with session("tasks") as client:
        result = await client.call_tool("complete_task", {"task_id": 9})
    assert result.isError
    assert "there is no task 9" in result.content[0].text


def test_tasks_are_sorted_by_due_date_and_found_in_any_case(store: TaskStore) -> None:
    store.add("b", "Notes", None)
    store.add("late", "", "2026-02-01")
    store.add("early", "", "2026-01-01")
    assert [task.title for task in store.find("open")] == ["early", "late", "b"]
    assert [task.title for task in store.find("all", "NOTES")] == ["b"]
    assert [task.title for task in store.find("all", limit=1)] == ["early"]


def test_a_task_can_be_changed_completed_and_deleted(store: TaskStore) -> None:
    store.add("a", "", None)
    assert store.change(1, title="b", notes="n").title == "b"
    assert store.change(1, done=1).done
    assert store.find("open") == []
    assert [task.id for task in store.find("done")] == [1]
    assert store.delete(1).title == "b"
    with pytest.raises(ValueError, match="no task 1"):
        store.get(1)


def test_a_text_with_quotes_is_only_a_text(store: TaskStore) -> None:
    title = "'; DROP TABLE task; --"
    store.add(title, "", None)
    assert [task.title for task in store.find("all", title)] == [title]


def test_sample_tasks_go_into_an_empty_list_only(store: TaskStore) -> None:
    store.fill()
    store.fill()
    assert len(store.find("all")) == 3


def test_a_failed_change_leaves_nothing_behind(store: TaskStore) -> None:
    store.add("a", "", None)
    with pytest.raises(sqlite3.OperationalError):
        store.change(1, title="b", nonsense=1)
    assert store.get(1).title == "a"


def test_files_below_the_root_are_listed_without_hidden_ones(root: Path) -> None:
    tree = Tree(root)
    assert tree.files() == ["README.md", "docs/image.bin", "docs/more.md"]
    assert tree.files("docs", "*.md") == ["docs/more.md"]


def test_lines_are_searched_in_any_case_and_binary_files_are_passed_over(root: Path) -> None:
    hits = Tree(root).search("pip", "*", 10)
    assert [(hit.path, hit.line) for hit in hits] == [("README.md", 3), ("README.md", 4)]
    assert len(Tree(root).search("pip", "*", 1)) == 1


def test_a_range_of_lines_is_read(root: Path) -> None:
    assert Tree(root).read("README.md", 3, 1) == "pip install it"


@pytest.mark.parametrize(
    "name", ["../outside.md", "/etc/passwd", "docs/../../outside.md", ".git/config", "link", "missing.md", "docs"]
)
def test_nothing_outside_of_the_root_and_nothing_hidden_is_read(root: Path, name: str) -> None:
    (root / "link").symlink_to(root.parent / "outside.md")
    with pytest.raises(ValueError, match=r"outside|no such|not a file"):
        Tree(root).read(name, 1, 10)


def test_a_link_out_of_the_root_is_neither_listed_nor_searched(root: Path) -> None:
    (root / "link.md").symlink_to(root.parent / "outside.md")
    (root / "folder").symlink_to(root.parent)
    assert Tree(root).files(pattern="*.md") == ["README.md", "docs/more.md"]
    assert all(hit.path != "link.md" for hit in Tree(root).search("outside", "*", 10))


def test_large_and_binary_files_are_refused_by_name(root: Path) -> None:
    (root / "large.txt").write_text("x" * (MAX_FILE + 1))
    for name in ("large.txt", "docs/image.bin"):
        with pytest.raises(ValueError, match=name):
            Tree(root).read(name, 1, 1)
