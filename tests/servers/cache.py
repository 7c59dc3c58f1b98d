"""Where servers that are not part of this package are installed for the tests: outside of the repository, once.

`MCP_TOOLS_TEST_CACHE` names another folder. Under `CI` a server that cannot be installed is a failure,
elsewhere a skip.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from filelock import FileLock

# Read at import: tests get a home of their own later on.
ROOT = Path(os.environ.get("MCP_TOOLS_TEST_CACHE") or Path.home() / ".cache" / "codebuddy-mcp-tools-tests")


def in_ci() -> bool:
    """Whether an absent server is an error."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def give_up(reason: str) -> None:
    """Skip the test; in CI fail it."""
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def install(name: str, build: Callable[[Path], Sequence[Sequence[str]]]) -> Path:
    """The folder `name` of the cache, filled by the commands that `build` gives for it unless it is complete already.

    Raises:
        OSError: a command does not exist.
        subprocess.CalledProcessError: a command failed; its output is printed.
    """
    folder = ROOT / name
    complete = folder / ".complete"
    if complete.exists():
        return folder
    ROOT.mkdir(parents=True, exist_ok=True)
    with FileLock(ROOT / f"{name}.lock"):
        if not complete.exists():
            folder.mkdir(exist_ok=True)
            for command in build(folder):
                subprocess.run(command, check=True, cwd=folder, stdin=subprocess.DEVNULL, timeout=600)
            complete.touch()
    return folder
