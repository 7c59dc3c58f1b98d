"""The tools a model finds other tools with: ToolSearch, describe_tool, and execute_tool in the fixed-prompt mode.

Policy: what they show of a definition is a server's words, in an envelope. ToolSearch activates what it finds, in the
graph's state, by a `Command`; outside a graph it only answers. describe_tool activates nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool

from codebuddy_mcp_tools.policy import clean_line
from codebuddy_mcp_tools.tools.callid import KnowsItsCall, call_id
from codebuddy_mcp_tools.tools.definitions import definition
from codebuddy_mcp_tools.tools.finding import selected_names
from codebuddy_mcp_tools.types import Admission, ClientState, ServerStatus

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.catalog import ToolCatalog
    from codebuddy_mcp_tools.tools.finding import SearchHit
    from codebuddy_mcp_tools.tools.tool import MCPTool

MAX_CATALOGUE_CHARS = 20_000
WAIT_SECONDS = 5.0
MAX_RESULTS = 50
_METADATA = {"readOnly": True, "effect": "read", "discovery": True}
_TEXT = {"type": "string"}


def discovery_tools(catalog: ToolCatalog, deferred: Sequence[MCPTool]) -> list[BaseTool]:
    """The tools for one binding; `deferred` are those that ToolSearch's description lists."""
    found: list[BaseTool] = [_tool_search(catalog, deferred), _describe_tool(catalog)]
    return [*found, _execute_tool(catalog)] if catalog.call_style == "execute" else found


class _Discovery(KnowsItsCall, StructuredTool):
    """A discovery tool; its functions may read `call_id`."""


def _make(name: str, description: str, properties: dict[str, Any], required: list[str], **functions: Any) -> BaseTool:
    schema = {"type": "object", "properties": properties, "required": required}
    return _Discovery(
        name=name, description=description, args_schema=schema, metadata=_METADATA.copy(),
        extras={"defer_loading": False}, **functions,
    )  # fmt: skip


# -- ToolSearch --------------------------------------------------------------------------------------------------


def _tool_search(catalog: ToolCatalog, deferred: Sequence[MCPTool]) -> BaseTool:
    async def asearch(query: str = "", max_results: int = 5) -> Any:
        await _wait(catalog)
        return _answer(catalog, str(query), max_results)

    def search(query: str = "", max_results: int = 5) -> Any:
        return _answer(catalog, str(query), max_results)

    description = (
        "Find tools that are not loaded yet and load them for the next turn. query: `select:NAME,NAME` loads exactly "
        "these; `+word` must occur in a server's or tool's name; other words are ranked.\n" + catalogue(deferred)
    )
    properties = {
        "query": {**_TEXT, "description": "what the tool should do, or select:NAME"},
        "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": 5},
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


async def _wait(catalog: ToolCatalog) -> None:
    if catalog.wait_loading is not None and any(map(_is_coming, catalog.server_states())):
        await catalog.wait_loading(WAIT_SECONDS)


def _is_coming(status: ServerStatus) -> bool:
    never_listed = status.tools_total == 0 and status.last_error is None
    return status.admission is Admission.ADMITTED and never_listed and status.state is not ClientState.CONNECTED


def _answer(catalog: ToolCatalog, query: str, max_results: int) -> Any:
    hits = catalog.search(query, max(1, min(int(max_results), MAX_RESULTS)))
    text = _found(catalog, query, hits)
    running = call_id.get()
    if running is None or not hits:
        return text
    from langgraph.types import Command  # noqa: PLC0415 - only inside a graph

    message = ToolMessage(
        text, name="ToolSearch", tool_call_id=running, artifact={"found": [h.name for h in hits], "effect": "read"}
    )
    return Command(update={"activated_tools": [hit.name for hit in hits], "messages": [message]})


def _found(catalog: ToolCatalog, query: str, hits: Sequence[SearchHit]) -> str:
    shown = clean_line(query, 200)
    lines = [definition(hit.tool) for hit in hits]
    if hits:
        lines.insert(0, f"{len(hits)} of {len(catalog)} tools, best first; they can be called now:")
    else:
        lines.append(f"No tool fits {shown!r}. Try other words, or fewer.")
    lines += _missing(catalog, query)
    lines += _absent(catalog.server_states(), nothing_found=not hits)
    return "\n".join(lines)


def _missing(catalog: ToolCatalog, query: str) -> list[str]:
    found = [(name, catalog.resolve(name)) for name in selected_names(query) or ()]
    return [catalog.unknown(clean_line(name, 100), what) for name, what in found if what.tool is None]


def _absent(states: Sequence[ServerStatus], *, nothing_found: bool) -> list[str]:
    coming = [s.name for s in states if _is_coming(s)]
    lines = [f"Still connecting, search again soon: {', '.join(coming)}"] if coming else []
    if nothing_found:
        failed = [s for s in states if s.admission is Admission.ADMITTED and s.message and s.name not in coming]
        lines += [f"Server {s.name} is not available: {clean_line(s.message or '', 200)}" for s in failed]
    return lines


# -- describe_tool -----------------------------------------------------------------------------------------------


def _describe_tool(catalog: ToolCatalog) -> BaseTool:
    async def adescribe(name: str = "") -> str:
        return catalog.describe(str(name))

    def describe(name: str = "") -> str:
        return catalog.describe(str(name))

    properties = {"name": {**_TEXT, "description": "the tool's name"}}
    description = "Show a tool's description and the JSON schema of its arguments. Loads nothing."
    return _make("describe_tool", description, properties, ["name"], func=describe, coroutine=adescribe)


# -- execute_tool ------------------------------------------------------------------------------------------------


def _execute_tool(catalog: ToolCatalog) -> BaseTool:
    def call(name: str, arguments: Any) -> dict[str, Any] | str:
        found = catalog.resolve(str(name))
        if found.tool is None:
            return f"Error: {catalog.unknown(clean_line(str(name), 100), found)}"
        inner = dict(arguments) if isinstance(arguments, dict) else {}
        return {"name": found.tool.name, "args": inner, "id": call_id.get() or "", "type": "tool_call"}

    async def aexecute(name: str = "", arguments: Any = None) -> Any:
        target = call(name, arguments)
        if isinstance(target, str):
            return target
        tool = catalog.get(target["name"])
        return None if tool is None else await tool.ainvoke(target, ensure_config())

    def execute(name: str = "", arguments: Any = None) -> Any:
        target = call(name, arguments)
        if isinstance(target, str):
            return target
        tool = catalog.get(target["name"])
        return None if tool is None else tool.invoke(target, ensure_config())

    properties = {
        "name": {**_TEXT, "description": "the tool's name, as ToolSearch gives it"},
        "arguments": {"type": "object", "properties": {}, "additionalProperties": True},
    }
    description = "Call a tool that ToolSearch found, with arguments that fit its schema (see describe_tool)."
    return _make("execute_tool", description, properties, ["name"], func=execute, coroutine=aexecute)
