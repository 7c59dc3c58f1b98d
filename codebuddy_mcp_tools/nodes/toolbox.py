"""What a call is about: which tool it reaches, whether it only reads, whether a person must be asked.

Shared by the tool node and the middleware, so that both decide alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.nodes.approval import Decision, Question, answered
from codebuddy_mcp_tools.nodes.schedule import Planned
from codebuddy_mcp_tools.policy import clean_line
from codebuddy_mcp_tools.tools.definitions import definition
from codebuddy_mcp_tools.tools.tokens import squashed
from codebuddy_mcp_tools.tools.tool import MCPTool

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

_MAX_NAME = 100
_DISCOVERY = {squashed(name): name for name in ("ToolSearch", "describe_tool")}


@dataclass(frozen=True, slots=True)
class Found:
    """What a call reaches."""

    tool: BaseTool | None
    """What is run; `None` when no tool has this name."""
    target: MCPTool | None = None
    """The MCP tool behind it, also through `execute_tool`."""

    @property
    def read_only(self) -> bool:
        """Whether it may run beside other reads: an explicit hint, or a core tool marked so."""
        tool = self.target or self.tool
        return tool is not None and (tool.metadata or {}).get("readOnly") is True


class Toolbox:
    """The tools that the calls of one turn can reach.

    Args:
        provider: whose tools.
        own: tools of the graph itself and core tools, by name; they come before the provider's.
        activated: visible names that a search has activated; `None` when the graph keeps no account of it, and so
            must have bound its tools itself.
        context_window: tokens of the model's window, which decides what is deferred under `auto`.
        modifiers: `Defer`/`NoDefer` of the run.
        exact: take names of the provider's tools only as they are bound, where not all of the graph's own are known.
    """

    def __init__(
        self,
        provider: ToolProvider,
        own: Mapping[str, BaseTool],
        *,
        activated: Collection[str] | None,
        context_window: int | None = None,
        modifiers: Sequence[str] = (),
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self._catalog = provider.catalog
        self._own = own
        self._activated = None if activated is None else frozenset(activated)
        self._scope: dict[str, Any] = {"context_window": context_window, "modifiers": modifiers}

    def find(self, call: Mapping[str, Any]) -> Found:
        """The tool that a call names, by any spelling that means one tool only."""
        own = self._own.get(call["name"])
        if own is not None:
            reached = self._catalog.target(call)
            return Found(own, own if isinstance(own, MCPTool) else None if reached is None else reached[0])
        tool = self._catalog.get(call["name"])
        if tool is None and not self._exact:
            tool = self._catalog.resolve(call["name"]).tool
        return Found(self._discovery(call["name"]) if tool is None else tool, tool)

    def _discovery(self, name: str) -> BaseTool | None:
        """ToolSearch or describe_tool under another spelling, such as `tool_search`: they lead to all others.

        Not execute_tool: what a call of that is about is told by its name.
        """
        meant = _DISCOVERY.get(squashed(name[:_MAX_NAME]))
        return None if meant is None else self._own.get(meant)

    def knows(self, calls: Sequence[Mapping[str, Any]]) -> bool:
        """Whether every call names a tool that is loaded."""
        return all(self.find(call).tool is not None for call in calls)

    def plan(self, message: AIMessage, positions: Sequence[int], review: Mapping[int, Decision]) -> list[Planned]:
        """The calls at these positions, as they would run: an edited call counts as what it was edited to."""
        planned: list[Planned] = []
        for at in positions:
            call = identified(message.tool_calls[at])
            planned.append(Planned(at, call, self.find(edited(call, review.get(at))).read_only))
        return planned

    def sent(self, message: AIMessage, review: Mapping[int, Decision]) -> dict[int, Mapping[str, Any]]:
        """The arguments that reach the tools: as a person edited them, and without the shell of `execute_tool`."""
        calls = [edited(call, review.get(at)) for at, call in enumerate(message.tool_calls)]
        reached = [self._catalog.target(call) for call in calls]
        return {
            at: call["args"] if target is None else target[1]
            for at, (call, target) in enumerate(zip(calls, reached, strict=True))
        }

    def questions(
        self, planned: Sequence[Planned], review: Mapping[int, Decision], allowed: Collection[str]
    ) -> list[Question]:
        """The calls that a rule wants asked about and nobody has answered for.

        Args:
            review: what has been answered about this turn, by position.
            allowed: visible names of tools that were allowed for the session.
        """
        found = (self.question(call, review, allowed) for call in planned)
        return [question for question in found if question is not None]

    def question(self, planned: Planned, review: Mapping[int, Decision], allowed: Collection[str]) -> Question | None:
        """What must be asked about one call, if anything."""
        target = self.find(planned.call).target
        if target is None or planned.position in review or target.name in allowed:
            return None
        if self.is_asleep(planned.call, target):
            return None
        decision = target.decision()
        return Question(planned, target, decision.reason) if decision.effect == "ask" else None

    # -- tools that are not loaded -------------------------------------------------------------------------------

    def is_asleep(self, call: Mapping[str, Any], target: MCPTool) -> bool:
        """Whether this is a direct call of a deferred tool that no search has activated."""
        if self._activated is None or target.name in self._activated or call["name"] in self._own:
            return False
        return target.name in self._deferred

    @cached_property
    def _deferred(self) -> frozenset[str]:
        if self._catalog.call_style == "execute" or self._catalog.tool_search == "provider":
            return frozenset()  # what the provider has found for its model was never activated here
        return frozenset(tool.name for tool in self._catalog.deferred(**self._scope))

    def waking(self, planned: Planned, target: MCPTool) -> ToolMessage:
        """The answer to a direct call of a deferred tool: its schema, so that the model can call again."""
        text = f"{target.name} was not loaded yet, so this call did not run. It is loaded now; call it again:"
        return answered(planned, f"{text}\n{definition(target)}", target)

    def unknown(self, planned: Planned, name: str) -> ToolMessage:
        """The answer to a call of a tool that does not exist, with what comes near."""
        searchable = self._activated is not None and self._catalog.is_searched(**self._scope)
        line = self._catalog.unknown(clean_line(name, _MAX_NAME), self._catalog.resolve(name), searchable=searchable)
        return answered(planned, f"Error: {line}", None)


def identified(call: ToolCall) -> ToolCall:
    """The call with an id that is a text: tools cannot answer one without."""
    return (
        call if call["id"] is not None and call.get("type") else {**call, "id": call["id"] or "", "type": "tool_call"}
    )


def edited(call: ToolCall, decision: Decision | None) -> ToolCall:
    """The call as a person changed it; the same call when nobody did."""
    if decision is None or decision["type"] != "edit":
        return call
    return {**call, "name": decision["name"], "args": decision["args"]}
