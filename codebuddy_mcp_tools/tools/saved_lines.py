"""The lines of a long text as they are saved, counted and shown, cut at `WRAP` characters: any text can be paged.

Policy: a text of many megabytes is never copied as a whole; it is cleaned, counted and written in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator

from codebuddy_mcp_tools.policy.text import clean
from codebuddy_mcp_tools.tools.saved_file import WRAP

_CHUNK = 1_000_000


def cleaned_chunks(text: str) -> Iterator[str]:
    """The text without what no reader can see, in pieces that end with a line where that is possible."""
    start = 0
    while start < len(text):
        stop = min(start + _CHUNK, len(text))
        if stop < len(text):
            stop = text.rfind("\n", start, stop) + 1 or stop
        yield clean(text[start:stop]).text
        start = stop


class LineCount:
    """Counts the lines and characters of a text that comes in pieces.

    Attributes:
        chars: characters so far.
    """

    def __init__(self) -> None:
        self.chars = 0
        self._ended = 0
        self._open = 0

    @property
    def lines(self) -> int:
        """Lines so far, the last one included when anything is in it."""
        return self._ended + -(-self._open // WRAP)

    def add(self, piece: str) -> None:
        """Counts one more piece."""
        self.chars += len(piece)
        *whole, rest = piece.split("\n")
        for line in whole:
            self._ended += -(-(self._open + len(line) + 1) // WRAP)
            self._open = 0
        self._open += len(rest)


def first_lines(text: str, lines: int, chars: int) -> tuple[str, int]:
    """The first lines of a text and how many they are: at most so many lines and characters, at least a part of one."""
    end = shown = 0
    while shown < lines and end < len(text):
        feed = text.find("\n", end, end + WRAP)
        stop = feed + 1 if feed >= 0 else min(end + WRAP, len(text))
        if stop > chars:
            break
        end, shown = stop, shown + 1
    return (text[:end].rstrip("\n"), shown) if shown else (text[: min(chars, WRAP)], 1)
