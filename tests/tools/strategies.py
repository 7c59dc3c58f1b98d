"""Hypothesis strategies: JSON values, schemas as servers write them, and schemas as nobody should write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "path", "type", "title", "properties", "$ref", "default", "items", "x.y", "é", ""])
PLAIN_NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["", "a", "b", "5", "[1]"])
)
TYPES = ["string", "number", "integer", "boolean", "array", "object", "null"]


def json_values(text: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Any]:
    """Any plain JSON value of a moderate size."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    leaves |= st.text(max_size=20) if text is None else text
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    )


def _object(inner: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=4)},
        optional={
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
        },
    )


def sane_schemas() -> st.SearchStrategy[Any]:
    """Valid JSON Schema with local references to `#/$defs/one` and `#/$defs/two`, as a property's schema."""
    leaf = st.one_of(
        st.sampled_from(TYPES).map(lambda kind: {"type": kind}),
        st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(lambda kinds: {"type": kinds}),
        st.lists(SCALARS.filter(lambda value: value != ""), min_size=1, max_size=4).map(
            lambda values: {"enum": values}
        ),
        SCALARS.filter(lambda value: value != "").map(lambda value: {"const": value}),
        st.fixed_dictionaries(
            {"type": st.just("string"), "minLength": st.integers(0, 3), "pattern": st.just("^[ab]*$")}
        ),
        st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(-3, 3)}),
        st.booleans(),
        st.sampled_from(["#/$defs/one", "#/$defs/two"]).map(lambda ref: {"$ref": ref}),
        st.just({}),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            _object(inner, PLAIN_NAMES),
            inner.map(lambda items: {"type": "array", "items": items}),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
            st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"oneOf": parts}),
            st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts}),
        ),
        max_leaves=8,
    )


def sane_documents() -> st.SearchStrategy[dict[str, Any]]:
    """Valid input schemas."""
    inner = sane_schemas()
    root = _object(inner, PLAIN_NAMES)
    return st.tuples(root, inner, inner).map(lambda parts: {**parts[0], "$defs": {"one": parts[1], "two": parts[2]}})


_KEYWORDS = """
type properties required items anyOf oneOf allOf enum const $ref $defs definitions additionalProperties
patternProperties pattern default description title minimum maxLength exclusiveMinimum format prefixItems if then
dependencies nullable examples not $id $schema uniqueItems multipleOf $anchor unevaluatedProperties contains
"""


def wild_schemas() -> st.SearchStrategy[Any]:
    """Anything with schema keywords in it: wrong types, odd names, dangling and external references."""
    keywords = st.sampled_from(_KEYWORDS.split())
    leaves = st.one_of(
        SCALARS,
        st.sampled_from(
            [
                *TYPES,
                "any",
                "#",
                "#/$defs/a",
                "#/properties/a",
                "http://x.invalid/s",
                "^(?!a)",
                "(",
                "\ud83d",
                "a\u202eb",
            ]
        ),
        st.sampled_from([float("nan"), float("inf"), 10**400, [], {}, ["a", "a"]]),
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(keywords, inner, max_size=5)
            | st.tuples(st.sampled_from(TYPES), st.dictionaries(keywords, inner, max_size=4)).map(
                lambda parts: {**parts[1], "type": parts[0]}
            )
            | st.dictionaries(NAMES, inner, max_size=3)
        ),
        max_leaves=25,
    )


def wild_documents() -> st.SearchStrategy[Any]:
    """What a server might put into `inputSchema`."""
    return st.one_of(
        wild_schemas(),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, wild_schemas(), max_size=4)}
        ),
    )
