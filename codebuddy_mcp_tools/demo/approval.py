"""Asking the person at the console for the calls whose permission rule says `ask`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.types import Command, Interrupt
from rich.console import Console
from rich.text import Text


def ask(console: Console, interrupt: Interrupt) -> Command[Any]:
    """Show each call of LangChain's human-in-the-loop request and resume with the decisions. No answer rejects."""
    requests = interrupt.value.get("action_requests", ())
    return Command(resume={"decisions": [_decision(console, request) for request in requests]})


def _decision(console: Console, request: Mapping[str, Any]) -> dict[str, Any]:
    console.print(Text(str(request.get("description") or request.get("name")), style="yellow"))
    try:
        answer = console.input(f"Run {request.get('name')}? [y/N] ", markup=False)
    except (EOFError, KeyboardInterrupt):
        answer = ""
    if answer.strip().lower() in ("y", "yes"):
        return {"type": "approve"}
    return {"type": "reject", "message": "The user did not approve this call."}
