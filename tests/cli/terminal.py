"""A program in a real (pseudo) terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path

TIMEOUT = 60
NOT_OURS = ("NO_COLOR", "FORCE_COLOR", "CI", "COLUMNS", "PYTEST_CURRENT_TEST")
IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal the one that Ctrl-C comes from, then becomes the program."""


def run(
    *args: str,
    cwd: Path,
    answers: Mapping[str, str | Callable[[], object]] | None = None,
    env: Mapping[str, str] | None = None,
    columns: int = 100,
) -> tuple[int, str]:
    """Run `codebuddy-mcp` in a terminal: exit code, and all it printed.

    `answers` says what to type, or to do, when a text appears.
    """
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    process = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, sys.executable, "-m", "codebuddy_mcp_tools", *args],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=cwd,
        env={**environ, "TERM": "xterm-256color", **(env or {})},
        start_new_session=True,
    )
    os.close(child)
    try:
        return _talk(process, parent, dict(answers or {}))
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def _talk(
    process: subprocess.Popen[bytes], parent: int, answers: dict[str, str | Callable[[], object]]
) -> tuple[int, str]:
    seen = ""
    while True:
        if not select.select([parent], [], [], TIMEOUT)[0]:
            raise TimeoutError(f"nothing more was printed after: {seen}")
        try:
            data = os.read(parent, 65536)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            return process.wait(TIMEOUT), seen
        seen += data.decode(errors="replace")
        for text in [text for text in answers if text in seen]:
            answer = answers.pop(text)
            if isinstance(answer, str):
                os.write(parent, answer.encode())
            else:
                answer()
