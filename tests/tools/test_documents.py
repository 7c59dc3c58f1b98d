"""A definition as the index sees it: fields, their weights, and where it is cut."""

from __future__ import annotations

from typing import Any

import pytest

from codebuddy_mcp_tools.tools.documents import WEIGHTS, document, texts
from codebuddy_mcp_tools.types import ToolInfo


def of_schema(**properties: Any) -> ToolInfo:
    return ToolInfo("server", "tool", input_schema={"type": "object", "properties": properties})


def test_arguments_are_found_by_name_description_and_allowed_values_also_nested_ones() -> None:
    found = texts(
        of_schema(
            unit={"description": "How to measure", "enum": ["celsius", "kelvin", 3]},
            place={"properties": {"latitude": {"description": "degrees north"}}},
            days={"items": {"properties": {"weekday": {}}}},
        )
    )
    assert found["arguments"] == "unit place latitude days weekday"
    assert found["argument texts"].split() == ["How", "to", "measure", "celsius", "kelvin", "degrees", "north"]


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("Reads a file. Then more.", "Reads a file"),
        ("Reads a file: with notes", "Reads a file"),
        ("Reads a file\nand more", "Reads a file"),
        ("Reads notes.txt for you", "Reads notes.txt for you"),
        ("", ""),
    ],
)
def test_the_summary_is_the_first_sentence(description: str, summary: str) -> None:
    assert texts(ToolInfo("s", "t", description))["summary"] == summary


def test_a_word_counts_by_its_field() -> None:
    def impact(tool: ToolInfo) -> float:
        return document("key", tool)[1]["issu"]

    name = impact(ToolInfo("s", "issue"))
    server = impact(ToolInfo("issue", "t"))
    summary = impact(ToolInfo("s", "t", "issue"))
    description = impact(ToolInfo("s", "t", "Other words. issue"))
    argument = impact(of_schema(issue={}))
    assert 1 > name > server >= summary > description > argument > 0
    assert max(WEIGHTS, key=WEIGHTS.__getitem__) == "name"


def test_a_word_in_a_long_text_counts_less() -> None:
    short = document("k", ToolInfo("s", "t", "Issue."))[1]["issu"]
    long = document("k", ToolInfo("s", "t", "Issue. " + "Other words here. " * 50))[1]["issu"]
    assert short > long


def test_saying_a_word_again_helps_less_each_time() -> None:
    def impact(times: int) -> float:
        return document("k", ToolInfo("s", "t", "Other. " + "issue " * times))[1]["issu"]

    steps = [impact(times + 1) - impact(times) for times in range(1, 20)]
    assert steps == sorted(steps, reverse=True)
    assert impact(200) < 1


def test_the_servers_name_repeated_in_a_tools_name_is_not_part_of_it() -> None:
    doc, _ = document("k", ToolInfo("slack", "slack_post_message"))
    assert doc.name_terms == ("post", "messag")
    alone, _ = document("k", ToolInfo("fetch", "fetch"))
    assert alone.name_terms == ("fetch",)


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("create_issue", "", {"create"}),
        ("issue_delete", "", {"delete"}),
        ("issue", "Deletes an issue", {"delete"}),
        ("issue", "An issue", set()),
    ],
)
def test_the_kind_of_a_tool_is_that_of_the_first_verb_it_has(name: str, description: str, kind: set[str]) -> None:
    assert document("k", ToolInfo("s", name, description))[0].verbs == kind
