"""The forms in which a tool is bound: loaded, as a stub, or marked for a provider's own search. Each is made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.tools.definitions import stub
from codebuddy_mcp_tools.tools.tool import MCPTool

MARK = "defer_loading"
"""Key in a tool's `extras` that chat models hand on to their provider."""


class Extras(dict[str, Any]):
    """The `extras` of a tool that is not deferred: `extras["defer_loading"]` is `False`, without being there.

    Chat models send what is there on to their endpoint (langchain-openai for every tool of Chat Completions), and an
    endpoint that does not know the field refuses the whole request.
    """

    def __missing__(self, key: str) -> bool:
        if key == MARK:
            return False
        raise KeyError(key)


def mark(tool: BaseTool, *, deferred: bool) -> None:
    """Say in a tool's `extras` whether it is deferred."""
    tool.extras = _extras(tool, deferred=deferred)


def _extras(tool: BaseTool, *, deferred: bool) -> dict[str, Any]:
    rest: Mapping[str, Any] = {key: value for key, value in (tool.extras or {}).items() if key != MARK}
    return {**rest, MARK: True} if deferred else Extras(rest)


class ToolForms:
    """Twins of tools, kept as long as the tool is. Several threads may ask at the same time."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[MCPTool, dict[str, MCPTool]]] = {}

    def forget(self, name: str) -> None:
        """The tool of this name is gone, or another one."""
        self._made.pop(name, None)

    def stub(self, tool: MCPTool) -> MCPTool:
        """Name, one sentence, an open schema."""
        return self._once(tool, "stub", stub)

    def loaded(self, tool: MCPTool) -> MCPTool:
        """The tool itself, unless it is marked as deferred: a provider without a search refuses that, or hides it."""
        return tool if not is_marked(tool) else self._once(tool, "loaded", lambda t: marked(t, deferred=False))

    def deferred(self, tool: MCPTool) -> MCPTool:
        """The tool marked as deferred: the provider sees it, and its model only when it looks for it."""
        return tool if is_marked(tool) else self._once(tool, "deferred", lambda t: marked(t, deferred=True))

    def _once(self, tool: MCPTool, form: str, make: Callable[[MCPTool], MCPTool]) -> MCPTool:
        source, made = self._made.get(tool.name, (None, {}))
        if source is not tool:
            made = {}
            self._made[tool.name] = (tool, made)
        if form not in made:
            made[form] = make(tool)
        return made[form]


def is_marked(tool: MCPTool) -> bool:
    """Whether a provider is told to defer this tool."""
    return bool((tool.extras or {}).get(MARK))


def marked(tool: MCPTool, *, deferred: bool) -> MCPTool:
    """A twin of the tool with this mark."""
    return tool.model_copy(update={"extras": _extras(tool, deferred=deferred)})
