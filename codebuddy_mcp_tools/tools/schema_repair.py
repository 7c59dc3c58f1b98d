"""A schema that is not quite JSON Schema, without the parts that no validator takes.

Real servers send `"type": "any"`, tuples in the old spelling, `exclusiveMinimum: true`, look-around in patterns,
references to nowhere. Each costs its own keyword here, not the check of everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from codebuddy_mcp_tools.tools.schema_refs import REFERENCE_KEYWORDS, References
from codebuddy_mcp_tools.tools.schema_subset import TYPES, is_number
from codebuddy_mcp_tools.types import JSON

_KNOWN_DRAFTS = ("draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
_MAX_DEPTH = 120
_MAX_PATTERN = 5_000
REGEX_OPTIONS = jsonschema_rs.RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)
"""The engine without look-around and back-references, whose time is linear in the text."""


def tolerant(schema: JSON) -> Any:
    """A copy with everything left out that is malformed. Never raises; the input is not changed."""
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else True
    copy = _copy(schema, References(schema), 0)
    if isinstance(copy, dict):
        stated = schema.get("$schema")
        if not (isinstance(stated, str) and any(draft in stated for draft in _KNOWN_DRAFTS)):
            copy.pop("$schema", None)
    return copy


def _copy(schema: JSON, references: References, depth: int) -> Any:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return True
    kept: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _MAPS:
            if isinstance(value, Mapping):
                kept[keyword] = _copy_map(keyword, value, references, depth)
        elif keyword in _LISTS or (keyword == "items" and isinstance(value, list)):
            if isinstance(value, list) and value:
                name = "prefixItems" if keyword == "items" else keyword
                kept[name] = [_copy(part, references, depth + 1) for part in value]
        elif keyword in _SINGLE:
            if isinstance(value, Mapping | bool):
                kept[keyword] = _copy(value, references, depth + 1)
        elif keyword in REFERENCE_KEYWORDS:
            if references.resolve(value) is not None:
                kept[keyword] = value
        elif (well_formed := _RULES.get(keyword)) is None or well_formed(value):
            kept[keyword] = value
    return kept


def _copy_map(keyword: str, table: Mapping[str, JSON], references: References, depth: int) -> dict[str, Any]:
    names = [name for name in table if isinstance(name, str) and name.isprintable()]
    if keyword == "patternProperties":
        names = [name for name in names if _is_pattern(name)]
    return {name: _copy(table[name], references, depth + 1) for name in names}


def _is_pattern(value: JSON) -> bool:
    if not isinstance(value, str) or len(value) > _MAX_PATTERN:
        return False
    try:
        jsonschema_rs.validator_for({"pattern": value}, pattern_options=REGEX_OPTIONS)
    except ValueError:
        return False
    return True


def _is_type(value: JSON) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(name in TYPES for name in names) and len(set(names)) == len(names)


def _is_positive(value: JSON) -> bool:
    return is_number(value) and value > 0


def _is_count(value: JSON) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_names(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_dependent(value: JSON) -> bool:
    return isinstance(value, Mapping) and all(_is_names(names) for names in value.values())


def _is_bool(value: JSON) -> bool:
    return isinstance(value, bool)


def _is_list(value: JSON) -> bool:
    return isinstance(value, list) and bool(value)


def _is_text(value: JSON) -> bool:
    return isinstance(value, str)


def _never(_value: JSON) -> bool:
    return False


_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
    | {"additionalItems", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_RULES: dict[str, Callable[[JSON], bool]] = {
    "type": _is_type,
    "enum": _is_list,
    "required": _is_names,
    "pattern": _is_pattern,
    "multipleOf": _is_positive,
    "uniqueItems": _is_bool,
    "dependentRequired": _is_dependent,
    "dependencies": _never,
    "$vocabulary": _never,
    "$schema": _is_text,
    "$id": _never,
    "id": _never,
    "$anchor": _is_text,
    "$dynamicAnchor": _is_text,
    "$comment": _is_text,
    "title": _is_text,
    "description": _is_text,
    "format": _is_text,
    "examples": _is_list,
    "deprecated": _is_bool,
    "readOnly": _is_bool,
    "writeOnly": _is_bool,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), _is_text),
}
