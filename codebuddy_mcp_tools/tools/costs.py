"""What the tools of a catalogue cost in a model's context, by one documented estimate: characters / 4, or a counter."""

from __future__ import annotations

from dataclasses import dataclass

from codebuddy_mcp_tools.types import Exposure


@dataclass(frozen=True, slots=True)
class ToolCost:
    """Estimated tokens of one tool."""

    name: str
    server: str
    exposure: Exposure
    full: int
    stub: int

    @property
    def shown(self) -> int:
        """Tokens it takes at its exposure."""
        return {Exposure.FULL: self.full, Exposure.STUB: self.stub, Exposure.DEFERRED: 0}[self.exposure]


@dataclass(frozen=True, slots=True)
class CatalogCost:
    """Estimated tokens of all tools at one context window."""

    tools: tuple[ToolCost, ...]
    discovery: int = 0
    """Tokens of ToolSearch, describe_tool and execute_tool, where they are bound."""

    @property
    def full(self) -> int:
        """Tokens if every schema were bound."""
        return sum(tool.full for tool in self.tools)

    @property
    def stub(self) -> int:
        """Tokens if every tool were a stub."""
        return sum(tool.stub for tool in self.tools)

    @property
    def shown(self) -> int:
        """Tokens of the servers' tools that are bound at the start of a run; `discovery` comes on top."""
        return sum(tool.shown for tool in self.tools)

    @property
    def servers(self) -> dict[str, tuple[int, int, int]]:
        """Server to `(full, stub, shown)`."""
        table: dict[str, tuple[int, int, int]] = {}
        for tool in self.tools:
            full, short, shown = table.get(tool.server, (0, 0, 0))
            table[tool.server] = (full + tool.full, short + tool.stub, shown + tool.shown)
        return table
