"""How a run of an agent is shown: each step of the graph as it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

MAX_LINES = 8
"""Lines of one result that are shown."""


class Transcript:
    """Writes a conversation to a console. What models and servers wrote is printed as plain text, never as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def asked(self, question: str) -> None:
        """The user's question."""
        self._block("user", "bold", question)

    def update(self, update: Mapping[str, Any]) -> None:
        """One item of a graph's stream in the mode `updates`."""
        for change in update.values():
            messages = change.get("messages", ()) if isinstance(change, Mapping) else ()
            self._messages(messages if isinstance(messages, Sequence) else [messages])

    def _messages(self, messages: Sequence[BaseMessage]) -> None:
        results = [message for message in messages if isinstance(message, ToolMessage)]
        for message in messages:
            if isinstance(message, AIMessage):
                self._said(message)
            elif isinstance(message, HumanMessage):
                self._block("gate", "bold magenta", str(message.text))
        if len(results) > 1:
            self._line("tools", "bold green", f"{len(results)} calls ran together")
        for result in results:
            self._result(result)

    def _said(self, message: AIMessage) -> None:
        if message.text:
            self._block("model", "bold cyan", str(message.text))
        for call in message.tool_calls:
            self._line("model", "bold cyan", f"{call['name']}({json.dumps(call['args'], ensure_ascii=False)})")

    def _result(self, message: ToolMessage) -> None:
        style = "bold green" if message.status == "success" else "bold red"
        self._line("tool" if message.status == "success" else "error", style, str(message.name))
        lines = str(message.text).splitlines()
        shown = lines[:MAX_LINES] + ([f"… {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else [])
        self._console.print(Padding(Text("\n".join(shown), style="dim"), (0, 0, 0, 8), expand=False))

    def _block(self, who: str, style: str, text: str) -> None:
        first, *rest = text.splitlines() or [""]
        self._line(who, style, first)
        if rest:
            self._console.print(Padding(Text("\n".join(rest)), (0, 0, 0, 8), expand=False))

    def _line(self, who: str, style: str, text: str) -> None:
        self._console.print(Text.assemble((f"{who:<8}", style), text), soft_wrap=True)
