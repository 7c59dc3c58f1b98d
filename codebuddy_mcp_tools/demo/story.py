"""What the scripted model does in the demonstration: it reads on two servers, writes, and is sent back to check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from codebuddy_mcp_tools.demo.scripted import Calls, ScriptedChatModel

QUESTION = "Which tasks are open, and does the README already settle one of them? Bring the list up to date."
README_TASK = 1
"""The number of the sample task about the README."""


def scripted_model() -> ScriptedChatModel:
    """The model of the demonstration."""
    return ScriptedChatModel(turns=[_look, _change, "I have brought the list up to date.", _read_back, _report])


def _look(_messages: list[BaseMessage]) -> Calls:
    return [
        ("mcp__tasks__list_tasks", {"status": "open"}),
        ("mcp__files__search_text", {"text": "pip install", "pattern": "README*"}),
        ("mcp__files__list_files", {"pattern": "README*"}),
    ]


def _change(messages: list[BaseMessage]) -> Calls:
    add = ("mcp__tasks__add_task", {"title": "Let a newcomer try the README", "notes": "Watch, and say nothing."})
    if not _hits(messages):
        return [add]
    return [("mcp__tasks__complete_task", {"task_id": README_TASK}), add]


def _read_back(_messages: list[BaseMessage]) -> Calls:
    return [("mcp__tasks__list_tasks", {"status": "all"})]


def _report(messages: list[BaseMessage]) -> str:
    tasks = _structured(messages, "mcp__tasks__list_tasks")
    lines = [f"  [{'x' if task['done'] else ' '}] {task['title']}" for task in tasks]
    hits = _hits(messages)
    reason = (
        f"{hits[0]['path']}, line {hits[0]['line']}, tells how to install" if hits else "no README tells how to install"
    )
    return "\n".join([f"Checked against the server: {reason}. The list is now:", *lines])


def _hits(messages: list[BaseMessage]) -> Sequence[Any]:
    return _structured(messages, "mcp__files__search_text")


def _structured(messages: list[BaseMessage], tool: str) -> Sequence[Any]:
    """The list that the last successful call of a tool gave, empty when there was none."""
    for message in reversed(messages):
        if isinstance(message, ToolMessage) and message.name == tool and message.status == "success":
            artifact = message.artifact or {}
            result: Sequence[Any] = (artifact.get("structured_content") or {}).get("result") or []
            return result
    return []
