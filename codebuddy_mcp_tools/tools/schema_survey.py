"""How much work checking a value against a schema can be, counted without doing it.

Policy: a kilobyte of nested references can stop a process for seconds. The count follows every reference as if it
were written out, remembers what each one costs, and stops at a ceiling: it takes time in proportion to the schema's
own size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codebuddy_mcp_tools.tools.schema_refs import REFERENCE_KEYWORDS, References, subschemas
from codebuddy_mcp_tools.types import JSON

CEILING = 10_000_000
MAX_DEPTH = 120
MAX_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Survey:
    """What a schema costs.

    Attributes:
        nodes: subschemas as written.
        expanded: subschemas with every reference written out once, at most `CEILING`.
        loops: references back to a schema that is still open, counted in the expanded form.
        too_deep: nested deeper than `MAX_DEPTH`, or more than `MAX_NODES`: nothing else is known then.
    """

    nodes: int
    expanded: int
    loops: int
    too_deep: bool = False

    def work(self, values: int, depth: int) -> int:
        """An upper estimate of node visits for a value of so many parts nested so deep, at most `CEILING` squared."""
        factor = min(max(self.loops, 1) ** min(depth, 40), CEILING) if self.loops else 1
        return min(self.expanded * factor, CEILING) * max(values, 1)


_LISTS = {"required": 1, "enum": 10}
"""How many entries of a list count as one node."""


class _Limit(Exception):  # noqa: N818 - ends one walk, never leaves this file
    pass


def survey(schema: JSON) -> Survey:
    """Counts a schema. Never raises."""
    if not isinstance(schema, Mapping):
        return Survey(1, 1, 0)
    walk = _Walk(schema)
    try:
        expanded, loops = walk.cost(schema, 0)
    except _Limit:
        return Survey(walk.nodes, CEILING, 0, too_deep=True)
    return Survey(walk.nodes, expanded, loops)


class _Walk:
    def __init__(self, document: Mapping[str, JSON]) -> None:
        self.nodes = 0
        self._references = References(document)
        self._known: dict[str, tuple[int, int]] = {}
        self._open: set[str] = set()

    def cost(self, schema: JSON, depth: int) -> tuple[int, int]:
        """Nodes and loops below this one, itself included."""
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise _Limit
        if not isinstance(schema, Mapping):
            return 1, 0
        self._count_lists(schema)
        expanded, loops = 1, 0
        for below in _used(schema):
            more, back = self.cost(below, depth + 1)
            expanded, loops = expanded + more, loops + back
        for keyword in REFERENCE_KEYWORDS:
            reference = schema.get(keyword)
            if isinstance(reference, str):
                more, back = self._reference(reference, depth)
                expanded, loops = expanded + more, loops + back
        return min(expanded, CEILING), min(loops, CEILING)

    def _count_lists(self, schema: Mapping[str, JSON]) -> None:
        """Long lists of names and values, and patterns, cost time as well."""
        for keyword, share in _LISTS.items():
            value = schema.get(keyword)
            if isinstance(value, list) and len(value) > share:
                self.nodes += len(value) // share
        pattern = schema.get("pattern")
        self.nodes += 10 + len(pattern) // 10 if isinstance(pattern, str) else 0

    def _reference(self, reference: str, depth: int) -> tuple[int, int]:
        if reference in self._open:
            return 1, 1
        if reference not in self._known:
            self._open.add(reference)
            self._known[reference] = self.cost(self._references.resolve(reference), depth + 1)
            self._open.discard(reference)
        return self._known[reference]


def _used(schema: Mapping[str, JSON]) -> list[JSON]:
    """The subschemas that take part where they stand; definitions count where they are referred to."""
    if "$defs" in schema or "definitions" in schema:
        schema = {keyword: value for keyword, value in schema.items() if keyword not in {"$defs", "definitions"}}
    return list(subschemas(schema))
