"""Small slips of a model put right before the arguments are checked.

Policy: only what has one possible meaning. `null` for an optional property that does not allow it is left out; JSON
text where the schema takes no text is decoded; a whole float where only an integer fits becomes one. No default is
ever added, no name is changed, and whatever needs no repair is passed on as the very same object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codebuddy_mcp_tools.tools.json_bounds import measure
from codebuddy_mcp_tools.tools.schema_alternatives import required_names
from codebuddy_mcp_tools.tools.schema_flatten import Flat, flatten, same
from codebuddy_mcp_tools.tools.schema_refs import References
from codebuddy_mcp_tools.tools.schema_subset import TYPES, type_of, types_of
from codebuddy_mcp_tools.types import JSON

_MAX_DEPTH = 32
_MAX_BRANCHES = 50
_MAX_ALTERNATIVES = 8
_MAX_DECODED = 2_000_000
_MAX_DECODED_DEPTH = 100
_DECODABLE = frozenset({"object", "array", "number", "integer", "boolean"})
_EXACT_INTEGERS = 2.0**53
_ANY = frozenset(TYPES)


@dataclass(slots=True)
class _Shape:
    """What repair needs to know of one node.

    Attributes:
        types: the types it allows; all of them when it does not say.
        properties: for each property its schemas, one from each alternative that names it.
        required: the properties that the node or any alternative requires.
        items: the schemas of an array's items.
    """

    types: frozenset[str]
    properties: dict[str, list[JSON]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: list[JSON] = field(default_factory=list)


class ArgumentRepair:
    """Repairs values by one schema document; what it learns of the schema is kept."""

    def __init__(self, document: Mapping[str, JSON]) -> None:
        self._document = document
        self._references = References(document)
        self._shapes: dict[int, _Shape] = {}

    def repair(self, arguments: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """The arguments with their slips put right; the same object when there are none. Never raises."""
        repaired: Mapping[str, JSON] = self._value(arguments, self._document, 0)
        return repaired

    def _value(self, value: JSON, schema: JSON, depth: int) -> Any:
        if depth > _MAX_DEPTH or not isinstance(schema, Mapping) or not schema:
            return value
        shape = self._shape(schema)
        if isinstance(value, str):
            if "string" in shape.types:
                return value
            decoded = _decode(value, shape.types)
            if decoded is value:
                return value
            value = decoded
        if isinstance(value, float):
            return _whole(value, shape.types)
        if isinstance(value, Mapping):
            return self._object(value, shape, depth)
        return self._array(value, shape, depth) if isinstance(value, list) else value

    def _object(self, value: Mapping[str, JSON], shape: _Shape, depth: int) -> Any:
        changed: dict[str, JSON] | None = None
        for name, present in value.items():
            schemas = shape.properties.get(name)
            if schemas is None:
                continue
            if present is None:
                if name in shape.required or any(map(self._allows_null, schemas)):
                    continue
                changed = dict(value) if changed is None else changed
                del changed[name]
            elif len(schemas) == 1 and (put := self._value(present, schemas[0], depth + 1)) is not present:
                changed = dict(value) if changed is None else changed
                changed[name] = put
        return value if changed is None else changed

    def _array(self, value: list[JSON], shape: _Shape, depth: int) -> Any:
        if len(shape.items) != 1:
            return value
        repaired = [self._value(item, shape.items[0], depth + 1) for item in value]
        return value if all(new is old for new, old in zip(repaired, value, strict=True)) else repaired

    def _allows_null(self, schema: JSON) -> bool:
        return schema is not False and (not isinstance(schema, Mapping) or "null" in self._shape(schema).types)

    def _shape(self, schema: JSON) -> _Shape:
        shape = self._shapes.get(id(schema))
        if shape is None:
            self._shapes[id(schema)] = _Shape(_ANY)  # what a schema that refers to itself sees of itself meanwhile
            shape = self._shapes[id(schema)] = self._look(schema)
        return shape

    def _look(self, schema: JSON) -> _Shape:
        flat = flatten(schema, self._references, frozenset())
        shape = _Shape(self._types(flat), required=frozenset(required_names(flat.keywords)))
        named = flat.keywords.get("properties")
        for name, below in named.items() if isinstance(named, Mapping) else ():
            shape.properties[name] = [below]
        if isinstance(items := flat.keywords.get("items"), Mapping):
            shape.items.append(items)
        for union in flat.unions:
            for branch in union[:_MAX_BRANCHES]:
                if isinstance(branch, Mapping):
                    self._join(shape, self._shape(branch))
        return shape

    def _join(self, shape: _Shape, branch: _Shape) -> None:
        """Adds what one alternative says of objects and arrays."""
        if "object" in branch.types:
            shape.required |= branch.required
            for name, schemas in branch.properties.items():
                known = shape.properties.setdefault(name, [])
                known.extend(schema for schema in schemas[:_MAX_BRANCHES] if not _holds(known, schema))
        if "array" in branch.types:
            shape.items.extend(schema for schema in branch.items if not _holds(shape.items, schema))

    def _types(self, flat: Flat) -> frozenset[str]:
        """The types allowed by the node itself and by every union in it."""
        allowed = _own_types(flat.keywords)
        for union in flat.unions:
            found: set[str] = set()
            for branch in union[:_MAX_BRANCHES]:
                if isinstance(branch, Mapping):
                    found |= self._shape(branch).types
                elif branch is True:
                    found |= _ANY
            if found and len(union) <= _MAX_BRANCHES:
                allowed &= found | ({"integer"} if "number" in found else set())
        return allowed


def _holds(known: list[JSON], schema: JSON) -> bool:
    """Whether an equal schema is among those known; beyond a few it makes no difference any more."""
    return len(known) > _MAX_ALTERNATIVES or any(same(one, schema) for one in known)


def _own_types(keywords: Mapping[str, JSON]) -> frozenset[str]:
    values = keywords.get("enum") if isinstance(keywords.get("enum"), list) else None
    if values is None and "const" in keywords:
        values = [keywords["const"]]
    stated = frozenset(types_of(keywords)) if "type" in keywords else _ANY
    if "number" in stated:
        stated |= {"integer"}
    return stated & {type_of(value) for value in values} if values else stated


def _decode(text: str, types: frozenset[str]) -> Any:
    """The value that a JSON text stands for when it is of a wanted type, else the text itself."""
    wanted = types & _DECODABLE
    if not wanted or len(text) > _MAX_DECODED or not text.strip():
        return text
    try:
        value = json.loads(text)
        measure(value, max_chars=_MAX_DECODED, max_depth=_MAX_DECODED_DEPTH)
    except (ValueError, RecursionError):  # no JSON, or a value that JSON cannot carry, such as 1e999
        return text
    kind = type_of(value)
    return value if kind in wanted or (kind == "number" and _is_whole(value) and "integer" in wanted) else text


def _whole(value: float, types: frozenset[str]) -> float | int:
    return int(value) if "integer" in types and "number" not in types and _is_whole(value) else value


def _is_whole(value: float) -> bool:
    return abs(value) <= _EXACT_INTEGERS and value == int(value)
