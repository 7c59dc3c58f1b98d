"""One schema node with its references and its `allOf` folded in, so that the rest of the room sees plain keywords.

Policy: the result may accept more than the original, never less on purpose: it tells a model what to send, and the call
is checked against the original. Where two parts contradict each other, the first one stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codebuddy_mcp_tools.tools.schema_refs import REFERENCE_KEYWORDS, References
from codebuddy_mcp_tools.types import JSON

_MAX_PARTS = 200
"""Parts folded into one node: `allOf` lists and reference chains of real schemas have fewer than ten."""


class Flat:
    """A node as plain keywords.

    Attributes:
        keywords: no `$ref` and no `allOf` in it; `unions` is where `anyOf` and `oneOf` went.
        unions: lists of branches; an instance matches one branch of each.
        references: the references that were followed, for noticing recursion.
        unresolved: references that lead nowhere.
        recursive: the reference, already open further up, at which folding stopped.
        refused: a part of it is `false`: nothing matches.
    """

    __slots__ = ("keywords", "recursive", "references", "refused", "unions", "unresolved")

    def __init__(self) -> None:
        self.keywords: dict[str, Any] = {}
        self.unions: list[list[JSON]] = []
        self.references: set[str] = set()
        self.unresolved: list[str] = []
        self.recursive: str | None = None
        self.refused = False


def flatten(schema: JSON, references: References, open_references: frozenset[str]) -> Flat:
    """Folds a node. Never raises; a part that is no schema is left out."""
    flat = Flat()
    waiting: list[JSON] = [schema]
    parts = 0
    while waiting and parts < _MAX_PARTS:
        part = waiting.pop()
        parts += 1
        if part is False:
            flat.refused = True
        if not isinstance(part, Mapping):
            continue
        _absorb(flat, part)
        following = part.get("allOf")
        if isinstance(following, list):
            waiting.extend(reversed(following[:_MAX_PARTS]))
        for keyword in REFERENCE_KEYWORDS:
            if keyword in part:
                _follow(flat, part[keyword], references, open_references, waiting)
    return flat


def _follow(
    flat: Flat, reference: JSON, references: References, open_references: frozenset[str], waiting: list[JSON]
) -> None:
    if not isinstance(reference, str) or reference in flat.references:
        return
    if reference in open_references:
        flat.recursive = flat.recursive or reference
        return
    target = references.resolve(reference)
    if target is None:
        flat.unresolved.append(reference)
        return
    flat.references.add(reference)
    waiting.append(target)


_HANDLED = frozenset({"allOf", "anyOf", "oneOf", "$defs", "definitions", *REFERENCE_KEYWORDS})


def _absorb(flat: Flat, part: Mapping[str, JSON]) -> None:
    """Adds one part's keywords to what is there."""
    for keyword in ("anyOf", "oneOf"):
        branches = part.get(keyword)
        if isinstance(branches, list) and branches:
            flat.unions.append(branches)
    keywords = flat.keywords
    if not keywords:
        keywords.update({keyword: value for keyword, value in part.items() if keyword not in _HANDLED})
        return
    _forget_closed(keywords, part)
    for keyword, value in part.items():
        if keyword in _HANDLED or keyword == "additionalProperties":
            continue
        present = keywords.get(keyword)
        keywords[keyword] = value if present is None else _both(keyword, present, value)


def _forget_closed(keywords: dict[str, Any], part: Mapping[str, JSON]) -> None:
    """`additionalProperties` speaks of one part's own properties: after folding it would forbid those of the others."""
    touches = "properties" in part or "additionalProperties" in part
    if "properties" in keywords and touches:
        keywords.pop("additionalProperties", None)
    elif "additionalProperties" in part and "additionalProperties" not in keywords:
        keywords["additionalProperties"] = part["additionalProperties"]


def _both(keyword: str, first: Any, second: Any) -> Any:
    if keyword in {"properties", "patternProperties"} and isinstance(first, Mapping) and isinstance(second, Mapping):
        merged = dict(first)
        for name, schema in second.items():
            doubled = name in merged and not same(merged[name], schema)
            merged[name] = {"allOf": [merged[name], schema]} if doubled else schema
        return merged
    if keyword == "required" and isinstance(first, list) and isinstance(second, list):
        return list(dict.fromkeys(name for name in (*first[:5_000], *second[:5_000]) if isinstance(name, str)))
    if keyword == "type":
        return _narrower(first, second)
    if keyword == "enum" and isinstance(first, list) and isinstance(second, list) and len(second) <= 500:
        return [value for value in first if value in second] or first
    return first


def same(first: JSON, second: JSON) -> bool:
    """Whether two schemas are equal; two that are too deep to compare count as different."""
    try:
        return bool(first == second)
    except RecursionError:
        return False


def _narrower(first: Any, second: Any) -> Any:
    """The types that both allow."""
    allowed = set(second if isinstance(second, list) else [second]) if _is_type(second) else set()
    if not allowed or not _is_type(first):
        return first
    kept = [
        "integer" if name == "number" and "number" not in allowed else name
        for name in (first if isinstance(first, list) else [first])
        if name in allowed or (name == "integer" and "number" in allowed) or (name == "number" and "integer" in allowed)
    ]
    if not kept:
        return first
    return kept[0] if len(kept) == 1 else kept


def _is_type(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(name, str) for name in value))
