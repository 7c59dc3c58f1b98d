"""The program itself: installed, started, completed, without its extra."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest


def run(*args, env=None, **more):
    environ = {**os.environ, **(env or {})}
    return subprocess.run(args, capture_output=True, text=True, timeout=60, env=environ, check=False, **more)


def test_the_module_is_the_program():
    result = run(sys.executable, "-m", "codebuddy_mcp_tools", "--version")
    assert (result.returncode, result.stdout) == (0, f"codebuddy-mcp {version('codebuddy-mcp-tools')}\n")


def test_without_typer_it_is_said_how_to_get_it():
    code = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'typer' else f(n, *a)\n"
    )
    result = run(sys.executable, "-c", code + "from codebuddy_mcp_tools.cli import main; main()")
    assert result.returncode == 1
    assert 'pip install "codebuddy-mcp-tools[cli]"' in result.stderr
    assert "Traceback" not in result.stderr


def test_looking_at_the_configuration_imports_no_langchain(tmp_path):
    code = (
        "import sys\nfrom codebuddy_mcp_tools.cli.app import build\n"
        "try: build()(['list'])\nexcept SystemExit: pass\n"
        "slow = {'langchain', 'langchain_core', 'langgraph', 'langchain_mcp_adapters', 'mcp'} & sys.modules.keys()\n"
        "assert not slow, slow"
    )
    result = run(sys.executable, "-c", code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_help_lists_every_command_and_the_exit_codes():
    text = run(sys.executable, "-m", "codebuddy_mcp_tools", "--help", env={"COLUMNS": "200"}).stdout
    for command in ("add", "add-json", "list", "get", "remove", "approve", "reset-approvals", "status", "tools",
                    "describe", "search", "call", "doctor", "demo", "login", "logout", "clean"):  # fmt: skip
        assert f" {command} " in text
    assert "3 somebody has to approve something first" in " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [("codebuddy-mcp re", "remove"), ("codebuddy-mcp add --sc", "--scope"), ("codebuddy-mcp mcp l", "list")],
)
def test_the_shell_can_complete_commands_and_options(words, expected):
    env = {
        "_CODEBUDDY_MCP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    assert expected in run(sys.executable, "-m", "codebuddy_mcp_tools", env=env).stdout.split()


def test_a_reader_that_stops_reading_is_no_traceback(tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    script = f"{sys.executable} -m codebuddy_mcp_tools list | true"
    result = run("bash", "-c", script, cwd=tmp_path)
    assert "Traceback" not in result.stderr


def test_a_terminal_that_knows_ascii_only_gets_no_traceback(tmp_path):
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"名前": {"command": "x"}}}', encoding="utf-8")
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = run(sys.executable, "-m", "codebuddy_mcp_tools", "list", cwd=tmp_path, env=env)
    assert (result.returncode, result.stderr.count("Traceback")) == (0, 0)
    assert "\tproject\tstdio\t" in result.stdout
