"""What each server's tools looked like when they were accepted, and what has changed since.

Policy: the first list of a server is taken as it is (the server was just approved); after that the whole definition
of every tool counts — name, title, description, schemas, annotations, everything the server sends — and so do the
server's instructions. A tool that is new or differs in one character is reported with a readable difference until
somebody accepts it; whether it is held back meanwhile is the setting `pinPolicy`. A store that cannot be believed
makes every tool new, never accepted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.differences import describe_difference
from codebuddy_mcp_tools.policy.store import PrivateStore
from codebuddy_mcp_tools.policy.text import show
from codebuddy_mcp_tools.types import JSON, ToolInfo, ToolListing

INSTRUCTIONS = "(instructions)"
"""Stands for the server's instructions where a tool's name stands; no tool name of a pin."""
_LARGEST_KEPT = 64 * 1024
Pin = dict[str, Any]
Kind = Literal["changed", "new", "removed"]


@dataclass(frozen=True, slots=True)
class PinChange:
    """One definition that is not what was accepted."""

    tool: str
    """The server's own name, or `INSTRUCTIONS`."""
    kind: Kind
    diff: str
    """What differs, several short lines, safe for a terminal."""


@dataclass(frozen=True, slots=True)
class PinReport:
    """What a list of tools came to."""

    server: str
    changed: tuple[PinChange, ...] = ()
    """In the order of the list; removed tools last."""
    is_first: bool = False
    """Nothing was pinned before; all of it is now."""
    problem: str | None = None
    """What is wrong with the store, one line."""

    @property
    def held_back(self) -> frozenset[str]:
        """The tools that the policy `block` does not offer: those that are new or changed."""
        return frozenset(change.tool for change in self.changed if change.kind != "removed")

    def text(self) -> str:
        """The report for a terminal; empty when nothing changed."""
        return "\n".join(
            f"{show(self.server)}.{show(change.tool)} is {change.kind}:\n{change.diff}" for change in self.changed
        )


class ToolPins:
    """The accepted definitions of every server of one workspace.

    Args:
        state_dir: the user's own directory.
        workspace: the project's folder, or `None`.
    """

    def __init__(self, state_dir: Path, workspace: Path | None) -> None:
        self._directory = state_dir / "mcp-pins"
        self._place = os.path.realpath(workspace) if workspace else ""

    def check(self, server: str, listing: ToolListing, instructions: str | None) -> PinReport:
        """Compares a list with what was accepted. Never raises: a store that cannot be written is in `problem`."""
        store = self._store(server)
        data = store.read()
        now = _pins(listing.tools, instructions)
        if not data and store.problem is None:
            return PinReport(server, is_first=True, problem=self._save(store, server, {"accepted": now}))
        accepted = _table(data, "accepted")
        changed = tuple(_changes(accepted, now))
        waiting = {change.tool: now.get(change.tool) for change in changed}
        problem = store.problem
        if waiting != _table(data, "waiting") or problem is not None:
            problem = self._save(store, server, {"accepted": accepted, "waiting": waiting}) or problem
        return PinReport(server, changed, problem=problem)

    def accept(self, server: str, tools: Collection[str] | None = None) -> tuple[str, ...]:
        """Takes the definitions that the last `check` reported as the accepted ones, also in another process.

        Args:
            server: the server.
            tools: only these tools (`INSTRUCTIONS` for the instructions); all when `None`.

        Returns:
            What was accepted, by name.

        Raises:
            ConfigError: the store cannot be written.
        """
        done: list[str] = []

        def edit(data: dict[str, Any]) -> None:
            accepted, waiting = _table(data, "accepted"), _table(data, "waiting")
            for name in [name for name in waiting if tools is None or name in tools]:
                pin = waiting.pop(name)
                accepted.pop(name, None)
                if pin is not None:
                    accepted[name] = pin
                done.append(name)
            data.update(accepted=accepted, waiting=waiting)

        store = self._store(server)
        if store.path.exists():
            store.change(edit)
        return tuple(done)

    def forget(self, server: str) -> None:
        """Forgets everything about a server: its next list is a first one."""
        self._store(server).remove()

    def _store(self, server: str) -> PrivateStore:
        raw = json.dumps([self._place, server]).encode("ascii")
        return PrivateStore(self._directory / f"{hashlib.sha256(raw).hexdigest()[:32]}.json")

    def _save(self, store: PrivateStore, server: str, content: Mapping[str, Any]) -> str | None:
        def edit(data: dict[str, Any]) -> None:
            data.update({"version": 1, "server": server, "workspace": self._place, **content})

        try:
            store.change(edit)
        except ConfigError as error:
            return str(error)
        return None


def _pins(tools: Collection[ToolInfo], instructions: str | None) -> dict[str, Pin]:
    pins: dict[str, Pin] = {}
    for tool in tools:
        if tool.name not in pins:  # a name listed twice: the first is the one that counts everywhere
            pins[tool.name] = _pin(tool.definition or _definition(tool))
    if instructions:
        pins[INSTRUCTIONS] = _pin({"instructions": instructions})
    return pins


def _pin(definition: Mapping[str, JSON]) -> Pin:
    try:
        raw = json.dumps(definition, sort_keys=True, separators=(",", ":"), default=str)
    except (RecursionError, TypeError, ValueError):
        return {"sha256": "", "definition": None}  # never equal to anything: such a tool stays new or changed
    kept = json.loads(raw) if len(raw) <= _LARGEST_KEPT else None
    return {"sha256": hashlib.sha256(raw.encode("ascii")).hexdigest(), "definition": kept}


def _definition(tool: ToolInfo) -> dict[str, JSON]:
    """The definition put together again, for a listing that did not keep it."""
    whole = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
        "_meta": tool.meta,
    }
    return {key: value for key, value in whole.items() if value}


def _changes(accepted: Mapping[str, Pin], now: Mapping[str, Pin]) -> list[PinChange]:
    changes = []
    for name, pin in now.items():
        before = accepted.get(name)
        if before is None:
            changes.append(PinChange(name, "new", describe_difference(None, pin["definition"])))
        elif before.get("sha256") != pin["sha256"] or not pin["sha256"]:
            diff = describe_difference(before.get("definition"), pin["definition"])
            changes.append(PinChange(name, "changed", diff))
    removed = [name for name in accepted if name not in now]
    return [*changes, *(PinChange(name, "removed", "- no longer listed") for name in removed)]


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return dict(value) if isinstance(value, dict) else {}
