"""Paginated lists, within bounds; and what a list entry means.

Policy: all pages, in the server's order. A cursor that comes back, too many pages or entries end the walk: what came so
far is kept and a problem line says so. An entry that cannot be used is reported by name and costs only itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import JSON, PromptArgument, PromptInfo, ResourceInfo, ToolInfo

MAX_PAGES = 100
MAX_ENTRIES = 5000
MAX_DEFINITION = 500_000
"""Characters of one tool's definition, roughly."""
MAX_DEPTH = 100

Ask = Callable[[dict[str, Any] | None], Awaitable[JSON]]
"""Fetches one page: parameters to result."""


@dataclass(slots=True)
class Walk:
    """What a walk over all pages found."""

    entries: list[JSON] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def all_pages(ask: Ask, key: str, meta: dict[str, Any] | None = None) -> Walk:
    """Ask for every page of a list.

    Args:
        ask: fetches one page; what it raises ends the walk.
        key: where a page keeps its entries (`"tools"`).
        meta: `_meta` for each request.
    """
    walk = Walk()
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        if meta:
            params["_meta"] = meta
        page = await ask(params or None)
        entries = page.get(key) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            walk.problems.append(f"a page of the list of {key} holds no list of {key}")
            return walk
        walk.entries += entries[: MAX_ENTRIES - len(walk.entries)]
        cursor = page.get("nextCursor")
        if len(walk.entries) >= MAX_ENTRIES and (cursor or len(entries) > MAX_ENTRIES):
            walk.problems.append(f"more than {MAX_ENTRIES} {key}: the rest is left out")
            return walk
        if not isinstance(cursor, str) or not cursor:
            return walk
        if cursor in seen:
            walk.problems.append(f"the list of {key} goes round in circles (a page names an earlier one as its next)")
            return walk
        seen.add(cursor)
    walk.problems.append(f"more than {MAX_PAGES} pages of {key}: the rest is left out")
    return walk


def read_tools(server: str, walk: Walk) -> tuple[list[ToolInfo], list[str]]:
    """The usable tools of a walk, and one line for each that is not."""
    tools: dict[str, ToolInfo] = {}
    problems = list(walk.problems)
    for number, entry in enumerate(walk.entries, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str) or not name.strip():
            problems.append(f"entry {number} of the tool list has no name and is left out")
        elif name in tools:
            problems.append(f"tool {shown(name)} is listed twice: the first one counts")
        elif (reason := _unusable(entry)) is not None:
            problems.append(f"tool {shown(name)} is left out: {reason}")
        else:
            tools[name] = _tool(server, name, entry)
    return list(tools.values()), problems


def _unusable(entry: dict[str, Any]) -> str | None:
    schema = entry.get("inputSchema")
    if schema is None:
        return "it has no inputSchema"
    if not isinstance(schema, dict):
        return "its inputSchema is no JSON object"
    return _too_large(entry)


def _too_large(entry: dict[str, Any]) -> str | None:
    budget = MAX_DEFINITION
    level: list[Any] = [entry]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                budget -= sum(map(len, value))
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                budget -= len(value)
            budget -= 4
        if budget < 0:
            return f"its definition is larger than {MAX_DEFINITION} characters"
        if not below:
            return None
        level = below
    return f"its definition is nested more than {MAX_DEPTH} levels deep"


def _tool(server: str, name: str, entry: dict[str, Any]) -> ToolInfo:
    return ToolInfo(
        server=server,
        name=name,
        description=_text(entry.get("description")),
        title=_text_or_none(entry.get("title")),
        input_schema=entry["inputSchema"],
        output_schema=entry["outputSchema"] if isinstance(entry.get("outputSchema"), dict) else None,
        annotations=_object(entry.get("annotations")),
        meta=_object(entry.get("_meta")),
        definition=entry,
    )


def read_resources(server: str, entries: list[JSON], *, templates: bool) -> tuple[ResourceInfo, ...]:
    """The usable resources or resource templates of a list."""
    key = "uriTemplate" if templates else "uri"
    usable = [e for e in entries if isinstance(e, dict) and isinstance(e.get(key), str)]
    return tuple(
        ResourceInfo(
            server=server,
            uri=entry[key],
            name=_text(entry.get("name")) or entry[key],
            title=_text_or_none(entry.get("title")),
            description=_text(entry.get("description")),
            mime_type=_text_or_none(entry.get("mimeType")),
            size=entry["size"] if type(entry.get("size")) is int else None,
            is_template=templates,
        )
        for entry in usable
    )


def read_prompts(server: str, entries: list[JSON]) -> tuple[PromptInfo, ...]:
    """The usable prompts of a list."""
    return tuple(
        PromptInfo(
            server=server,
            name=entry["name"],
            title=_text_or_none(entry.get("title")),
            description=_text(entry.get("description")),
            arguments=_arguments(entry.get("arguments")),
        )
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]
    )


def _arguments(value: JSON) -> tuple[PromptArgument, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(
        PromptArgument(entry["name"], _text(entry.get("description")), entry.get("required") is True)
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    )


def shown(name: str) -> str:
    """A server's name for something, quoted for a line of text."""
    return repr(clean_line(name, 80))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _text_or_none(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: JSON) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
