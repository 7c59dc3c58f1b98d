"""Python servers that cannot live beside this package (they need mcp 2), each in an environment of its own.

`python -m tests.servers.own_environment` makes the environments ahead of the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers import cache

PINS = {"mcp-server-time": "2026.10.19"}


def python_of(package: str) -> Path:
    """The interpreter of the package's environment.

    Raises:
        subprocess.CalledProcessError: the environment could not be made, for example without a network.
    """
    version = PINS[package]

    def build(folder: Path) -> list[list[str]]:
        pip = [str(_python(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return [[sys.executable, "-m", "venv", str(folder)], [*pip, f"{package}=={version}"]]

    return _python(cache.install(f"{package}-{version}-py{sys.version_info[0]}{sys.version_info[1]}", build))


def config(package: str, module: str, *arguments: str) -> dict[str, Any]:
    """A stdio entry for `mcpServers`; skips the test (fails it in CI) when the package cannot be had."""
    try:
        return {"command": str(python_of(package)), "args": ["-m", module, *arguments]}
    except (OSError, subprocess.SubprocessError) as error:
        cache.give_up(f"{package} is not available: {error}")
        raise


def _python(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


if __name__ == "__main__":
    for name in PINS:
        python_of(name)
