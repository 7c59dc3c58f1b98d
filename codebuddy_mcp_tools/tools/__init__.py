"""The LangChain face: tools, catalogue and search, prompts, resources, and the provider that puts them together."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.catalog import ToolCatalog
    from codebuddy_mcp_tools.tools.provider import ToolProvider
    from codebuddy_mcp_tools.tools.tool import MCPTool

_HOMES = {"ToolCatalog": "catalog", "ToolProvider": "provider", "MCPTool": "tool"}

__all__ = ["MCPTool", "ToolCatalog", "ToolProvider"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
