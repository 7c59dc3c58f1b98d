"""The task list: one SQLite table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel

Status = Literal["open", "done", "all"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    notes TEXT NOT NULL DEFAULT '',
    due TEXT,
    done INTEGER NOT NULL DEFAULT 0
)
"""
SAMPLE = (
    ("Write the quick start for the README", "One command to install, one to run.", "2026-03-02"),
    ("Answer the question about proxies", "Asked twice on the forum.", None),
    ("Book the train to the meet-up", "", "2026-03-05"),
)


class Task(BaseModel):
    """One task as the tools show it; `due` is an ISO 8601 date."""

    id: int
    title: str
    notes: str
    due: str | None
    done: bool


class TaskStore:
    """The tasks in one database file (`":memory:"` for none).

    Every method opens its own transaction; an id that does not exist is a `ValueError` that says which.
    """

    def __init__(self, database: str) -> None:
        self._connection = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute(SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def fill(self) -> None:
        """Put three sample tasks into an empty list."""
        with self._transaction() as run:
            if run("SELECT count(*) FROM task").fetchone()[0] == 0:
                for task in SAMPLE:
                    run("INSERT INTO task (title, notes, due) VALUES (?, ?, ?)", task)

    def find(self, status: Status, text: str = "", limit: int = 50) -> list[Task]:
        """Tasks by status whose title or notes contain `text`, earliest due date first, undated ones last."""
        wanted = {"open": "done = 0", "done": "done = 1", "all": "1 = 1"}[status]
        rows = self._connection.execute(
            f"SELECT * FROM task WHERE {wanted} AND (instr(lower(title), lower(?)) OR instr(lower(notes), lower(?)))"  # noqa: S608
            " ORDER BY due IS NULL, due, id LIMIT ?",
            (text, text, limit),
        )
        return [_task(row) for row in rows]

    def get(self, identity: int) -> Task:
        """One task."""
        row = self._connection.execute("SELECT * FROM task WHERE id = ?", (identity,)).fetchone()
        if row is None:
            raise ValueError(f"there is no task {identity}")
        return _task(row)

    def add(self, title: str, notes: str, due: str | None) -> Task:
        """Add a task and return it."""
        with self._transaction() as run:
            cursor = run("INSERT INTO task (title, notes, due) VALUES (?, ?, ?)", (title, notes, due))
        return self.get(cursor.lastrowid or 0)

    def change(self, identity: int, **columns: Any) -> Task:
        """Set columns of one task and return it."""
        self.get(identity)
        with self._transaction() as run:
            for column, value in columns.items():
                run(f"UPDATE task SET {column} = ? WHERE id = ?", (value, identity))  # noqa: S608 - our own names
        return self.get(identity)

    def delete(self, identity: int) -> Task:
        """Remove one task and return what it was."""
        task = self.get(identity)
        with self._transaction() as run:
            run("DELETE FROM task WHERE id = ?", (identity,))
        return task

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection.execute
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _task(row: sqlite3.Row) -> Task:
    return Task(id=row["id"], title=row["title"], notes=row["notes"], due=row["due"], done=bool(row["done"]))
