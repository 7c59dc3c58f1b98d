"""The official MCP conformance suite, in a pinned version. `python -m tests.conformance.suite` installs it.

It needs Node 22, which the npm package `node` brings. After the installation it needs no network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.servers import cache

VERSION = "0.2.0-alpha.12"
REVISION = "2025-11-25"
PACKAGES = (f"@modelcontextprotocol/conformance@{VERSION}", "node@22")
_QUIET = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
_RESULT = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """One run.

    Attributes:
        exit_code: 0 when every scored scenario passed.
        results: for each scenario, how many of its checks passed and failed.
        output: what the suite printed.
    """

    exit_code: int
    results: dict[str, tuple[int, int]]
    output: str


def install() -> Path:
    """The folder of the suite, installed if it is not there yet.

    Raises:
        FileNotFoundError: npm is missing.
        subprocess.CalledProcessError: npm failed, for example without a network.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not on PATH")
    return cache.install(
        f"conformance-{VERSION}", lambda folder: [[npm, "install", *_QUIET, f"--prefix={folder}", *PACKAGES]]
    )


def run(results: Path) -> Report:
    """Run what revision 2025-11-25 requires of a client, against `tests.conformance.client`.

    Args:
        results: a folder for the suite's own records.

    Raises:
        As `install`.
    """
    modules = install() / "node_modules"
    script = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = modules / "node" / "bin" / ("node.exe" if sys.platform == "win32" else "node")
    client = f"{sys.executable} -m tests.conformance.client"
    # The suite runs its scenarios side by side: on two processors one of them may take a while.
    command = [node, script, "client", "--command", client, "--requirements", REVISION, "--timeout", "120000"]
    done = subprocess.run(
        [*map(str, command), "-o", str(results)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=280,
        check=False,
    )
    found = {name: (int(passed), int(failed)) for name, passed, failed in _RESULT.findall(done.stdout)}
    return Report(done.returncode, found, done.stdout)


if __name__ == "__main__":
    install()
