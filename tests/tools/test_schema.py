"""What is bound to a model, whatever schema a server sends."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from codebuddy_mcp_tools.tools.schema import MAX_CHARS, ToolSchema, compile_schema
from codebuddy_mcp_tools.types import ToolInfo


def compiled(schema: Any) -> ToolSchema:
    return compile_schema(ToolInfo("s", "t", input_schema=schema))


def bound(schema: Any) -> dict[str, Any]:
    return compiled(schema).bound


def argument(schema: Any, **document: Any) -> dict[str, Any]:
    """The bound form of one argument."""
    return bound({"type": "object", "properties": {"x": schema}, **document})["properties"]["x"]


@pytest.mark.case("B03")
@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {}, {"type": "object", "additionalProperties": True}, None, True]
)
def test_a_tool_without_parameters_has_empty_properties(schema: Any) -> None:
    result = compiled(schema)

    assert result.bound == {"type": "object", "properties": {}}
    assert result.problem is None


@pytest.mark.case("B03")
def test_properties_null_counts_as_none() -> None:
    assert bound({"type": "object", "properties": None}) == {"type": "object", "properties": {}}


@pytest.mark.case("B05")
def test_unions_type_lists_and_boolean_schemas_pass() -> None:
    schema = {
        "type": "object",
        "properties": {
            "ip": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "v": {"type": ["string", "null"]},
            "any": True,
        },
    }

    properties = bound(schema)["properties"]

    assert properties["ip"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert properties["v"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["any"] == {}


@pytest.mark.case("B07")
@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
def test_an_enum_behind_a_reference_is_visible(keyword: str) -> None:
    schema = {
        "type": "object",
        keyword: {"E": {"enum": ["a", "b"]}},
        "properties": {"e": {"$ref": f"#/{keyword}/E", "description": "Which"}},
    }

    assert bound(schema)["properties"]["e"] == {"type": "string", "enum": ["a", "b"], "description": "Which"}


@pytest.mark.parametrize(
    ("reference", "document"),
    [
        ("#/$defs/a~1b", {"$defs": {"a/b": {"type": "integer"}}}),
        ("#/$defs/a%20b", {"$defs": {"a b": {"type": "integer"}}}),
        ("#/$defs/list/anyOf/0", {"$defs": {"list": {"anyOf": [{"type": "integer"}]}}}),
        ("#n", {"$defs": {"any": {"$anchor": "n", "type": "integer"}}}),
        ("n.json", {"$defs": {"any": {"$id": "n.json", "type": "integer"}}}),
        ("#/$defs/chain", {"$defs": {"chain": {"$ref": "#/$defs/end"}, "end": {"type": "integer"}}}),
    ],
)
def test_every_kind_of_local_reference_is_followed(reference: str, document: dict[str, Any]) -> None:
    assert argument({"$ref": reference}, **document) == {"type": "integer"}


@pytest.mark.parametrize(
    "reference", ["https://example.com/s.json", "file:///etc/passwd", "#/$defs/none", "other.json#/a", 5]
)
def test_a_reference_out_of_the_document_leaves_the_argument_open(reference: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": reference, "description": "d"}}}

    result = compiled(schema)

    assert result.bound["properties"] == {"x": {"description": "d"}}
    assert result.problem is None


def test_an_unavailable_reference_is_named_in_a_note() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "https://example.com/s.json"}}}

    assert compiled(schema).notes == ("Parts of the schema are not available: https://example.com/s.json.",)


def test_a_recursive_schema_is_written_out_once_and_then_named() -> None:
    node = {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    }

    kids = argument({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})["properties"]["kids"]

    assert kids == {"type": "array", "items": {"type": "object", "description": "Same shape as the enclosing Node."}}


def test_a_root_reference_is_followed() -> None:
    schema = {
        "$ref": "#/$defs/Args",
        "$defs": {"Args": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
    }

    assert bound(schema) == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_all_of_at_the_top_becomes_one_object() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ]
    }

    assert bound(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_at_the_top_become_one_object_and_a_note(keyword: str) -> None:
    schema = {
        keyword: [
            {
                "type": "object",
                "properties": {"kind": {"const": "id"}, "id": {"type": "integer"}},
                "required": ["kind", "id"],
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "name"}, "name": {"type": "string"}},
                "required": ["kind", "name"],
            },
        ]
    }

    result = compiled(schema)

    assert result.bound == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["id", "name"]},
            "id": {"type": "integer"},
            "name": {"type": "string"},
        },
        "required": ["kind"],
    }
    assert result.notes == ("Give one of these sets of arguments: (kind, id) or (kind, name).",)


def test_arguments_that_only_a_condition_names_are_shown() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "if": {"required": ["a"]},
        "then": {"properties": {"b": {"type": "integer"}}},
        "dependentSchemas": {"a": {"properties": {"c": {"type": "boolean"}}}},
    }

    assert list(bound(schema)["properties"]) == ["a", "b", "c"]


@pytest.mark.case("B15")
def test_strict_mode_is_never_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {
            "url": {"type": "string", "format": "uri"},
            "v": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        },
    }

    result = bound(schema)

    assert "strict" not in result
    assert "additionalProperties" not in result
    assert result["properties"]["v"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": [1, 2]}, {"type": "integer", "description": "Allowed values: 1, 2."}),
        ({"type": "string", "enum": ["a", "b", "a"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        (
            {"enum": ["a", 1, True]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "integer", "description": "Allowed values: 1."},
                    {"type": "boolean", "description": "Always true."},
                ]
            },
        ),
        (
            {"type": "string", "enum": ["", "a"]},
            {"type": "string", "enum": ["a"], "description": "May also be the empty string."},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        ({"type": "array", "items": False}, {"type": "array", "items": {}, "maxItems": 0}),
        (
            {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        ),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"type": "any"}, {}),
        ({"type": "string", "properties": {"a": {}}, "required": ["a"]}, {"type": "string"}),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
        ),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {"type": "string", "description": r"Pattern: ^\p{L}+$"}),
        (
            {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        ({"type": "number", "maximum": float("inf"), "default": float("nan")}, {"type": "number"}),
        ({"type": "string", "default": {"$ref": "#/x"}}, {"type": "string"}),
        ({"type": "string", "title": "A longer title"}, {"type": "string", "description": "A longer title"}),
        ({"type": "string", "description": "tag\U000e0041ged \ud83d"}, {"type": "string", "description": "tagged"}),
        ("not a schema", {}),
        ({"type": "string", "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
)
def test_one_argument_in_the_form_that_all_providers_take(schema: Any, expected: dict[str, Any]) -> None:
    assert argument(schema) == expected


def test_an_argument_that_nothing_can_match_is_left_out() -> None:
    assert bound({"type": "object", "properties": {"never": False, "a": {"type": "string"}}})["properties"] == {
        "a": {"type": "string"}
    }


def test_an_argument_keeps_its_name_or_is_named_in_a_note() -> None:
    schema = {
        "type": "object",
        "properties": {
            "filter[id]": {"type": "string", "description": "By id"},
            "$top": {"type": "integer"},
            "x-y.z": {},
        },
        "required": ["$top", "x-y.z"],
        "additionalProperties": False,
    }

    result = compiled(schema)

    assert result.bound == {"type": "object", "properties": {"x-y.z": {}}, "required": ["x-y.z"]}
    assert result.notes == ('Also takes "filter[id]" (string): By id', 'Also takes "$top" (integer, required)')


@pytest.mark.parametrize(
    "name", ["config", "run_manager", "self", "runtime", "callbacks", "title", "properties", "type", "$defs"]
)
def test_names_that_mean_something_elsewhere_are_names_here(name: str) -> None:
    schema = {"type": "object", "properties": {"o": {"type": "object", "properties": {name: {"type": "string"}}}}}

    assert bound(schema)["properties"]["o"]["properties"] == {name: {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "describes string"),
        ({"type": ["array", "null"]}, "describes array or null"),
        ([], "inputSchema is list"),
        ("x", "inputSchema is str"),
        (False, "inputSchema is bool"),
        ({"type": "object", "properties": ["a"]}, "properties is list"),
        ({"allOf": [False]}, "no arguments object"),
    ],
)
def test_a_hopeless_schema_says_what_is_wrong(schema: Any, words: str) -> None:
    result = compiled(schema)

    assert result.problem is not None
    assert words in result.problem
    assert result.bound == {"type": "object", "properties": {}}


def test_the_original_is_kept_and_not_changed() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "string"}]}},
        "$schema": "http://json-schema.org/draft-07/schema#",
    }
    before = copy.deepcopy(schema)

    result = compiled(schema)

    assert result.original is schema
    assert schema == before


def doubling(levels: int, keyword: str) -> dict[str, Any]:
    """A reference bomb: each definition uses the next one twice."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        twice = [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]
        definitions[f"d{level}"] = (
            {"type": "object", "properties": {"a": twice[0], "b": twice[1]}}
            if keyword == "properties"
            else {keyword: twice}
        )
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.parametrize("keyword", ["properties", "anyOf", "oneOf", "allOf", "prefixItems"])
def test_a_reference_bomb_stays_within_the_bounds(keyword: str) -> None:
    schema = doubling(60, keyword)

    assert len(json.dumps(bound(schema))) < MAX_CHARS


def test_a_bomb_of_alternatives_at_the_top_stays_within_the_bounds() -> None:
    definitions: dict[str, Any] = {"d40": {"type": "object"}, "e40": {"type": "object"}}
    for level in range(40):
        both = [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/e{level + 1}"}]
        definitions |= {f"d{level}": {"anyOf": both}, f"e{level}": {"oneOf": both}}

    assert bound({"$ref": "#/$defs/d0", "$defs": definitions}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize("wrap", ["properties", "items", "anyOf", "allOf", "additionalProperties", "not"])
def test_a_deep_schema_is_shown_as_far_as_the_bound_goes(wrap: str) -> None:
    schema: Any = {"type": "string"}
    for _ in range(5_000):
        schema = {
            "properties": {"type": "object", "properties": {"a": schema}},
            "items": {"type": "array", "items": schema},
            "additionalProperties": {"type": "object", "additionalProperties": schema},
            "not": {"not": schema},
        }.get(wrap, {wrap: [schema]})

    assert len(json.dumps(bound({"type": "object", "properties": {"x": schema}}))) < MAX_CHARS


def test_a_huge_schema_is_cut_and_keeps_what_is_required() -> None:
    properties = {f"option_{n}": {"type": "string", "description": "words " * 20} for n in range(8_000)}
    schema = {"type": "object", "properties": properties, "required": ["option_7999"]}

    result = compiled(schema)

    assert len(json.dumps(schema)) > 1_000_000
    assert len(json.dumps(result.bound)) <= MAX_CHARS * 1.1
    assert result.bound["required"] == ["option_7999"]
    assert any("further arguments" in note for note in result.notes)


def test_a_large_nested_schema_loses_depth_before_it_loses_arguments() -> None:
    inner = {
        "type": "object",
        "properties": {f"k{n}": {"type": "string", "description": "words " * 40} for n in range(100)},
    }
    schema = {
        "type": "object",
        "properties": {f"g{n}": {"type": "object", "properties": {"deep": inner}} for n in range(40)},
    }

    result = bound(schema)

    assert len(result["properties"]) == 40
    assert result["properties"]["g0"]["properties"]["deep"]["description"].startswith("Keys: k0, k1")


def test_a_huge_enum_is_named_by_its_first_values() -> None:
    node = argument({"type": "string", "enum": [f"value_{n}" for n in range(50_000)]})

    assert "enum" not in node
    assert node["description"].startswith('Allowed values: "value_0", "value_1"')
    assert "more." in node["description"]


def test_two_deep_schemas_of_one_argument_are_no_trouble() -> None:
    def deep() -> Any:
        schema: Any = {"type": "string"}
        for _ in range(3_000):
            schema = {"type": "array", "items": schema}
        return schema

    both = [{"properties": {"x": deep()}}, {"properties": {"x": deep()}}]

    assert "array" in str(bound({"type": "object", "anyOf": both})["properties"]["x"])
    assert "array" in str(bound({"type": "object", "allOf": both})["properties"]["x"])


def wide(count: int, keyword: str) -> dict[str, Any]:
    """Schemas that are wide in places where a careless walk is quadratic."""
    names = [f"a{number}" for number in range(count)]
    one = {"properties": {name: {"type": "string"} for name in names}}
    return {
        "required": {"allOf": [{"required": names}, {"required": [f"b{name}" for name in names]}]},
        "alternatives": {"anyOf": [{**one, "title": str(number)} for number in range(20)]},
        "enum": {"properties": {"x": {"allOf": [{"enum": names}, {"enum": names}]}}},
        "objects": {"properties": {"x": {"enum": [{"a": name} for name in names]}}},
        "names": {"properties": {f"${name}": {} for name in names}},
        "patterns": {"properties": {name: {"type": "string", "pattern": f"^{name}{{3}}x$"} for name in names[:2_000]}},
    }[keyword]


@pytest.mark.parametrize("keyword", ["required", "alternatives", "enum", "objects", "names", "patterns"])
def test_a_wide_schema_stays_within_the_bounds(keyword: str) -> None:
    assert len(json.dumps(bound({"type": "object", **wide(20_000, keyword)}))) < MAX_CHARS * 1.2
