"""The script: what the fault server offers and how it misbehaves, checked before anything starts.

A *plan* is a list of steps (the same every time) or a list of lists of steps (the n-th list for the n-th time, over all
processes that run the script; the last one repeats).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codebuddy_mcp_tools.testing.errors import ScriptError

Step = Mapping[str, Any]
Plan = Sequence[Any]

CONTENT = ("text", "echo", "counter", "pid", "client_answer")
"""These may stand together in one step: one text block each, in this order."""
HTTP_ONLY = ("status", "redirect", "drop", "sse", "sse_cut", "end", "forget_sessions")
KINDS = (
    *CONTENT, "result", "error", "raw", "sleep", "wait_file", "touch", "hang", "exit", "kill", "notify", "progress",
    "request", "stderr", "ledger", "tools", "close_stdin", "close_stdout", "stop_reading", "spawn", "ignore_eof",
    "ignore_sigterm", *HTTP_ONLY,
)  # fmt: skip
MODIFIERS = ("id", "is_error", "repeat", "stream", "wait", "timeout", "code", "headers", "body", "structured")
BLOCKING = ("sleep", "wait_file", "request")
"""A call with one of these runs in a thread of its own, so that the server goes on reading."""
KEYS = (
    "name", "version", "instructions", "protocol_version", "capabilities", "tools", "pages", "init", "calls",
    "on_start", "on", "paths", "http",
)  # fmt: skip


class Script(NamedTuple):
    """A checked script; `codebuddy_mcp_tools.testing` tells what each key and step means.

    No dataclass: those take 14 ms to import, a third of a server's start.
    """

    name: str = "fault"
    version: str = "1"
    instructions: str | None = None
    protocol_version: str | None = None
    capabilities: Mapping[str, Any] | None = None
    pages: Sequence[Sequence[Mapping[str, Any]]] = ()
    calls: Mapping[str, Plan] = {}
    on_start: Plan = ()
    on: Mapping[str, Plan] = {}
    paths: Mapping[str, Plan] = {}
    http: Mapping[str, Any] = {}

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Script:
        """Check a script.

        Raises:
            ScriptError: a key or a step is unknown, or a plan is not a list.
        """
        if unknown := set(raw) - set(KEYS):
            raise ScriptError(f"script: unknown key {sorted(unknown)[0]!r}; known: {', '.join(KEYS)}")
        values = {key: value for key, value in raw.items() if key not in ("tools", "init")}
        if "pages" not in values:
            values["pages"] = [raw.get("tools", [])]
        if "init" in raw:
            values["on"] = {"initialize": raw["init"], **values.get("on", {})}
        script = cls(**values)
        _check_plan("on_start", script.on_start)
        for key in ("calls", "on", "paths"):
            for name, plan in getattr(script, key).items():
                _check_plan(f"{key}.{name}", plan)
        return script

    @classmethod
    def load(cls, path: str) -> Script:
        """Read a script file (JSON). Raises `ScriptError` when it cannot be read or is not a script."""
        try:
            raw = json.loads(_read(path))
        except (OSError, ValueError) as error:
            raise ScriptError(f"{path}: {error}") from error
        if not isinstance(raw, dict):
            raise ScriptError(f"{path}: a script is one JSON object")
        return cls.parse(raw)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def nth(plan: Plan, number: int) -> Sequence[Step]:
    """The steps of a plan for the `number`-th time, counted from 1."""
    if not plan or isinstance(plan[0], Mapping):
        return plan
    steps: Sequence[Step] = plan[min(number, len(plan)) - 1]
    return steps


def kind_of(step: Step) -> str:
    """What a step does: its one key that is not a modifier (the first, for content)."""
    return next(key for key in KINDS if key in step)


def _check_plan(where: str, plan: Plan) -> None:
    if not isinstance(plan, Sequence) or isinstance(plan, str):
        raise ScriptError(f"{where}: a plan is a list of steps, or a list of lists of steps")
    groups = [plan] if not plan or isinstance(plan[0], Mapping) else plan
    for number, steps in enumerate(groups, 1):
        for position, step in enumerate(steps, 1):
            _check_step(f"{where}, time {number}, step {position}", step)


def _check_step(where: str, step: Any) -> None:
    if not isinstance(step, Mapping):
        raise ScriptError(f"{where}: a step is an object, not {step!r}")
    if unknown := set(step) - set(KINDS) - set(MODIFIERS):
        raise ScriptError(f"{where}: unknown step {sorted(unknown)[0]!r}; known: {', '.join(KINDS)}")
    kinds = [key for key in KINDS if key in step]
    if not kinds or (len(kinds) > 1 and not set(kinds) <= set(CONTENT)):
        raise ScriptError(f"{where}: one step does one thing, this one does {len(kinds)}: {', '.join(kinds) or '-'}")
