"""Alternatives (`anyOf`, `oneOf`) of a schema: put together into one object, or kept as one flat union."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from codebuddy_mcp_tools.tools.schema_flatten import Flat, same
from codebuddy_mcp_tools.types import JSON

MAX_BRANCHES = 50
"""Alternatives of one union that are looked at."""
MAX_REQUIRED = 5_000
"""Names of one `required` that are looked at."""
_MAX_NESTED_UNIONS = 6
_MAX_JOINED = 2_000
_MAX_FORMS = 8
"""Different descriptions of one property that are kept."""
Node = dict[str, Any]
Fold = Callable[[JSON, frozenset[str]], Flat]
"""Folds references and `allOf` of a node; the references that are open already come second."""


def merge_alternatives(flat: Flat, fold: Fold, inside: frozenset[str], nested: int = 0) -> Flat:
    """An object with alternatives (`anyOf`, `oneOf`) as one object: every property, required what all of them require.

    Two alternatives that describe the same property differently give it a union of both.
    """
    merged = Flat()
    merged.keywords = {key: value for key, value in flat.keywords.items() if key != "additionalProperties"}
    properties = dict(merged.keywords.get("properties") or {})
    required = dict.fromkeys(required_names(flat.keywords))
    for branches in flat.unions:
        always: dict[str, None] | None = None
        for branch in branches[:MAX_BRANCHES]:
            part = fold(branch, inside)
            if part.unions and nested < _MAX_NESTED_UNIONS:
                part = merge_alternatives(part, fold, inside | part.references, nested + 1)
            _join_properties(properties, part.keywords.get("properties"), flat.keywords.get("properties"))
            names = dict.fromkeys(required_names(part.keywords))
            always = names if always is None else {name: None for name in always if name in names}
        required |= always or {}
    merged.keywords |= {"properties": properties, "required": list(required)}
    merged.recursive, merged.references = flat.recursive, flat.references
    return merged


def _join_properties(into: dict[str, JSON], more: JSON, own: JSON) -> None:
    if not isinstance(more, Mapping):
        return
    stated = own if isinstance(own, Mapping) else {}
    for name, schema in islice(more.items(), _MAX_JOINED):
        present = into.get(name)
        if present is None or name in stated:
            into.setdefault(name, schema)
        elif not same(present, schema):
            earlier = present["anyOf"] if isinstance(present, Mapping) and set(present) == {"anyOf"} else [present]
            if len(earlier) < _MAX_FORMS and not any(same(one, schema) for one in earlier):
                into[name] = {"anyOf": [*earlier, schema]}


def required_names(keywords: Mapping[str, JSON]) -> list[str]:
    """The names in `required`, without repeats and without what is no name."""
    stated = keywords.get("required")
    if not isinstance(stated, list):
        return []
    return list(dict.fromkeys(name for name in stated[:MAX_REQUIRED] if isinstance(name, str)))


def flat_branches(node: Node) -> list[Node]:
    """The branches of a node that is itself a union, each with the union's description."""
    if "anyOf" not in node:
        return [node]
    text = node.get("description")
    return [{**({"description": text} if text else {}), **branch} for branch in node["anyOf"]]


def one_enum(branches: list[Node]) -> list[Node]:
    """Several bare string enums (`oneOf` of constants) become one."""
    bare = [branch for branch in branches if set(branch) == {"type", "enum"}]
    if len(bare) < 2:
        return branches
    values = dict.fromkeys(value for branch in bare for value in branch["enum"])
    joined: Node = {"type": "string", "enum": list(values)}
    first = branches.index(bare[0])
    rest = [branch for branch in branches if branch not in bare]
    return [*rest[:first], joined, *rest[first:]]
