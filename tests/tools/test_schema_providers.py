"""The three providers' own converters, on the shapes that fail in today's clients."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from codebuddy_mcp_tools.tools.schema import compile_schema
from codebuddy_mcp_tools.types import ToolInfo
from tests.benchmarks.provider_rules import anthropic_tool, gemini_tool, openai_tool
from tests.benchmarks.provider_schemas import as_tool, main, provider_problems


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def sent_to_all(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The parameters that OpenAI, Anthropic and Gemini get."""
    info = ToolInfo("s", "t")
    tool = as_tool(info, compile_schema(ToolInfo("s", "t", input_schema=schema)).bound)
    assert not any(provider_problems(tool).values())
    return (
        openai_tool(tool)["parameters"],
        anthropic_tool(tool)["input_schema"],
        gemini_tool(tool).get("parameters", {}),
    )


@pytest.mark.case("B03")
def test_a_tool_without_parameters() -> None:
    openai, anthropic, gemini = sent_to_all({"type": "object"})

    assert openai == anthropic == {"type": "object", "properties": {}}
    assert gemini == {}


@pytest.mark.case("B07")
def test_an_enum_behind_a_reference_reaches_all_three() -> None:
    schema = {
        "type": "object",
        "definitions": {"E": {"enum": ["a", "b"]}},
        "properties": {"e": {"$ref": "#/definitions/E"}},
    }

    openai, anthropic, gemini = sent_to_all(schema)

    assert openai["properties"]["e"]["enum"] == anthropic["properties"]["e"]["enum"] == ["a", "b"]
    assert gemini["properties"]["e"]["enum"] == ["a", "b"]


@pytest.mark.case("B15")
def test_nothing_is_sent_in_strict_mode() -> None:
    schema = {"type": "object", "properties": {"url": {"type": "string", "format": "uri"}}}
    tool = as_tool(ToolInfo("s", "t"), compile_schema(ToolInfo("s", "t", input_schema=schema)).bound)

    assert "strict" not in openai_tool(tool)
    assert "strict" not in anthropic_tool(tool)


@pytest.mark.case("B01", "B02")
def test_reserved_looking_names_are_shown_as_they_are() -> None:
    names = ["config", "run_manager", "callbacks", "runtime", "self", "state", "store", "args", "kwargs", "title"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}

    for parameters in sent_to_all(schema):
        assert sorted(parameters["properties"]) == sorted(names)


def test_a_nullable_object_stays_an_object_for_gemini() -> None:
    schema = {
        "type": "object",
        "properties": {"o": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}}},
    }

    _, _, gemini = sent_to_all(schema)

    assert gemini["properties"]["o"]["type"] == "OBJECT"
    assert gemini["properties"]["o"]["properties"]["a"]["type"] == "STRING"


@pytest.mark.parametrize(
    "property_schema",
    [
        {"type": "array"},
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}},
        {"anyOf": [{"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}, {"type": "null"}]},
        {"type": "array", "items": {"type": "object", "properties": {"a": True}, "required": ["a", "missing"]}},
        {"enum": [1, 2, 3]},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"const": 5},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"not": {"type": "string"}},
    ],
)
def test_shapes_that_break_a_converter_pass(property_schema: dict[str, Any]) -> None:
    sent_to_all({"type": "object", "properties": {"x": property_schema}})


def test_the_benchmark_reports_and_succeeds_on_good_lists(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.json").write_text('{"server": "one", "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}')

    assert main(["--servers", str(tmp_path)]) == 0
    assert "1 tools" in capsys.readouterr().out
