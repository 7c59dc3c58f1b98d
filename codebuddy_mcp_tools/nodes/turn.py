"""What a turn's calls are about: which tool each one reaches, whether it only reads, whether it must be asked about.

Shared by the tool node and the middleware, so that both decide alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.nodes.approval import Question
from codebuddy_mcp_tools.policy import clean_line
from codebuddy_mcp_tools.tools.definitions import definition
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import Outcome

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider


class Turn:
    """The calls of one turn against the tools of a provider.

    Args:
        provider: whose tools.
        own: tools of the graph itself, by name; they come before the provider's.
        activated: visible names that a search has activated.
    """

    def __init__(self, provider: ToolProvider, own: Mapping[str, BaseTool], activated: Collection[str]) -> None:
        self._provider = provider
        self._own = own
        self._activated = frozenset(activated)

    def reached(self, call: Mapping[str, Any]) -> MCPTool | None:
        """The MCP tool a call reaches, through `execute_tool` as well; `None` for other tools and unknown names."""
        if call["name"] in self._own:
            target = self._provider.catalog.target(call)
            return None if target is None else target[0]
        return self._provider.catalog.resolve(call["name"]).tool

    def is_read_only(self, call: ToolCall) -> bool:
        """Whether the call may run beside other reads: an explicit hint, or a core tool marked so."""
        tool = self.reached(call) or self._own.get(call["name"])
        return tool is not None and (tool.metadata or {}).get("readOnly") is True

    def questions(
        self, calls: Sequence[ToolCall], answered: Collection[str], allowed: Collection[str]
    ) -> list[Question]:
        """The calls that a rule wants asked about and nobody has answered for.

        Args:
            answered: ids of calls that were approved before.
            allowed: visible names of tools that were allowed for the session.
        """
        found: list[Question] = []
        for call in calls:
            tool = self.reached(call)
            if tool is None or call["id"] in answered or tool.name in allowed or self.is_asleep(call["name"], tool):
                continue
            decision = tool.decision()
            if decision.effect == "ask":
                found.append(Question(call, tool, decision.reason))
        return found

    def is_asleep(self, name: str, tool: MCPTool) -> bool:
        """Whether a call by this name is of a deferred tool that no search has activated."""
        if name == "execute_tool" or self._provider.catalog.call_style == "execute" or tool.name in self._activated:
            return False
        return any(tool is deferred for deferred in self._provider.catalog.deferred())

    def waking(self, call: ToolCall, tool: MCPTool) -> ToolMessage:
        """The answer to a direct call of a deferred tool: its schema, so that the model can call again."""
        text = f"{tool.name} was not loaded yet, so this call did not run. It is loaded now; call it again:"
        artifact = {"server": tool.info.server, "tool": tool.info.name, "is_error": True, "duration_ms": 0.0,
                    "effect": str((tool.metadata or {}).get("effect")), "outcome": Outcome.NOT_RUN.value}  # fmt: skip
        return ToolMessage(
            f"{text}\n{definition(tool)}",
            name=call["name"],
            tool_call_id=call["id"] or "",
            status="error",
            artifact=artifact,
        )

    def unknown(self, call: ToolCall) -> ToolMessage:
        """The answer to a call of a tool that does not exist, with what comes near."""
        name = clean_line(call["name"], 100)
        line = self._provider.catalog.unknown(name, self._provider.catalog.resolve(call["name"]))
        return ToolMessage(f"Error: {line}", name=call["name"], tool_call_id=call["id"] or "", status="error")
