"""Fifteen servers of everyday work, 353 tools: the lists of a person who has connected everything.

Each file of `tool_lists` is a server: a line about it, a request in a user's words with the call that settles it
(`> words => tool arguments`), and a tool a line: `kind name(argument: type, optional?: type) description`, where the
kind is what the server says of it: `r` it reads, `w` it writes, `d` it destroys, `-` nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.testing import FaultServer

FOLDER = Path(__file__).with_name("tool_lists")
OVER_HTTP, OVER_SSE = ("crm", "maps", "wiki"), ("billing", "home")
KINDS: dict[str, dict[str, bool] | None] = {
    "r": {"readOnlyHint": True},
    "w": {"readOnlyHint": False, "destructiveHint": False},
    "d": {"readOnlyHint": False, "destructiveHint": True},
    "-": None,
}
TYPES: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "date": {"type": "string", "format": "date"},
    "int": {"type": "integer"},
    "num": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array", "items": {}},
    "obj": {"type": ["object", "array"]},
}
TOOL = re.compile(r"^([rwd-]) (\w+)\((.*?)\) (.+)$")
REQUEST = re.compile(r"^> (.+) => (\w+) (\{.*\})$")


@dataclass(frozen=True)
class Request:
    """What a user wants of a server, and the call that does it."""

    server: str
    words: str
    tool: str
    arguments: Mapping[str, Any]
    reads: bool

    @property
    def visible_name(self) -> str:
        return f"mcp__{self.server}__{self.tool}"


@dataclass(frozen=True)
class ToolList:
    """One file."""

    server: str
    about: str
    request: Request
    tools: list[dict[str, Any]]


def tool_lists() -> list[ToolList]:
    """All lists, by the name of the server."""
    return [_read(path) for path in sorted(FOLDER.glob("*.txt"))]


@contextmanager
def running(lists: list[ToolList]) -> Iterator[tuple[dict[str, FaultServer], dict[str, Any]]]:
    """A server for each list, which answers every call with its arguments; and `mcpServers` entries for them."""
    servers, entries = {}, {}
    with ExitStack() as stack:
        for each in lists:
            calls = {tool["name"]: [{"echo": True}] for tool in each.tools}
            script = {"name": each.server, "instructions": each.about, "tools": each.tools, "calls": calls}
            server = servers[each.server] = stack.enter_context(FaultServer(script))
            if each.server in OVER_HTTP:
                entries[each.server] = {"type": "http", "url": stack.enter_context(server.http())}
            elif each.server in OVER_SSE:
                entries[each.server] = {"type": "sse", "url": stack.enter_context(server.sse())}
            else:
                entries[each.server] = server.stdio_config()
        yield servers, entries


def _read(path: Path) -> ToolList:
    about, wanted, _, *lines = path.read_text("utf-8").splitlines()
    tools = [_tool(line) for line in lines]
    match = REQUEST.match(wanted)
    assert match is not None, wanted
    words, name, arguments = match.groups()
    (hints,) = [tool.get("annotations", {}) for tool in tools if tool["name"] == name]
    reads = hints.get("readOnlyHint", False)
    return ToolList(path.stem, about, Request(path.stem, words, name, json.loads(arguments), reads), tools)


def _tool(line: str) -> dict[str, Any]:
    match = TOOL.match(line)
    assert match is not None, line
    kind, name, arguments, description = match.groups()
    pairs = [argument.split(": ") for argument in arguments.split(", ") if argument]
    properties = {key.removesuffix("?"): TYPES.get(kind) or {"enum": kind.split("|")} for key, kind in pairs}
    required = [key for key, _ in pairs if not key.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": required}
    tool = {"name": name, "description": description, "inputSchema": schema}
    hints = KINDS[kind]
    return tool if hints is None else {**tool, "annotations": hints}
