from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from codebuddy_mcp_tools.demo.run import own_servers, run_demo


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200, force_terminal=False)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_demonstration_reads_writes_and_is_sent_back_to_check(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("# It\n\n    pip install it\n")
    monkeypatch.chdir(tmp_path)
    assert run_demo(model=None, config=None, question=None, console=console) == 0
    text = shown(console)
    order = [
        "server  tasks: 7 tools",
        "mcp__tasks__list_tasks",
        "3 calls ran together",
        '<mcp_response server="tasks" tool="list_tasks" trust="untrusted">',
        'mcp__tasks__complete_task({"task_id": 1})',
        "I have brought the list up to date.",
        "gate",
        "Checked against the server: README.md, line 3, tells how to install",
        "[x] Write the quick start for the README",
        "[ ] Let a newcomer try the README",
    ]
    positions = [text.find(piece) for piece in order]
    assert -1 not in positions, dict(zip(order, positions, strict=True))
    assert positions == sorted(positions)


def test_without_a_readme_nothing_is_ticked_off(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_demo(model=None, config=None, question=None, console=console) == 0
    assert "[ ] Write the quick start for the README" in shown(console)


def test_a_file_of_servers_is_shown_and_a_model_is_asked_for(console: Console, tmp_path: Path) -> None:
    servers = {**own_servers(tmp_path, tmp_path), "broken": {"command": "no-such-cmd-xyz"}}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    assert run_demo(model=None, config=config, question=None, console=console) == 0
    text = shown(console)
    assert "server  files: 3 tools" in text
    assert "server  broken: command not found: no-such-cmd-xyz" in text
    assert "--model provider:name" in text


@pytest.mark.parametrize("content", [None, "{", '{"servers": {}}', "[]"])
def test_a_file_without_servers_is_refused_by_name(console: Console, tmp_path: Path, content: str | None) -> None:
    config = tmp_path / "servers.json"
    if content is not None:
        config.write_text(content)
    assert run_demo(model=None, config=config, question=None, console=console) == 2
    assert "servers.json" in shown(console)
    assert len(shown(console).splitlines()) == 1


def test_a_question_needs_a_model(console: Console) -> None:
    assert run_demo(model=None, config=None, question="why?", console=console) == 2
    assert "--model" in shown(console)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("openai:gpt-4o", "api_key"),
        ("nobody:x", "nobody"),
        ("mistralai:x", "langchain-mistralai"),
        ("gibberish", "gibberish"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_clear_line(
    console: Console, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert run_demo(model=model, config=None, question=None, console=console) == 2
    assert words in shown(console)
    assert len(shown(console).strip().splitlines()) <= 3


def test_without_langchain_the_extra_is_named(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)
    assert run_demo(model="openai:x", config=None, question=None, console=console) == 2
    assert "codebuddy-mcp-tools[langchain]" in shown(console)
