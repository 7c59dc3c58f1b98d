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
"""Stands for the server's instructions where a tool's name stands."""
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
    sha256: str = ""
    """The hash of the definition now, so that exactly what somebody saw is what they accept; empty when removed."""


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

    def waiting(self, server: str) -> PinReport:
        """What the last `check` reported and nobody has accepted, also by another process. Touches no server."""
        store = self._store(server)
        data = store.read()
        accepted, waiting = _table(data, "accepted"), _table(data, "waiting")
        now = {name: pin for name, pin in {**accepted, **waiting}.items() if pin is not None}
        return PinReport(server, tuple(_changes(accepted, now)), problem=store.problem)

    def accept(self, server: str, changes: Collection[PinChange] | None = None) -> tuple[str, ...]:
        """Takes the definitions that the last `check` reported as the accepted ones, also in another process.

        Args:
            server: the server.
            changes: what somebody saw; of a definition that has changed again since, nothing is accepted. `None`:
                all that waits.

        Returns:
            What was accepted, by name.

        Raises:
            ConfigError: the store cannot be written.
        """
        seen = None if changes is None else {(change.tool, change.sha256) for change in changes}
        done: list[str] = []

        def edit(data: dict[str, Any]) -> None:
            accepted, waiting = _table(data, "accepted"), _table(data, "waiting")
            for name, pin in list(waiting.items()):
                if seen is not None and (name, _hash(pin) if pin else "") not in seen:
                    continue
                del waiting[name]
                accepted.pop(name, None)
                if pin:
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
    definitions: dict[str, Mapping[str, JSON]] = {}
    for tool in tools:
        if tool.name not in definitions:  # a name listed twice: the first is the one that counts everywhere
            definitions[tool.name] = tool.definition or _definition(tool)
    if instructions:
        namesake = definitions.get(INSTRUCTIONS)  # a tool of that name must not go unwatched
        whole = {"instructions": instructions}
        definitions[INSTRUCTIONS] = whole if namesake is None else {**whole, "tool": namesake}
    return {name: _pin(definition) for name, definition in definitions.items()}


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
            changes.append(PinChange(name, "new", describe_difference(None, pin.get("definition")), _hash(pin)))
        elif _hash(before) != _hash(pin) or not _hash(pin):
            diff = describe_difference(before.get("definition"), pin.get("definition"))
            changes.append(PinChange(name, "changed", diff, _hash(pin)))
    removed = [name for name in accepted if name not in now]
    return [*changes, *(PinChange(name, "removed", "- no longer listed") for name in removed)]


def _hash(pin: Pin) -> str:
    return str(pin.get("sha256", ""))


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A table of pins (`None`: a tool that is gone); what is neither is left out, as if nobody had accepted it."""
    value = data.get(key)
    items = value.items() if isinstance(value, dict) else ()
    return {name: pin for name, pin in items if pin is None or isinstance(pin, dict)}
