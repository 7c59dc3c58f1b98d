"""Catalogues without servers: tools that are never called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools import StdioServer, ToolCatalog
from codebuddy_mcp_tools.policy import ExposureRules, NameTable
from codebuddy_mcp_tools.tools.call import CallPath
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.tools.toolset import describe
from codebuddy_mcp_tools.types import Admission, ClientState, Scope, ServerStatus, ToolInfo

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
NO_PATH = cast("CallPath", None)
"""These tools are looked at, not called."""


def tools_of(servers: Mapping[str, Sequence[str | ToolInfo]], **config: Any) -> list[MCPTool]:
    """Tools by server, from their names or their whole definitions."""
    infos = [
        ToolInfo(server, tool, f"{tool.replace('_', ' ')}.", None, NOTHING) if isinstance(tool, str) else tool
        for server, tools in servers.items()
        for tool in tools
    ]
    names = NameTable([(info.server, info.name) for info in infos], ())
    settings = StdioServer(command="never", **config)
    return [
        MCPTool.wrap(
            info,
            server_config=settings,
            path=NO_PATH,
            name=names.visible(info.server, info.name),
            description=describe(info),
            args_schema=dict(info.input_schema),
            metadata={"serverName": info.server, "toolName": info.name},
        )
        for info in infos
    ]


def catalog_of(
    servers: Mapping[str, Sequence[str | ToolInfo]], *, exposure: str = "deferred", **options: Any
) -> ToolCatalog:
    """A catalogue of these tools."""
    catalog = ToolCatalog(rules=ExposureRules(exposure), **options)
    catalog.update(tools_of(servers))
    return catalog


def tool_named(catalog: ToolCatalog, name: str) -> BaseTool:
    """ToolSearch, describe_tool or execute_tool."""
    return next(tool for tool in catalog.tools() if tool.name == name)


def server(name: str, **fields: Any) -> ServerStatus:
    """A status; of a server that is connected, unless said otherwise."""
    known = {"admission": Admission.ADMITTED, "state": ClientState.CONNECTED, "tools_total": 1}
    return ServerStatus(name, Scope.USER, **{**known, **fields})
