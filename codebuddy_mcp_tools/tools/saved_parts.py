"""Parts of a saved result: some lines, the lines that match, or a piece of its JSON."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import jsonschema_rs

from codebuddy_mcp_tools.tools.json_path import parse_path, select
from codebuddy_mcp_tools.tools.private_dir import open_private_file
from codebuddy_mcp_tools.tools.saved_file import WRAP, Provenance
from codebuddy_mcp_tools.tools.schema_repair import REGEX_OPTIONS

MAX_PART_CHARS = 20_000
MAX_JSON_BYTES = 20_000_000
_MAX_RECORD = 100_000
_OVERLAP = 200
"""Characters of a cut line that are looked at again with its next part, so that a match across the cut is found."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a text.

    Attributes:
        lines: the lines, without line feeds; for a pattern each with its number before it.
        first, last: number of the first line asked for and of the last one looked at.
        more: lines follow after the last one.
        is_literal: the pattern was looked for as it stands, because it cannot be used as a regular expression.
    """

    lines: tuple[str, ...]
    first: int
    last: int
    more: bool
    is_literal: bool = False


class SavedText:
    """A saved result, open for reading. A context manager.

    Attributes:
        origin: whose words it holds.
    """

    def __init__(self, folder: int, name: str) -> None:
        """Opens it.

        Raises:
            OSError: it is missing, a link, or not ours.
        """
        self.origin = Provenance.from_json(_record(folder, name[: -len(".txt")] + ".json"))
        handle = open_private_file(folder, name)
        self._size = os.fstat(handle).st_size
        self._file = io.TextIOWrapper(os.fdopen(handle, "rb"), encoding="utf-8", errors="replace", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def lines(self) -> Iterator[str]:
        """Its lines, cut as they are counted."""
        return iter(lambda: self._file.readline(WRAP), "")

    def json_lines(self, path: str) -> Iterator[str]:
        """The lines of one piece of its JSON: a text as it is, everything else indented.

        Raises:
            ValueError: the path cannot be read, or the file is no JSON or too large to be read as such.
            NoSuchPart: the path leads nowhere.
        """
        steps = parse_path(path)
        if self._size > MAX_JSON_BYTES:
            raise ValueError("the file is too large for json_path; use offset and pattern instead")
        try:
            found = select(json.loads(self._file.read()), steps)
        except (json.JSONDecodeError, RecursionError):
            raise ValueError("the file is not JSON; use offset and pattern instead") from None
        stream = io.StringIO(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, indent=2), "\n")
        return iter(lambda: stream.readline(WRAP), "")


def take(lines: Iterator[str], offset: int, limit: int, pattern: str | None) -> Part:
    """At most `limit` lines from line `offset` on, or of those that match; also at most `MAX_PART_CHARS` characters."""
    matches, is_literal = (None, False) if pattern is None else matcher(pattern)
    found: list[str] = []
    room = MAX_PART_CHARS
    number = 0
    tail = ""
    for line in lines:
        number += 1
        shown = line.rstrip("\n")
        window, tail = tail + shown, "" if line.endswith("\n") else shown[-_OVERLAP:]
        if number < offset or (matches is not None and not matches(window)):
            continue
        shown = shown if matches is None else f"{number}: {shown}"
        if found and (len(found) == limit or len(shown) > room):
            return Part(tuple(found), offset, number - 1, True, is_literal)
        found.append(shown)
        room -= len(shown) + 1
    return Part(tuple(found), offset, number, False, is_literal)


def matcher(pattern: str) -> tuple[Callable[[str], bool], bool]:
    """Whether a line matches, and whether the pattern was taken literally.

    A pattern is a regular expression without look-around and back-references; what is none is a literal text.

    The expression runs in the linear-time engine of the schema validator, so that no pattern can stall the process.
    """
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=REGEX_OPTIONS).is_valid, False
    except ValueError:
        return (lambda line: pattern in line), True


def _record(folder: int, name: str) -> object:
    """What stands beside the result, `None` when it is missing or damaged."""
    try:
        with os.fdopen(open_private_file(folder, name), "rb") as file:
            return json.loads(file.read(_MAX_RECORD))
    except (OSError, ValueError, RecursionError):
        return None
