"""The walk that brings a whole schema into the subset of `schema_subset`, within a budget.

References are written out where they are used, because LangChain does so anyway on every `bind_tools`, without a
bound: 1.8 KB of nested references become 3 MB. Here every node and every character counts against a budget, so that
work and result are bounded whatever the server sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.schema_alternatives import (
    MAX_BRANCHES,
    flat_branches,
    merge_alternatives,
    one_enum,
    required_names,
)
from codebuddy_mcp_tools.tools.schema_flatten import Flat, flatten
from codebuddy_mcp_tools.tools.schema_refs import References
from codebuddy_mcp_tools.tools.schema_subset import (
    describe,
    enum_nodes,
    fitting,
    is_plain_pattern,
    is_sendable,
    item_node,
    sample,
    scalar_limits,
    title_of,
    types_of,
    unreadable,
)
from codebuddy_mcp_tools.types import JSON

Node = dict[str, Any]


class OverBudget(Exception):  # noqa: N818 - control flow between the two functions of this room, never seen outside
    """The schema does not fit at this depth; the caller tries again with less."""


@dataclass(slots=True)
class Budget:
    """What one attempt may spend.

    Attributes:
        depth: levels of nesting written out; deeper ones keep type and description only.
        nodes: nodes of the result.
        chars: characters of the result, roughly as JSON.
        description: characters of one description below the arguments themselves.
        lenient: when spent, leave out what is left instead of raising `OverBudget`.
    """

    depth: int
    nodes: int
    chars: int
    description: int
    lenient: bool = False

    def spend(self, chars: int) -> bool:
        """Takes one node of about so many characters; `False` when nothing is left and that is tolerated."""
        self.nodes -= 1
        self.chars -= chars
        if self.nodes >= 0 and self.chars >= 0:
            return True
        if not self.lenient:
            raise OverBudget
        return False


class Rewriter:
    """Rewrites the nodes of one document.

    Attributes:
        pruned: nodes that are shown without their inner structure, because of depth or budget.
        unresolved: references that lead nowhere inside the document.
    """

    def __init__(self, references: References, budget: Budget) -> None:
        self._references = references
        self._budget = budget
        self.pruned = 0
        self.unresolved: list[str] = []

    def has_room(self, chars: int) -> bool:
        """Whether one more argument fits; takes the characters of its name."""
        return self._budget.spend(chars + 4)

    def fold(self, schema: JSON, open_references: frozenset[str] = frozenset()) -> Flat:
        """The node's own keywords, with references and `allOf` folded in; empty when the budget is spent."""
        if not self._budget.spend(8):
            self.pruned += 1
            return Flat()
        flat = flatten(schema, self._references, open_references)
        self.unresolved.extend(flat.unresolved)
        return flat

    def node(self, schema: JSON, depth: int, open_references: frozenset[str]) -> Node:
        """One schema in the subset; `{}` stands for "anything"."""
        if schema is True or not (schema is False or isinstance(schema, Mapping)):
            return {}
        if schema is not False and schema.keys() <= _LEAF and schema.get("type") in _SCALARS:
            return self._leaf(schema, depth)
        flat = self.fold(schema, open_references)
        if flat.refused:
            return {"not": {}}
        inside = open_references | flat.references if flat.references else open_references
        node = self._folded(flat, depth, inside)
        return self._annotate(node, flat, depth)

    def _leaf(self, schema: Mapping[str, JSON], depth: int) -> Node:
        """The quick way for what most arguments are: a type and a description."""
        text = describe(schema.get("description") or title_of(schema), limit=self._description_limit(depth))
        node: Node = {"type": schema["type"]}
        if text:
            node["description"] = text
        default = schema.get("default")
        if "default" in schema and (default is None or isinstance(default, bool) or sample(default)):
            node["default"] = default
        if not self._budget.spend(40 + len(text)):
            self.pruned += 1
            return {"type": schema["type"]}
        return node

    def _description_limit(self, depth: int) -> int:
        """Arguments themselves keep more of their description than what is inside them."""
        return self._budget.description if depth > 1 else max(self._budget.description, 500)

    def _folded(self, flat: Flat, depth: int, inside: frozenset[str]) -> Node:
        keywords = flat.keywords
        if flat.unions and isinstance(keywords.get("properties"), Mapping):
            flat = merge_alternatives(flat, self.fold, inside)
            keywords = flat.keywords
        elif flat.unions and not self._is_bottom(depth):
            return self._union(flat, depth, inside)
        return self.plain(keywords, depth, inside)

    def plain(self, keywords: Mapping[str, JSON], depth: int, inside: frozenset[str]) -> Node:
        """A node without unions: one type, or a union of its types."""
        kinds = types_of(keywords)
        values = keywords.get("enum") if isinstance(keywords.get("enum"), list) else None
        if values is None and "const" in keywords:
            values = [keywords["const"]]
        if values:
            branches = enum_nodes(fitting(values, kinds))
        elif kinds:
            branches = [self._typed(kind, keywords, depth, inside) for kind in kinds]
        else:
            return {}
        for branch in branches:
            self._budget.spend(30 + sum(map(len, branch.get("enum", ()))) + len(branch.get("description", "")))
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def _typed(self, kind: str, keywords: Mapping[str, JSON], depth: int, inside: frozenset[str]) -> Node:
        if kind == "string" and "pattern" in keywords:
            self._budget.spend(_PATTERN_COST)
        node: Node = {"type": kind, **scalar_limits(keywords, kind)}
        if kind == "array":
            self._add_items(node, keywords, depth, inside)
        elif kind == "object":
            self._add_properties(node, keywords, depth, inside)
        return node

    def _is_bottom(self, depth: int) -> bool:
        return depth >= self._budget.depth

    def _add_items(self, node: Node, keywords: Mapping[str, JSON], depth: int, inside: frozenset[str]) -> None:
        node["items"] = {}
        items = keywords.get("items")
        tuple_form = keywords.get("prefixItems") if not isinstance(items, list) else items
        if keywords.get("uniqueItems") is True:
            node["uniqueItems"] = True
        if items is False and not tuple_form:
            node["maxItems"] = 0
        elif self._is_bottom(depth):
            self.pruned += bool(items or tuple_form)
        elif isinstance(tuple_form, list) and tuple_form:
            rest = keywords.get("additionalItems") if isinstance(items, list) else items
            members = [*tuple_form[:20], *([rest] if isinstance(rest, Mapping) and rest else [])]
            node["items"] = item_node(self.node({"anyOf": members}, depth + 1, inside))
        elif isinstance(items, Mapping):
            node["items"] = item_node(self.node(items, depth + 1, inside))

    def _add_properties(self, node: Node, keywords: Mapping[str, JSON], depth: int, inside: frozenset[str]) -> None:
        properties = keywords.get("properties")
        named = properties if isinstance(properties, Mapping) else {}
        required = required_names(keywords)
        if self._is_bottom(depth):
            self._name_keys(node, named)
            return
        shown: Node = {}
        for name in [*named, *(name for name in required if name not in named)]:
            if is_nested_name(name) and named.get(name) is not False:
                shown[name] = self.node(named.get(name, True), depth + 1, inside)
        if shown:
            node["properties"] = shown
        if kept := [name for name in required if name in shown]:
            node["required"] = kept
        self._add_further(node, keywords, complete=len(shown) >= len(named), depth=depth, inside=inside)

    def _name_keys(self, node: Node, named: Mapping[str, JSON]) -> None:
        """At the bottom only the names are left."""
        if named:
            self.pruned += 1
            keys = ", ".join(clean_line(name, 40) for name in list(named)[:20] if isinstance(name, str))
            node["description"] = f"Keys: {keys}{', …' if len(named) > 20 else ''}."

    def _add_further(
        self, node: Node, keywords: Mapping[str, JSON], *, complete: bool, depth: int, inside: frozenset[str]
    ) -> None:
        further = keywords.get("additionalProperties")
        patterns = keywords.get("patternProperties")
        if isinstance(patterns, Mapping) and patterns:
            usable = {key: value for key, value in list(patterns.items())[:20] if _is_pattern_name(key)}
            complete = complete and len(usable) == len(patterns)
            node["patternProperties"] = {key: self.node(value, depth + 1, inside) for key, value in usable.items()}
        if further is False and complete:
            node["additionalProperties"] = False
        elif isinstance(further, Mapping) and further and complete:
            node["additionalProperties"] = self.node(further, depth + 1, inside)

    def _union(self, flat: Flat, depth: int, inside: frozenset[str]) -> Node:
        """One flat `anyOf`; what stands beside the union is copied into each branch."""
        beside = {key: value for key, value in flat.keywords.items() if key not in _ANNOTATIONS}
        branches: list[Node] = []
        for branch in flat.unions[0][:MAX_BRANCHES]:
            whole = {"allOf": [branch, beside]} if beside else branch
            for node in flat_branches(self.node(whole, depth + 1, inside)):
                if node not in branches and node != {"not": {}}:
                    branches.append(node)
        branches = one_enum(branches)
        if not branches:
            return {}
        node = branches[0] if len(branches) == 1 else {"anyOf": branches}
        if len(flat.unions[0]) > MAX_BRANCHES:
            node = {"anyOf": branches, "description": f"Or one of {len(flat.unions[0]) - MAX_BRANCHES} further forms."}
        return node

    def _annotate(self, node: Node, flat: Flat, depth: int) -> Node:
        keywords = flat.keywords
        facts = node.pop("description", None)
        remarks = [facts, self._recursion(flat, node), unreadable(keywords, node)]
        limit = self._description_limit(depth)
        text = describe(keywords.get("description") or title_of(keywords), *remarks, limit=limit)
        if text:
            node["description"] = text
        if "default" in keywords and sample(keywords["default"]):
            node["default"] = keywords["default"]
        examples = keywords.get("examples")
        if isinstance(examples, list) and examples and self._budget.description >= 500 and sample(examples):
            node["examples"] = examples
        if not self._budget.spend(10 + len(text)):
            self.pruned += 1
            return {"type": node["type"]} | ({"items": {}} if node["type"] == "array" else {}) if "type" in node else {}
        return node

    def _recursion(self, flat: Flat, node: Node) -> str | None:
        if flat.recursive is None:
            return None
        self.pruned += 1
        kinds = types_of(self.fold(self._references.resolve(flat.recursive), frozenset({flat.recursive})).keywords)
        if len(kinds) == 1 and "type" not in node and "anyOf" not in node:
            node |= {"type": kinds[0]} | ({"items": {}} if kinds[0] == "array" else {})
        name = clean_line(flat.recursive.rsplit("/", 1)[-1].lstrip("#"), 60)
        return f"Same shape as the enclosing {name}." if name else "Same shape as the whole."


_PATTERN_COST = 150
"""Characters that a pattern counts for: compiling one takes as long as walking many nodes."""
_LEAF = frozenset({"type", "description", "title", "default"})
_SCALARS = ("string", "number", "integer", "boolean", "null")
_ANNOTATIONS = frozenset(
    {"description", "title", "default", "examples", "$schema", "$id", "$comment", "discriminator", "deprecated"}
)


def _is_pattern_name(key: JSON) -> bool:
    return is_nested_name(key) and is_plain_pattern(key)


def is_nested_name(name: JSON) -> bool:
    """Whether a property can be shown by its name. LangChain takes one called `$ref` for a reference."""
    return isinstance(name, str) and name != "$ref" and len(name) <= 200 and is_sendable(name)
