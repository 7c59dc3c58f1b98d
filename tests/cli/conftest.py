"""A command line in an empty workspace and an empty home."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from codebuddy_mcp_tools.cli.app import build


class CommandLine:
    """Runs commands, and looks at what they left in files."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.home = home
        self.workspace = workspace
        has_mix = "mix_stderr" in inspect.signature(CliRunner).parameters  # Click before 8.2
        self._runner = CliRunner(mix_stderr=False) if has_mix else CliRunner()

    def run(self, *args: str, code: int | None = 0, stdin: str | None = None) -> Any:
        result = self._runner.invoke(build(), list(args), input=stdin, prog_name="codebuddy-mcp")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code in (None, result.exit_code), result.output + result.stderr
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self.run(*args, "--json", code=code).stdout)

    def path(self, name: str) -> Path:
        return self.home / name[2:] if name.startswith("~/") else self.workspace / name

    def read(self, name: str) -> Any:
        return json.loads(self.path(name).read_text())

    def write(self, name: str, value: Any) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def user(self, name: str) -> Any:
        return self.read("~/.codebuddy/.mcp.json")["mcpServers"][name]

    def project(self, name: str) -> Any:
        return self.read(".mcp.json")["mcpServers"][name]

    def local(self, name: str) -> Any:
        return self.read("~/.codebuddy.json")["projects"][str(self.workspace)]["mcpServers"][name]


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A command sets up the log of its process, which here is everybody's."""
    logger = logging.getLogger("codebuddy_mcp_tools")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def cli(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return CommandLine(home, workspace)
