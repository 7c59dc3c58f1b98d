"""A folder that is only read, and never left: every path is resolved and must lie under the root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "dist", "build"})
MAX_FILE = 1_000_000
"""Bytes: larger files are listed, but not read or searched."""


class Hit(BaseModel):
    """One line that contains the text; lines count from 1."""

    path: str
    line: int
    text: str


class Tree:
    """The files under one root.

    Raises (all methods): `ValueError` for a path that does not exist, lies outside of the root, or cannot be read as
    text. Hidden files and folders, and folders of tools and builds, are left out.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve(strict=True)

    def files(self, folder: str = ".", pattern: str = "*") -> list[str]:
        """Paths below a folder, relative to the root, whose name matches a glob pattern."""
        return sorted(self._name(path) for path in self._walk(folder) if path.match(pattern))

    def read(self, name: str, first: int, count: int) -> str:
        """Lines `first` to `first + count - 1` of a file, counted from 1."""
        return "\n".join(self._text(self._inside(name)).splitlines()[first - 1 : first - 1 + count])

    def search(self, text: str, pattern: str, limit: int) -> list[Hit]:
        """The first lines that contain a text, in any case."""
        wanted = text.casefold()
        hits: list[Hit] = []
        for path in sorted(path for path in self._walk(".") if path.match(pattern)):
            try:
                lines = self._text(path).splitlines()
            except ValueError:
                continue
            found = [(number, line) for number, line in enumerate(lines, 1) if wanted in line.casefold()]
            hits += [Hit(path=self._name(path), line=number, text=line.strip()[:200]) for number, line in found]
            if len(hits) >= limit:
                break
        return hits[:limit]

    def _inside(self, name: str) -> Path:
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root):
            raise ValueError(f"{name}: outside of the root")
        if any(_hidden(part) for part in path.relative_to(self._root).parts) or not path.exists():
            raise ValueError(f"{name}: no such file")
        return path

    def _walk(self, folder: str) -> Iterator[Path]:
        for here, folders, names in os.walk(self._inside(folder)):
            folders[:] = sorted(name for name in folders if not _hidden(name))
            for name in names:
                path = Path(here, name)
                if not _hidden(name) and path.resolve().is_relative_to(self._root):
                    yield path

    def _text(self, path: Path) -> str:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            raise ValueError(f"{self._name(path)}: not a file of at most {MAX_FILE:,} bytes")
        try:
            return path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self._name(path)}: not UTF-8 text") from error

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _hidden(name: str) -> bool:
    return name.startswith(".") or name in SKIPPED
