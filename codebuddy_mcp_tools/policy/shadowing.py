"""Tools and servers that could be taken for others: what `doctor` reports.

Policy: reported, never decided by. Names are compared by how they look (`skeleton.loose`), because that is how a
model and a person read them; a description that names another server's tool is how one server steers calls of another
(tool shadowing).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from codebuddy_mcp_tools.policy.names import PREFIX, visible_name
from codebuddy_mcp_tools.policy.skeleton import loose
from codebuddy_mcp_tools.policy.text import show
from codebuddy_mcp_tools.types import JSON, Diagnostic, ToolInfo

_TOKEN = re.compile(r"[\w.-]{3,128}")
_DISTINCT = re.compile(r"[a-z0-9][_.-][a-z0-9]|[a-z][A-Z]", re.ASCII)
_MOST_TEXT = 64 * 1024
_DEEPEST = 16


def report_shadowing(
    tools: Iterable[ToolInfo], *, servers: Iterable[str] = (), core_tools: Iterable[str] = ()
) -> list[Diagnostic]:
    """One line for each server or tool that could be taken for another one.

    Args:
        tools: all known tools.
        servers: names of all configured servers, also those without tools.
        core_tools: names of the tools that are not MCP tools.
    """
    known = list({(tool.server, tool.name): tool for tool in tools}.values())
    names = list(dict.fromkeys([*servers, *(tool.server for tool in known)]))
    return [*_same_servers(names), *_posing(known, names, tuple(core_tools)), *_alike(known), *_mentions(known)]


def _same_servers(servers: Sequence[str]) -> Iterator[Diagnostic]:
    groups: dict[str, list[str]] = defaultdict(list)
    for server in servers:
        groups[loose(server)].append(server)
    for group in groups.values():
        if len(group) > 1:
            listed = ", ".join(show(name) for name in group)
            yield _warning(group[0], f"the servers {listed} look the same to rules and to readers: rename all but one")


def _posing(tools: Sequence[ToolInfo], servers: Sequence[str], core_tools: Sequence[str]) -> Iterator[Diagnostic]:
    """Tools that carry the name of a core tool, or begin with the name of another server."""
    core = {loose(name): name for name in core_tools}
    by_looks = {loose(server): server for server in servers}
    for tool in tools:
        name = loose(tool.name)
        if name in core:
            yield _about(tool, f"has the name of the core tool {show(core[name])}")
        claimed = name.removeprefix(PREFIX).partition("__")[0] if "__" in name else ""
        if name.startswith(PREFIX):
            yield _about(tool, "has a name that begins with mcp__, as if it were another server's tool")
        elif claimed in by_looks and by_looks[claimed] != tool.server:
            yield _about(tool, f"has a name that begins with the server {show(by_looks[claimed])}")


def _alike(tools: Sequence[ToolInfo]) -> Iterator[Diagnostic]:
    """Tools of different servers whose names look the same; with the same spelling only a note, for that is common."""
    groups: dict[str, list[ToolInfo]] = defaultdict(list)
    for tool in tools:
        groups[loose(tool.name)].append(tool)
    for group in groups.values():
        if len(group) < 2:
            continue
        listed = ", ".join(f"{show(tool.server)}.{show(tool.name)}" for tool in group)
        spelled_alike = len({tool.name for tool in group}) == 1
        if spelled_alike:
            yield Diagnostic("note", f"several servers have a tool of this name: {listed}", server=group[0].server)
        else:
            yield _warning(group[0].server, f"these tools look the same and are spelled differently: {listed}")


def _mentions(tools: Sequence[ToolInfo]) -> Iterator[Diagnostic]:
    owners: dict[str, set[str]] = defaultdict(set)
    for tool in tools:
        owners[visible_name(tool.server, tool.name)].add(tool.server)
        owners[f"{tool.server}.{tool.name}"].add(tool.server)
        if _DISTINCT.search(tool.name):  # "search" in a sentence is a word, "create_issue" is a tool
            owners[tool.name].add(tool.server)
    for tool in tools:
        foreign = [
            token
            for token in dict.fromkeys(_TOKEN.findall(words_of(tool)))
            if (found := owners.get(token.strip(".-"))) and tool.server not in found
        ]
        if foreign:
            listed = ", ".join(show(token) for token in foreign[:3])
            yield _about(tool, f"speaks of other servers' tools in its description: {listed}")


def words_of(tool: ToolInfo) -> str:
    """Everything of a definition that a model reads, schema texts included."""
    texts = [tool.description, tool.title or "", *_texts(tool.input_schema), *_texts(tool.output_schema or {})]
    return "\n".join(texts)[:_MOST_TEXT]


def _texts(value: JSON, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, depth + 1)


def _about(tool: ToolInfo, what: str) -> Diagnostic:
    return _warning(tool.server, f"the tool {show(tool.name)} of server {show(tool.server)} {what}")


def _warning(server: str, message: str) -> Diagnostic:
    return Diagnostic("warning", message, server=server)
