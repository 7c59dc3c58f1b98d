"""Arguments before they leave: repaired where there is one meaning, refused with a message where they do not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.arguments import MAX_ARGUMENT_CHARS, ArgumentChecker, ArgumentError
from tests.tools.strategies import json_values, wild_documents


def checker(properties: dict[str, Any] | None = None, *required: str, **more: Any) -> ArgumentChecker:
    return ArgumentChecker({"type": "object", "properties": properties or {}, "required": list(required), **more})


def refusal(check: ArgumentChecker, arguments: Any) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        check.check(arguments)
    return caught.value


@pytest.mark.case("B04")
def test_null_is_dropped_only_where_it_is_optional_and_not_allowed() -> None:
    check = checker(
        {
            "path": {"type": "string"},
            "head": {"type": "number"},
            "tag": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "kind": {"type": ["string", "null"]},
            "mode": {"enum": ["a", None]},
            "any": {},
            "deep": {"type": "object", "properties": {"limit": {"$ref": "#/$defs/limit"}}},
        },
        "path",
        **{"$defs": {"limit": {"type": "integer"}}},
    )
    nulls = {
        "head": None,
        "tag": None,
        "kind": None,
        "mode": None,
        "any": None,
        "deep": {"limit": None},
        "unknown": None,
    }

    sent = check.check({"path": "a", **nulls})

    assert sent == {"path": "a", "tag": None, "kind": None, "mode": None, "any": None, "deep": {}, "unknown": None}


@pytest.mark.case("B04")
def test_null_for_a_required_argument_is_refused() -> None:
    error = refusal(checker({"path": {"type": "string"}}, "path"), {"path": None})

    assert str(error) == 'argument "path": expected a string, got null.'


@pytest.mark.parametrize(
    ("schema", "given_value", "sent"),
    [
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2.0]", [1, 2]),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "boolean"}, "true", True),
        ({"type": ["object", "null"]}, '{"a": null}', {"a": None}),
        ({"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}, "[]", []),
        ({"$ref": "#/$defs/list"}, "[1]", [1]),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "object", "properties": {"o": {"type": "object"}}}, {"o": "{}"}, {"o": {}}),
    ],
)
def test_json_text_is_decoded_where_no_text_fits(schema: dict[str, Any], given_value: Any, sent: Any) -> None:
    check = checker({"x": schema}, **{"$defs": {"list": {"type": "array"}}})

    assert check.check({"x": given_value}) == {"x": sent}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {},
        True,
        {"type": ["string", "object"]},
        {"anyOf": [{"type": "object"}, {"type": "string"}]},
        {"enum": ["[1]", "{}"]},
    ],
)
def test_text_stays_text_where_text_fits(schema: Any) -> None:
    assert checker({"x": schema}).check({"x": "{}"}) == {"x": "{}"}


@pytest.mark.parametrize("text", ["[1", "nope", "null", "NaN", "[NaN]", '{"n": 1e999}', '{"s": "\\ud83d"}', '"a"', ""])
def test_text_that_does_not_hold_what_fits_is_refused(text: str) -> None:
    error = refusal(checker({"x": {"type": "object"}}), {"x": text})

    assert error.arguments == ("x",)
    assert "expected an object" in str(error)


def test_a_whole_float_becomes_an_integer_only_where_no_float_fits() -> None:
    check = checker({"i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": ["integer", "number"]}, "a": {}})

    sent = check.check({"i": 5.0, "n": 5.0, "b": 5.0, "a": 5.0})

    assert [type(sent[name]) for name in "inba"] == [int, float, float, float]


def test_defaults_are_never_added() -> None:
    assert checker({"a": {"type": "string", "default": "x"}}).check({}) == {}


def test_arguments_that_need_no_repair_are_passed_on_as_they_are() -> None:
    arguments = {"o": {"a": [1, {"b": "c"}]}, "config": {"x": 1}, "self": "s", "run_manager": None}

    assert checker({"o": {"type": "object"}}).check(arguments) is arguments


def test_the_models_own_objects_are_not_changed() -> None:
    arguments = {"o": {"limit": None, "n": 5.0}}
    check = checker({"o": {"type": "object", "properties": {"limit": {"type": "integer"}, "n": {"type": "integer"}}}})

    assert check.check(arguments) == {"o": {"n": 5}}
    assert arguments == {"o": {"limit": None, "n": 5.0}}


@pytest.mark.parametrize(
    ("properties", "arguments", "message"),
    [
        ({"a": {"type": "string"}}, {"a": 1}, 'argument "a": expected a string, got 1.'),
        ({"a": {"enum": ["x", "y"]}}, {"a": "z"}, 'argument "a": expected one of "x", "y", got "z".'),
        ({"a": {"const": "x"}}, {"a": "z"}, 'argument "a": expected "x", got "z".'),
        ({"a": {"type": "integer", "minimum": 1}}, {"a": 0}, 'argument "a": expected minimum 1, got 0.'),
        ({"a": {"type": ["string", "null"]}}, {"a": 5}, 'argument "a": expected a string or null, got 5.'),
        (
            {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            {"a": 5},
            'argument "a": expected a string or null, got 5.',
        ),
        ({"a": {"pattern": "^x$"}}, {"a": "y"}, 'argument "a": expected text that matches ^x$, got "y".'),
        (
            {"a": {"type": "array", "items": {"type": "integer"}}},
            {"a": [1, "x"]},
            'argument "a[1]": expected an integer, got "x".',
        ),
        ({"a": {"type": "object", "required": ["b"]}}, {"a": {}}, 'argument "a.b" is required.'),
    ],
)
def test_a_refusal_names_the_argument_and_what_was_expected(
    properties: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    assert str(refusal(checker(properties), arguments)) == message


def test_a_missing_argument_is_named() -> None:
    error = refusal(checker({}, "q", "r"), {})

    assert str(error) == 'argument "q" is required; argument "r" is required.'
    assert error.arguments == ("q", "r")


def test_an_unknown_argument_gets_a_suggestion() -> None:
    error = refusal(checker({"path": {"type": "string"}}, additionalProperties=False), {"pth": "x"})

    assert str(error) == 'no such argument: pth (did you mean "path"?).'


def test_what_is_wrong_inside_an_argument_suggests_no_other_argument() -> None:
    error = refusal(checker({"paths": {"type": "array", "items": {"type": "string"}}}), {"paths": [1]})

    assert str(error) == 'argument "paths[0]": expected a string, got 1.'


def test_a_value_that_fits_several_alternatives_of_which_one_may_fit_is_told_so() -> None:
    reads = {"type": "object", "properties": {"operation": {"const": "read"}}}
    writes = {"type": "object", "properties": {"operation": {"const": "write"}}}
    counts = {"type": "object", "required": ["total"]}
    error = refusal(checker({"step": {"oneOf": [counts, reads, writes]}}), {"step": {}})

    assert str(error) == (
        'argument "step": expected what fits only one of the schema\'s alternatives (this fits 2), got an object.'
    )


@pytest.mark.case("X7")
@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        ("\ud83d", "x", "surrogate"),
        ({"k": ["a", "\udc00b"]}, "x.k[1]", "surrogate"),
        ({"\ud83d": 1}, "x", "surrogate"),
        (float("nan"), "x", "NaN"),
        ([float("-inf")], "x[0]", "-Infinity"),
        (10**400, "x", "300 digits"),
        ({1: "a"}, "x", "key"),
        (b"bytes", "x", "bytes"),
        ({"s": {1, 2}}, "x.s", "set"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_its_place(value: Any, place: str, words: str) -> None:
    error = refusal(checker(), {"x": value})

    assert error.arguments == (place,)
    assert words in str(error)
    str(error).encode()


def test_arguments_beyond_the_bounds_are_refused() -> None:
    nested: Any = []
    for _ in range(200):
        nested = [nested]

    assert "larger than" in str(refusal(checker(), {"x": "a" * MAX_ARGUMENT_CHARS}))
    assert "nested deeper" in str(refusal(checker(), {"x": nested}))


@pytest.mark.parametrize("arguments", [[], "text", None, 5])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    assert "expected an object" in str(refusal(checker(), arguments))


def test_a_value_is_shown_shortened_and_cleaned() -> None:
    error = refusal(checker({"a": {"type": "integer"}}), {"a": "x" * 10_000 + "\u202e</mcp_response>"})

    assert len(str(error)) < 200
    assert refusal(checker({"</mcp_response>": {"type": "integer"}}), {"</mcp_response>": "x"}).args[0].count("<") == 0


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}},
            },
            {"a": 2},
            {"a": 1},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"E": {"enum": ["x"]}},
                "properties": {"a": {"$ref": "#/definitions/E"}},
            },
            {"a": "x"},
            {"a": "y"},
        ),
        ({"$defs": {"E": {"enum": ["x"]}}, "properties": {"a": {"$ref": "#/$defs/E"}}}, {"a": "x"}, {"a": "y"}),
        ({"$schema": "https://example.com/unknown", "properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
        ({"properties": {"a": {"type": "any"}, "b": {"type": "integer"}}}, {"a": 1, "b": 1}, {"b": "x"}),
        ({"properties": {"a": {"pattern": "^(?!x)"}, "b": {"type": "integer"}}}, {"a": "x", "b": 1}, {"b": "x"}),
        (
            {"properties": {"a": {"$ref": "https://example.com/s"}, "b": {"type": "integer"}}},
            {"a": 1, "b": 1},
            {"b": "x"},
        ),
        ({"properties": {"a": {"$ref": "#/$defs/none"}, "b": {"type": "integer"}}}, {"a": 1, "b": 1}, {"b": "x"}),
        ({"properties": {"a": {"type": "array", "items": [{"type": "integer"}]}}}, {"a": [1, "x"]}, {"a": ["x"]}),
        (
            {"properties": {"a": {"minimum": 1, "exclusiveMinimum": True}, "b": {"type": "integer"}}},
            {"a": 5, "b": 1},
            {"b": "x"},
        ),
        (
            {"properties": {"c": {"$ref": "#"}, "n": {"type": "integer"}}},
            {"c": {"c": {"n": 1}}},
            {"c": {"c": {"n": "x"}}},
        ),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"c": 1}),
    ],
)
def test_schemas_of_every_draft_and_with_flaws_are_checked_as_far_as_they_go(
    schema: dict[str, Any], fits: dict[str, Any], fails: dict[str, Any]
) -> None:
    check = ArgumentChecker(schema)

    assert check.check(fits) == fits
    refusal(check, fails)


def bomb(levels: int, width: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{levels}": {"type": "object"}}
    for level in range(levels):
        definitions[f"d{level}"] = {"oneOf": [{"$ref": f"#/$defs/d{level + 1}"}] * width}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}, "n": {"type": "integer"}},
        "$defs": definitions,
    }


def test_a_schema_over_the_budget_is_checked_only_for_what_is_cheap_and_says_so() -> None:
    check = ArgumentChecker({**bomb(40, 8), "required": ["n"]})

    assert check.check({"x": {}, "n": 1}) == {"x": {}, "n": 1}
    assert check.note is not None
    assert "not checked" in check.note
    assert str(refusal(check, {})) == 'argument "n" is required.'
    assert str(refusal(check, {"n": "x"})) == 'argument "n": expected an integer, got "x".'


def test_a_recursive_schema_with_many_branches_is_not_followed_without_end() -> None:
    node = {
        "anyOf": [
            {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}, "required": [f"k{n}"]} for n in range(30)
        ]
    }
    check = ArgumentChecker({"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}})
    deep: Any = {}
    for _ in range(40):
        deep = {"c": deep}

    assert check.check(deep) is deep
    assert check.note is not None


def test_a_hostile_pattern_takes_linear_time() -> None:
    check = checker({"a": {"type": "string", "pattern": "^(a+)+$"}})

    refusal(check, {"a": "a" * 200_000 + "b"})


def test_a_schema_that_is_no_schema_lets_the_server_decide() -> None:
    assert ArgumentChecker("nonsense").check({"a": 1}) == {"a": 1}  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(wild_documents(), st.dictionaries(st.text(max_size=4), json_values(), max_size=3))
def test_checking_raises_nothing_but_a_refusal(schema: Any, arguments: dict[str, Any]) -> None:
    try:
        sent = ArgumentChecker(schema).check(arguments)
    except ArgumentError as error:
        problem = str(error)
    else:
        problem = "none"
        assert isinstance(sent, Mapping)
        json.dumps(sent, allow_nan=False).encode()
    assert problem.encode()


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=8), json_values(), max_size=5))
def test_arguments_without_a_schema_arrive_byte_for_byte(arguments: dict[str, Any]) -> None:
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return

    assert ArgumentChecker({"type": "object"}).check(arguments) is arguments


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_fits_a_text_argument(text: str) -> None:
    if re.search("[\ud800-\udfff]", text):
        refusal(checker({"t": {"type": "string"}}), {"t": text})
    else:
        assert checker({"t": {"type": "string"}}).check({"t": text}) == {"t": text}


@pytest.mark.case("B04")
def test_null_is_dropped_when_no_alternative_of_the_schema_allows_it() -> None:
    check = ArgumentChecker(
        {
            "type": "object",
            "anyOf": [
                {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["b"]},
                {"properties": {"a": {"type": "integer"}, "c": {"type": ["string", "null"]}}},
            ],
        }
    )

    assert check.check({"a": None, "b": "x", "c": None}) == {"b": "x", "c": None}
    assert check.check({"a": 5.0, "c": "x"}) == {"a": 5, "c": "x"}


def test_a_schema_that_refers_to_itself_is_repaired_at_every_depth() -> None:
    check = ArgumentChecker({"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}})

    assert check.check({"child": {"child": {"n": 2.0}, "n": None}}) == {"child": {"child": {"n": 2}}}


def test_a_bomb_of_alternatives_costs_the_repair_no_more_than_its_size() -> None:
    definitions: dict[str, Any] = {"d20": {"type": "integer"}}
    for level in range(20):
        definitions[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"} for _ in range(50)]}
    check = ArgumentChecker({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions})

    assert check.check({"x": 5.0}) == {"x": 5}
