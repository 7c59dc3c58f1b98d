"""What a server writes to stderr: kept in a small ring and passed to a logger, never to our own stderr.

Notebooks have no file descriptor behind `sys.stderr`, and a terminal must not be painted by a stranger. Lines go to the
logger `codebuddy_mcp_tools.server.<name>` at INFO, cleaned of escapes and of known secrets.
"""

from __future__ import annotations

import logging
import re
from collections import deque

from codebuddy_mcp_tools.client.lines import LineSplitter, Oversized
from codebuddy_mcp_tools.client.transport import Redacts
from codebuddy_mcp_tools.policy.text import clean_line

KEPT_LINES = 50
_LINE_BYTES = 8192
_SHOWN_CHARACTERS = 500
_NAMES_ERROR = re.compile(r"(?:npm )?\w*error\b.*\w", re.IGNORECASE).match


class StderrTail:
    """The last lines of one process's stderr. Written on the owner loop, read from anywhere."""

    def __init__(self, server: str, redactor: Redacts) -> None:
        self._splitter = LineSplitter(_LINE_BYTES)
        # Raw until somebody looks: a flood must not cost more than keeping it.
        self._ring: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._redactor = redactor
        self._log = logging.getLogger(f"codebuddy_mcp_tools.server.{server}")

    def feed(self, data: bytes) -> None:
        """What was read from the pipe."""
        self._take(self._splitter.feed(data))

    def flush(self) -> None:
        """The pipe has ended."""
        self._take(self._splitter.flush())

    def lines(self) -> tuple[str, ...]:
        """The kept lines, oldest first, safe to show."""
        shown = (self._shown(line) for line in tuple(self._ring))
        return tuple(line for line in shown if line)

    def last_words(self) -> tuple[str, ...]:
        """The last three lines; in place of the first of them the first that names an error, if that came earlier.

        What npm and Node.js write last is advice, a log's path, a version.
        """
        lines = self.lines()
        last = lines[-3:]
        error = next(filter(_NAMES_ERROR, lines), None)
        return last if error is None or error in last else (error, *last[1:])

    def _take(self, lines: list[bytes | Oversized]) -> None:
        for line in lines:
            raw = line.head if isinstance(line, Oversized) else line
            self._ring.append(raw)
            if self._log.isEnabledFor(logging.INFO):
                self._log.info("%s", self._shown(raw))

    def _shown(self, raw: bytes) -> str:
        # Redacted first: half a secret is not recognised.
        return clean_line(self._redactor.redact(raw.decode("utf-8", "replace")), _SHOWN_CHARACTERS)
