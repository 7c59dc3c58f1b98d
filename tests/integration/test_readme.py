"""What the README shows is run: its Python as written, its commands as typed, its tables against the code."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from codebuddy_mcp_tools import Settings
from codebuddy_mcp_tools.cli.app import build
from codebuddy_mcp_tools.config import StdioServer, load_configuration
from codebuddy_mcp_tools.demo.run import own_servers
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)]
PYTHON = [code for language, code in BLOCKS if language == "python"]


def heading_of(code: str) -> str:
    before = README[: README.index(code)]
    return re.findall(r"^#+ (.*)$", before, re.M)[-1].replace(" ", "-").lower()


@pytest.fixture
def workspace(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the two shipped servers, approved by its user, and a model that lists the tasks."""
    model = ScriptedChatModel(turns=[[("mcp__tasks__list_tasks", {"status": "open"})], "Three."])
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda name: model)
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": own_servers(tmp_path, tmp_path)}))
    (home / ".codebuddy").mkdir()
    (home / ".codebuddy" / "settings.json").write_text('{"enableAllProjectMcpServers": true}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", PYTHON, ids=heading_of)
async def test_an_example_runs_as_it_is_written(code: str, workspace: Path) -> None:
    program = compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    names: dict[str, Any] = {"__name__": "readme"}
    waiting = eval(program, names)
    if inspect.iscoroutine(waiting):
        await waiting
    if "state" in names:
        assert names["state"]["messages"][-1].text == "Three."


@pytest.mark.parametrize("code", [code for language, code in BLOCKS if language in ("json", "jsonc")])
def test_configuration_examples_are_read_without_a_complaint(code: str, workspace: Path) -> None:
    is_servers = "mcpServers" in code
    path = workspace / (".mcp.json" if is_servers else "settings.json")
    path.write_text(code)
    environ = {"GITHUB_TOKEN": "x", "SEARCH_TOKEN": "y"}
    source = None if is_servers else path
    configuration = load_configuration(workspace=workspace, settings_source=source, environ=environ)
    assert configuration.diagnostics == ()
    assert configuration.settings.diagnostics == ()


def test_every_setting_stands_in_the_table() -> None:
    table = README[README.index("## Settings") : README.index("## Security")]
    keys = set(re.findall(r"`([a-z][A-Za-z]*)(?:\.[a-z]+)?`", table))
    own = {field.alias or name for name, field in Settings.model_fields.items()} - {"diagnostics", "origins"}
    assert own <= keys


def test_every_key_of_a_server_entry_stands_in_the_table() -> None:
    table = README[README.index("## Servers") : README.index("## Tools")]
    keys = set(re.findall(r"`(?:tools\.<name>\.)?([a-zA-Z_]+)`", table))
    own = {field.alias or name for name, field in StdioServer.model_fields.items()} - {"tools"}
    assert own <= keys


COMMANDS = [
    line.removeprefix("$ ")
    for language, code in BLOCKS
    if language == "console"
    for line in code.splitlines()
    if line.startswith("$ codebuddy-mcp ")
]


def test_the_commands_run_one_after_another_as_they_are_typed(workspace: Path) -> None:
    assert len(COMMANDS) >= 4
    for command in COMMANDS:
        result = CliRunner().invoke(build(), shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_links_lead_to_files_and_headings_that_exist() -> None:
    root = Path(__file__).parents[2]
    headings = {
        re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in re.findall(r"^#+ (.*)$", README, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in headings
        elif "://" not in target:
            assert (root / target).exists(), target
