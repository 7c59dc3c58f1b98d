"""Verification debts: writes that nothing has read back (SideCar page, "Mutation discipline").

A successful write, and a write whose outcome is unknown, is a debt of its server; a later successful read-only call
to the same server pays all of that server's debts. Failed writes owe nothing, failed reads pay nothing, and only
the order of the calls counts. This is about mistakes, not about malice: the read-back comes from the same server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from codebuddy_mcp_tools.config.display import MASK, display_args, is_secret_name
from codebuddy_mcp_tools.nodes.schedule import positioned
from codebuddy_mcp_tools.nodes.state import LedgerEntry, Write, merge_writes
from codebuddy_mcp_tools.types import Effect, Outcome

MAX_ARGUMENT_CHARS = 200
_MAX_DEPTH = 6
_MAX_NAMED = 20
_OWED = {Outcome.OK.value, Outcome.UNKNOWN.value, Outcome.CANCELLED.value}
Redact = Callable[[str], str]


def ledger(
    message: AIMessage,
    results: Mapping[int, ToolMessage],
    *,
    sent: Mapping[int, Mapping[str, Any]] | None = None,
    redact: Redact = str,
) -> list[LedgerEntry]:
    """What the results of a turn's calls mean for the debts, in the order of the calls.

    Args:
        message: the model's message with the calls.
        results: call position to its result.
        sent: the arguments that reached the tool, where they are not those of the message.
        redact: takes known secrets out of a text.

    Returns:
        An update for the state's `unverified_writes`.
    """
    entries: list[LedgerEntry] = []
    for position in sorted(results):
        result = results[position]
        facts = result.artifact if isinstance(result.artifact, Mapping) else {}
        entries += _of_subagent(facts)
        server, effect, outcome = facts.get("server"), facts.get("effect"), facts.get("outcome")
        if not isinstance(server, str):
            continue
        if effect == Effect.READ.value and outcome == Outcome.OK.value:
            entries.append({"event": "read", "server": server})
        elif effect == Effect.WRITE.value and outcome in _OWED:
            arguments = (sent or {}).get(position, message.tool_calls[position]["args"])
            entries.append(_write(f"{message.id or ''}:{position}", result, facts, arguments, redact))
    return entries


def ledger_of_turn(
    messages: Sequence[AnyMessage],
    sent: Mapping[int, Mapping[str, Any]] | None = None,
    redact: Redact = str,
) -> list[LedgerEntry]:
    """What the newest turn of a conversation means for the debts, as far as it has been answered."""
    at = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], AIMessage)), None)
    message = None if at is None else messages[at]
    if at is None or not isinstance(message, AIMessage):
        return []
    results = [m for m in messages[at + 1 :] if isinstance(m, ToolMessage)]
    return ledger(message, positioned(message, results), sent=sent, redact=redact)


def owed_in(messages: Sequence[AnyMessage], redact: Redact = str) -> list[Write]:
    """The debts of a whole conversation, for a state that keeps no list of them."""
    owed: list[Write] = []
    for at, message in enumerate(messages):
        if isinstance(message, AIMessage) and message.tool_calls:
            end = next((i for i in range(at + 1, len(messages)) if isinstance(messages[i], AIMessage)), len(messages))
            owed = merge_writes(owed, ledger_of_turn(messages[at:end], redact=redact))
    return owed


def _of_subagent(facts: Mapping[str, Any]) -> list[LedgerEntry]:
    """The debts that an agent run by a tool has left, where the tool's artifact carries them."""
    left = facts.get("unverified_writes")
    if not isinstance(left, Sequence) or isinstance(left, str):
        return []
    return [entry for entry in left if isinstance(entry, Mapping) and {"id", "server", "outcome"} <= entry.keys()]


def _write(key: str, result: ToolMessage, facts: Mapping[str, Any], arguments: Any, redact: Redact) -> Write:
    return {
        "id": key,
        "call_id": result.tool_call_id,
        "server": str(facts["server"]),
        "tool": str(facts.get("tool", "")),
        "name": str(result.name or ""),
        "arguments": short_arguments(arguments, redact),
        "outcome": str(facts["outcome"]),
    }


def short_arguments(arguments: Any, redact: Redact = str) -> str:
    """Arguments as JSON for people: credentials masked, at most `MAX_ARGUMENT_CHARS` characters."""
    text = redact(json.dumps(_masked(arguments, _MAX_DEPTH), ensure_ascii=False, default=str))
    return text if len(text) <= MAX_ARGUMENT_CHARS else text[: MAX_ARGUMENT_CHARS - 1] + "…"


def _masked(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        if depth == 0:
            return "…"
        return {
            str(key): MASK if is_secret_name(str(key)) and inner is not None else _masked(inner, depth - 1)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(inner, depth - 1) for inner in value[:_MAX_NAMED]] if depth else "…"
    return display_args((value,))[0] if isinstance(value, str) else value


def reprompt(owed: Sequence[Write], read_back: Callable[[str], str | None]) -> str:
    """What the model is told when it wants to finish with debts (SideCar page: read back, compare, report).

    Args:
        owed: the debts.
        read_back: names, for a server, read tools that must be searched for first; `None` when there are none.
    """
    lines = [f"- {w['name'] or w['tool']} {w['arguments']}{_doubt(w)}" for w in owed[:_MAX_NAMED]]
    if len(owed) > _MAX_NAMED:
        lines.append(f"- and {len(owed) - _MAX_NAMED} more")
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
    return "" if write["outcome"] == Outcome.OK.value else " (outcome unknown: it may or may not have happened)"
