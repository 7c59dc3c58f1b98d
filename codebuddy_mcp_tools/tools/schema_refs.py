"""Where the references of a stranger's JSON Schema lead: inside the same document, or nowhere.

Policy: nothing is ever fetched or read from disk. A reference is a JSON Pointer, an anchor or the `$id` of a subschema
of the same document; everything else is unresolved, and the caller goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from codebuddy_mcp_tools.types import JSON

REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_INDEXED = 20_000
"""Nodes looked at for anchors and ids: an index of a larger document would cost more than the answer is worth."""

_LIST_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAP_OF_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
_ONE_SCHEMA = (
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)


def subschemas(schema: Mapping[str, JSON]) -> Iterator[JSON]:
    """Every value directly below this schema that stands where a schema belongs, of whatever kind it is."""
    for keyword, value in schema.items():
        if isinstance(value, Mapping):
            if keyword in _MAP_OF_SCHEMAS:
                yield from value.values()
            elif keyword in _ONE_SCHEMA:
                yield value
        elif isinstance(value, list) and (keyword in _LIST_OF_SCHEMAS or keyword == "items"):
            yield from value


class References:
    """The references of one document.

    Args:
        document: the whole schema, as received.
    """

    def __init__(self, document: Mapping[str, JSON]) -> None:
        self._document = document
        self._named: dict[str, JSON] | None = None

    def resolve(self, reference: JSON) -> JSON:
        """The schema a reference stands for (a mapping or a boolean), or `None` when it leads nowhere."""
        if not isinstance(reference, str):
            return None
        if reference in {"#", ""}:
            return self._document
        found = self._pointer(reference) if reference.startswith("#/") else self._by_name(reference)
        return found if isinstance(found, Mapping | bool) else None

    def _pointer(self, reference: str) -> JSON:
        return _follow(self._document, reference[2:])

    def _by_name(self, reference: str) -> JSON:
        if self._named is None:
            self._named = _named_schemas(self._document)
        if reference in self._named:
            return self._named[reference]
        base, _, fragment = reference.partition("#")
        target = self._named.get(base) if base else None
        if target is None or not fragment:
            return target
        return _follow(target, fragment[1:]) if fragment.startswith("/") else self._named.get("#" + fragment)


def _follow(start: JSON, pointer: str) -> JSON:
    """RFC 6901, with the percent-encoding of a URI fragment; `None` when a step does not exist."""
    here = start
    for raw in pointer.split("/"):
        step = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping):
            here = here.get(step)
        elif isinstance(here, Sequence) and not isinstance(here, str) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return here


def _named_schemas(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Anchors (as `#name`) and ids of the document; the first of a name counts."""
    named: dict[str, JSON] = {}
    waiting: list[JSON] = [document]
    for _ in range(_MAX_INDEXED):
        if not waiting:
            break
        schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(keyword), str):
                named.setdefault(f"#{schema[keyword]}", schema)
        for keyword in ("$id", "id"):
            identifier = schema.get(keyword)
            if isinstance(identifier, str):
                named.setdefault(identifier, schema)
                named.setdefault(identifier.removesuffix("#"), schema)
        waiting.extend(subschemas(schema))
    return named
