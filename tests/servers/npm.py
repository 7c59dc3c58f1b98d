"""The reference servers from npm, in pinned versions. `python -m tests.servers.npm` installs them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers import cache

VERSION = "2026.8.31"
PACKAGES = tuple(f"@modelcontextprotocol/server-{name}@{VERSION}" for name in ("everything", "filesystem", "memory"))


@dataclass(frozen=True)
class Servers:
    """Where the servers were installed, and how each is started."""

    node: str
    folder: Path

    def _script(self, name: str) -> str:
        return str(self.folder / "node_modules" / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js")

    def config(self, name: str, *arguments: str, **extra: Any) -> dict[str, Any]:
        """A stdio entry for `mcpServers`."""
        return {"command": self.node, "args": [self._script(name), *arguments], **extra}

    def command(self, name: str, *arguments: str) -> list[str]:
        """The command line."""
        return [self.node, self._script(name), *arguments]


def install() -> Servers:
    """Install what is not there yet.

    Raises:
        FileNotFoundError: node or npm is missing.
        subprocess.CalledProcessError: npm failed, for example without a network.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise FileNotFoundError("node and npm are not on PATH")
    quiet = ["--no-audit", "--no-fund", "--no-save", "--loglevel=error"]
    folder = cache.install(f"npm-{VERSION}", lambda here: [[npm, "install", *quiet, f"--prefix={here}", *PACKAGES]])
    return Servers(node, folder)


def installed() -> Servers:
    """The servers; skips the test (fails it in CI) when they cannot be had."""
    try:
        return install()
    except (OSError, subprocess.SubprocessError) as error:
        cache.give_up(f"the MCP servers from npm are not available: {error}")
        raise


if __name__ == "__main__":
    install()
