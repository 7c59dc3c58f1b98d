"""The tools a model finds other tools with: ToolSearch, describe_tool, and execute_tool in the fixed-prompt mode.

Policy: what they show of a definition is a server's words, in an envelope. ToolSearch activates what it finds, in the
graph's state, by a `Command`; outside a graph it only answers. describe_tool activates nothing. In the fixed-prompt
mode nothing in them depends on which servers or tools there are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from codebuddy_mcp_tools.policy import clean_line
from codebuddy_mcp_tools.tools.callid import KnowsItsCall, call_id, state_key
from codebuddy_mcp_tools.tools.discovery_input import (
    DEFAULT_RESULTS,
    MAX_RESULTS,
    described_name,
    execute_arguments,
    search_arguments,
)
from codebuddy_mcp_tools.tools.finding import read_query
from codebuddy_mcp_tools.tools.forms import mark
from codebuddy_mcp_tools.tools.search_answer import absent_servers, is_answered, is_coming, search_answer

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.catalog import ToolCatalog
    from codebuddy_mcp_tools.tools.finding import SearchHit
    from codebuddy_mcp_tools.tools.tool import MCPTool

MAX_CATALOGUE_CHARS = 20_000
_MAX_ANSWERED_CHARS = 4_000
WAIT_SECONDS = 5.0
_METADATA = {"readOnly": True, "effect": "read", "discovery": True}
_TEXT = {"type": "string"}

Arguments = Mapping[str, Any]


def discovery_tools(catalog: ToolCatalog, deferred: Sequence[MCPTool]) -> list[BaseTool]:
    """The tools for one binding; `deferred` are those that ToolSearch's description lists."""
    if catalog.call_style == "execute":
        about = "Find tools for execute_tool; an empty query lists the servers."
        return [_tool_search(catalog, about, ""), _describe_tool(catalog), _execute_tool(catalog)]
    about = "Find tools that are not loaded yet and load them for the next turn."
    return [_tool_search(catalog, about, catalogue(deferred)), _describe_tool(catalog)]


class _Discovery(KnowsItsCall, StructuredTool):
    """A discovery tool. `func` and `coroutine` take all arguments as one mapping: a model may use any name for them."""

    def _run(self, /, **arguments):  # type: ignore[no-untyped-def,override]  # noqa: ANN003, ANN202
        return self.func(arguments) if self.func is not None else None

    async def _arun(self, /, **arguments):  # type: ignore[no-untyped-def,override]  # noqa: ANN003, ANN202
        return await self.coroutine(arguments) if self.coroutine is not None else None


def _make(name: str, description: str, properties: dict[str, Any], required: list[str], **functions: Any) -> BaseTool:
    schema = {"type": "object", "properties": properties, "required": required}
    tool = _Discovery(
        name=name, description=description, args_schema=schema, metadata=_METADATA.copy(),
        handle_tool_error=True, **functions,
    )  # fmt: skip
    mark(tool, deferred=False)
    return tool


# -- ToolSearch --------------------------------------------------------------------------------------------------


def _tool_search(catalog: ToolCatalog, about: str, listing: str) -> BaseTool:
    async def asearch(arguments: Arguments) -> Any:
        query, limit = search_arguments(arguments)
        wanted = read_query(query)
        if wanted.is_empty:
            return _without_query(catalog)
        # In threads: what comes near fifty misspelt names among thousands takes a while.
        if not await asyncio.to_thread(is_answered, catalog, query):
            await _wait(catalog)
        if wanted.names is not None:
            return await asyncio.to_thread(search, arguments)
        return await asyncio.to_thread(_answer, catalog, query, await catalog.asearch(query, limit))

    def search(arguments: Arguments) -> Any:
        query, limit = search_arguments(arguments)
        if read_query(query).is_empty:
            return _without_query(catalog)
        return _answer(catalog, query, catalog.search(query, limit))

    syntax = (
        "query: `select:NAME,NAME` finds exactly these; `+word` must occur in a server's or tool's name; other words "
        "are ranked."
    )
    description = f"{about} {syntax}\n{listing}".rstrip()
    properties = {
        "query": {**_TEXT, "description": "what the tool should do, or select:NAME"},
        "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": DEFAULT_RESULTS},
    }
    return _make("ToolSearch", description, properties, ["query"], func=search, coroutine=asearch)


def catalogue(tools: Sequence[MCPTool], limit: int = MAX_CATALOGUE_CHARS) -> str:
    """The names of tools by server, at most `limit` characters; beyond that a line per server with its count."""
    if not tools:
        return "Every tool is loaded already."
    servers: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        servers[tool.info.server].append(tool.name)
    lines = [f"{server}: {', '.join(names)}" for server, names in servers.items()]
    if sum(map(len, lines)) + len(lines) > limit:
        lines = [f"{server}: {len(names)} tools" for server, names in servers.items()]
    return "Tools to be found:\n" + "\n".join(lines)[:limit]


def _without_query(catalog: ToolCatalog) -> str:
    listing = catalogue(catalog.deferred(), _MAX_ANSWERED_CHARS) if len(catalog) else "There are no tools."
    return "\n".join([f"Say in `query` what the tool should do. {listing}", *absent_servers(catalog)])


async def _wait(catalog: ToolCatalog) -> None:
    if catalog.wait_loading is not None and any(map(is_coming, catalog.server_states())):
        await catalog.wait_loading(WAIT_SECONDS)


def _answer(catalog: ToolCatalog, query: str, hits: Sequence[SearchHit]) -> Any:
    text = search_answer(catalog, query, hits)
    running, key = call_id.get(), state_key.get()
    if running is None:
        return text
    names = [hit.name for hit in hits]
    message = ToolMessage(text, name="ToolSearch", tool_call_id=running, artifact={"found": names, "effect": "read"})
    if key is None or not names:
        return message
    from langgraph.types import Command  # noqa: PLC0415 - only inside a graph

    return Command(update={"activated_tools": names, key: [message]})


# -- describe_tool -----------------------------------------------------------------------------------------------


def _describe_tool(catalog: ToolCatalog) -> BaseTool:
    def describe(arguments: Arguments) -> str:
        name = clean_line(described_name(arguments), 200)
        return catalog.describe(name) if name else "Say in `name` which tool."

    async def adescribe(arguments: Arguments) -> str:
        return describe(arguments)

    properties = {"name": {**_TEXT, "description": "the tool's name"}}
    description = "Show a tool's description and the JSON schema of its arguments. Loads nothing."
    return _make("describe_tool", description, properties, ["name"], func=describe, coroutine=adescribe)


# -- execute_tool ------------------------------------------------------------------------------------------------


def _execute_tool(catalog: ToolCatalog) -> BaseTool:
    def target(arguments: Arguments) -> tuple[BaseTool, dict[str, Any]]:
        name, inner = execute_arguments(arguments)
        if not name:
            raise ToolException("Error: say in `name` which tool to call")
        found = catalog.resolve(name)
        tool = found.tool or next((reader for reader in catalog.readers if reader.name == name), None)
        if tool is None:
            raise ToolException(f"Error: {catalog.unknown(clean_line(name, 100), found, searchable=True)}")
        if inner is None:
            raise ToolException(f"Error: `arguments` for {tool.name} must be an object; nothing was called")
        return tool, {"name": tool.name, "args": inner, "id": call_id.get() or "", "type": "tool_call"}

    async def aexecute(arguments: Arguments) -> Any:
        tool, call = target(arguments)
        return await tool.ainvoke(call, ensure_config())

    def execute(arguments: Arguments) -> Any:
        tool, call = target(arguments)
        return tool.invoke(call, ensure_config())

    properties = {
        "name": {**_TEXT, "description": "the tool's name, as ToolSearch gives it"},
        "arguments": {"type": "object", "properties": {}, "additionalProperties": True},
    }
    description = "Call a tool that ToolSearch found, with arguments that fit its schema (see describe_tool)."
    return _make("execute_tool", description, properties, ["name"], func=execute, coroutine=aexecute)
