"""What looking for a tool comes to: by its name, or by words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from codebuddy_mcp_tools.tools.tool import MCPTool


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name came to: a tool, or names that come near."""

    tool: MCPTool | None
    near: tuple[str, ...] = ()
    ambiguous: bool = False
    """`near` are tools that all have this name, not misspellings of it."""


@dataclass(frozen=True)
class SearchHit:
    """One tool that a search found."""

    name: str
    """The visible name."""
    server: str
    tool: MCPTool
    score: float
    """Only good for comparing hits of one search; 100 and more where the query is the tool's name."""
    _explain: Callable[[], Mapping[str, tuple[str, ...]]]

    @cached_property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        """Which words of the query scored in which field; `word (other)` where another word stands for it."""
        return self._explain()


MAX_SELECTED = 50
"""Names that one `select:` may hold; what comes after is not looked at."""


def selected_names(query: str) -> list[str] | None:
    """The names in `select:A,B`, at most `MAX_SELECTED`; `None` for any other query."""
    head, colon, names = query.strip().partition(":")
    if not colon or head.strip().casefold() != "select":
        return None
    return [name.strip() for name in names.split(",", MAX_SELECTED)[:MAX_SELECTED] if name.strip()]
