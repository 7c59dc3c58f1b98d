"""The part of JSON Schema that all three model providers take, and how any other schema is brought into it.

What they refuse, from their own error messages and the source of their LangChain packages:

- OpenAI: a root that is not a plain `object` or has `anyOf`, `oneOf`, `allOf`, `enum` or `not`; `properties` missing;
  an array without `items`; `items` as a list; a regular expression that Python does not compile; a dangling `$ref`.
- Anthropic: anything that is no JSON Schema 2020-12; the same root combinators; argument names outside
  `[a-zA-Z0-9_.-]{1,64}`.
- Gemini: `enum` of anything but non-empty strings; `type` as a list; `properties` or `required` on what is no object;
  `required` names without a property; an array without `items`. Its LangChain converter fails on boolean schemas, on
  nested unions, and reads neither `oneOf` nor `const`.

So the bound form has no references, no `allOf`, no `oneOf`, no boolean schemas and one type a node; unions are one flat
`anyOf`. What cannot be said in it is said in the description, where every model reads it.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, TypeGuard

from codebuddy_mcp_tools.policy.text import clean, clean_description
from codebuddy_mcp_tools.types import JSON

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_MAX_ENUM_CHARS = 4_000
_MAX_PATTERN = 300
_MAX_SAMPLE = 400
"""Characters of a default or of an example."""

_COUNTS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def types_of(keywords: Mapping[str, JSON]) -> list[str]:
    """The types a node allows, without repeats; `[]` when it says nothing or only nonsense."""
    stated = keywords.get("type")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    known = [name for name in TYPES if name in names]
    if "number" in known and "integer" in known:
        known.remove("integer")
    if known and keywords.get("nullable") is True and "null" not in known:
        known.append("null")
    return known or _inferred(keywords)


def _inferred(keywords: Mapping[str, JSON]) -> list[str]:
    """What a schema without a type is evidently about; strictly speaking it would let any other type pass."""
    if "enum" in keywords or "const" in keywords:
        return []
    if isinstance(keywords.get("properties"), Mapping):
        return ["object"]
    if isinstance(keywords.get("items"), Mapping) and keywords["items"]:
        return ["array"]
    if isinstance(keywords.get("pattern"), str):
        return ["string"]
    return []


def type_of(value: JSON) -> str:
    """The JSON type of a value; whole floats are `number`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def scalar_limits(keywords: Mapping[str, JSON], kind: str) -> dict[str, Any]:
    """The well-formed limits of one type: counts as whole numbers, bounds as finite numbers, a usable pattern."""
    found: dict[str, Any] = {}
    for keyword in _COUNTS.get(kind, ()):
        value = keywords.get(keyword)
        if is_number(value) and 0 <= value <= 2**53 and value == int(value):
            found[keyword] = int(value)
    if kind in {"number", "integer"}:
        for keyword in _BOUNDS:
            value = keywords.get(keyword)
            if is_number(value):
                found[keyword] = value
        _modernise(keywords, found)
        if found.get("multipleOf", 1) <= 0:
            del found["multipleOf"]
    if kind == "string":
        pattern = keywords.get("pattern")
        if isinstance(pattern, str) and is_plain_pattern(pattern):
            found["pattern"] = pattern
        form = keywords.get("format")
        if isinstance(form, str) and is_sendable(form) and len(form) <= 40:
            found["format"] = form
    return found


def is_number(value: JSON) -> TypeGuard[int | float]:
    """Whether a value is a finite number that a 64-bit float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e308 <= value <= 1e308


def _modernise(keywords: Mapping[str, JSON], found: dict[str, Any]) -> None:
    """Draft 4 wrote `exclusiveMinimum: true` beside `minimum`."""
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if keywords.get(exclusive) is True and plain in found:
            found[exclusive] = found.pop(plain)


def is_plain_pattern(pattern: str) -> bool:
    """Whether OpenAI, which reads patterns with Python, takes this one."""
    if len(pattern) > _MAX_PATTERN or not is_sendable(pattern):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return False
    return True


def is_sendable(text: str) -> bool:
    """Whether a text holds nothing invisible and nothing that UTF-8 cannot carry."""
    return clean(text).removed == 0


def fitting(values: list[JSON], kinds: list[str]) -> list[JSON]:
    """The allowed values that also have an allowed type; all of them when none has."""
    if not kinds:
        return values
    names = {"object": Mapping, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kept = [
        value
        for value in values
        if any(isinstance(value, names[kind]) for kind in kinds if kind in names)
        or (isinstance(value, int | float) and not isinstance(value, bool) and {"number", "integer"} & set(kinds))
    ]
    return kept or values


def enum_nodes(values: list[JSON]) -> list[dict[str, Any]]:
    """One node for each type among the allowed values: strings as `enum`, everything else in words.

    Gemini takes `enum` for strings only and refuses the empty one, so the empty string is named in words too.
    """
    groups: dict[str, list[JSON]] = {}
    for value in values:
        kind = type_of(value)
        groups.setdefault("number" if kind == "integer" else kind, []).append(value)
    return [_enum_node(kind, group) for kind, group in groups.items()]


def _enum_node(kind: str, group: list[JSON]) -> dict[str, Any]:
    if kind == "null":
        return {"type": "null"}
    if kind == "boolean":
        node: dict[str, Any] = {"type": "boolean"}
        return node if len(set(group)) > 1 else node | {"description": f"Always {json.dumps(group[0])}."}
    if kind != "string":
        if kind == "number" and all(isinstance(value, int) for value in group):
            kind = "integer"
        return {"type": kind, "description": _allowed(group)} | ({"items": {}} if kind == "array" else {})
    if sum(map(len, group)) > _MAX_ENUM_CHARS * 4:
        return {"type": "string", "description": _allowed(group)}
    usable = [value for value in dict.fromkeys(group) if is_sendable(value)]
    shown = [value for value in usable if value]
    if not shown or sum(map(len, shown)) > _MAX_ENUM_CHARS:
        return {"type": "string"} | ({"description": _allowed(usable)} if usable else {})
    empty = {"description": "May also be the empty string."} if "" in usable else {}
    return {"type": "string", "enum": shown} | empty


def _allowed(values: list[JSON]) -> str:
    """`Allowed values: 1, 2, 3.`, cut to a readable length."""
    texts: list[str] = []
    room = 600
    for value in values[:100]:
        text = clean(_as_json(value)[: room + 1]).text
        if room >= len(text):
            texts.append(text)
            room -= len(text) + 2
    more = f" and {len(values) - len(texts):,} more" if len(values) > len(texts) else ""
    return f"Allowed values: {', '.join(texts)}{more}."


def _as_json(value: JSON) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return f"({type_of(value)})"


def sample(value: JSON) -> bool:
    """Whether a default or an example may be shown: small, visible, plain JSON that no converter takes for a `$ref`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return len(text) <= _MAX_SAMPLE and '"$ref"' not in text and is_sendable(text)


def describe(*parts: JSON, limit: int) -> str:
    """Descriptions joined with a space, each cleaned; anything that is no text is left out."""
    texts = [clean_description(part) for part in parts if isinstance(part, str) and part]
    text = " ".join(text for text in texts if text)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def item_node(node: dict[str, Any]) -> dict[str, Any]:
    """Gemini's converter makes a union of items its last type; an array then needs its `items` beside the union."""
    last = [branch for branch in node.get("anyOf", ()) if branch.get("type") not in (None, "null")][-1:]
    return {**node, "items": last[0]["items"]} if last and "items" in last[0] else node


def title_of(keywords: Mapping[str, JSON]) -> JSON:
    """LangChain drops titles; one that says more than a single word stands in for a missing description."""
    title = keywords.get("title")
    return title if isinstance(title, str) and " " in title.strip() else None


def unreadable(keywords: Mapping[str, JSON], node: dict[str, Any]) -> str | None:
    """A pattern that the providers' readers refuse is still worth telling."""
    pattern = keywords.get("pattern")
    if isinstance(pattern, str) and node.get("type") == "string" and "pattern" not in node and is_sendable(pattern):
        return f"Pattern: {pattern[:200]}"
    return None
