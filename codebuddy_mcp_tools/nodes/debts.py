"""Verification debts: writes that nothing has read back (SideCar page, "Mutation discipline").

A successful write, and a write whose outcome is unknown, is a debt of its server; a later successful read-only call
to the same server pays all of that server's debts. Failed writes owe nothing, failed reads pay nothing, and only
the order of the calls counts. This is about mistakes, not about malice: the read-back comes from the same server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from codebuddy_mcp_tools.nodes.schedule import last_ai_message
from codebuddy_mcp_tools.nodes.state import Write, merge_writes
from codebuddy_mcp_tools.types import Effect, Outcome

MAX_ARGUMENT_CHARS = 200
_OWED = {Outcome.OK.value, Outcome.UNKNOWN.value}


def settle(
    owed: Sequence[Write],
    messages: Sequence[AnyMessage],
    results: Sequence[ToolMessage],
    redact: Callable[[str], str] = str,
) -> dict[str, list[Any]]:
    """What a batch of results changes.

    Args:
        owed: the debts before it.
        messages: the conversation, for the arguments of the calls.
        results: the results in the order of the calls.
        redact: takes known secrets out of a text.

    Returns:
        An update for the state's `unverified_writes`.
    """
    now = list(owed)
    for result in results:
        facts = result.artifact if isinstance(result.artifact, Mapping) else {}
        server, outcome = facts.get("server"), facts.get("outcome")
        if not isinstance(server, str):
            continue
        if facts.get("effect") == Effect.READ.value and outcome == Outcome.OK.value:
            now = [write for write in now if write["server"] != server]
        elif facts.get("effect") == Effect.WRITE.value and outcome in _OWED:
            now.append(_write(result, facts, messages, redact))
    kept = {write["id"] for write in now}
    known = {write["id"] for write in owed}
    return {
        "add": [write for write in now if write["id"] not in known],
        "clear": [write["id"] for write in owed if write["id"] not in kept],
    }


def settled(owed: Sequence[Write], messages: Sequence[AnyMessage], results: Sequence[ToolMessage]) -> list[Write]:
    """The debts after a batch."""
    return merge_writes(owed, settle(owed, messages, results))


def _write(
    result: ToolMessage, facts: Mapping[str, Any], messages: Sequence[AnyMessage], redact: Callable[[str], str]
) -> Write:
    return {
        "id": result.tool_call_id,
        "server": str(facts["server"]),
        "tool": str(facts.get("tool", "")),
        "name": str(result.name or ""),
        "arguments": redact(_short_arguments(messages, result.tool_call_id))[:MAX_ARGUMENT_CHARS],
        "outcome": str(facts["outcome"]),
    }


def _short_arguments(messages: Sequence[AnyMessage], call_id: str) -> str:
    message = last_ai_message(messages)
    calls = message.tool_calls if message is not None else []
    arguments = next((call["args"] for call in calls if call["id"] == call_id), {})
    return json.dumps(arguments, ensure_ascii=False, default=str)


def reprompt(owed: Sequence[Write], read_back: Callable[[str], str | None]) -> str:
    """What the model is told when it wants to finish with debts (SideCar page: read back, compare, report).

    Args:
        owed: the debts.
        read_back: names, for a server, read tools that must be searched for first; `None` when there are none.
    """
    lines = [f"- {w['name']} {w['arguments']}{_doubt(w)}" for w in owed]
    hints = [hint for server in dict.fromkeys(w["server"] for w in owed) if (hint := read_back(server)) is not None]
    return "\n".join(
        [
            "You are about to finish, but these writes have not been verified:",
            *lines,
            "1. Read each resource back with a read-only tool of the same server.",
            "2. Compare every field you set with what is stored now.",
            "3. If anything differs, report it and leave the resource as a draft or unpublished; claim no success.",
            *hints,
        ]
    )


def _doubt(write: Write) -> str:
    return " (outcome unknown: it may or may not have happened)" if write["outcome"] == Outcome.UNKNOWN.value else ""
