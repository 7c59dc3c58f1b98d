"""The answer to a call: what has the right shape is passed on, what has not is salvaged and marked."""

from __future__ import annotations

from typing import Any

import pytest

from codebuddy_mcp_tools.client.results import read_call_result

TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    "content",
    [
        [],
        [TEXT],
        [TEXT, {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}],
        [{"type": "video", "url": "x"}],
        [{"type": "resource_link", "uri": "relative/path", "name": "r"}],
        [{"anything": 1}],
    ],
)
def test_blocks_are_passed_on_whatever_their_kind(content: list[dict[str, Any]]) -> None:
    result = read_call_result({"content": content, "isError": False, "_meta": {"a": 1}}, 2.5)
    assert result.content == tuple(content)
    assert (result.is_error, result.notes, result.meta, result.duration_ms) == (False, (), {"a": 1}, 2.5)


@pytest.mark.case("B21")
@pytest.mark.parametrize("content", [[TEXT], []])
def test_an_error_result_keeps_its_text_and_its_code(content: list[dict[str, Any]]) -> None:
    result = read_call_result({"content": content, "isError": True, "structuredContent": {"code": 42}}, 0)
    assert (result.is_error, result.structured_content, result.content) == (True, {"code": 42}, tuple(content))


def test_structured_content_alone_is_a_result() -> None:
    result = read_call_result({"structuredContent": {"n": 1}}, 0)
    assert (result.is_error, result.structured_content, result.content) == (False, {"n": 1}, ())
    assert result.notes


def test_an_empty_result_is_a_result_with_a_note() -> None:
    result = read_call_result({}, 0)
    assert (result.is_error, result.content, result.notes) == (False, (), ("the result has no content",))


@pytest.mark.case("X1")
@pytest.mark.parametrize(
    ("answer", "salvaged"),
    [
        ({"content": "just text"}, ["just text"]),
        ({"content": {"type": "text", "text": "x"}}, ['{"type": "text", "text": "x"}']),
        ({"content": [TEXT, "loose words"]}, ["x", "loose words"]),
        ({"content": [None]}, ["null"]),
        ({"toolResult": "from 2024"}, ["from 2024"]),
        ({"output": 7}, ['{"output": 7}']),
        ("words", ["words"]),
        ([1, 2], ["[1, 2]"]),
        (None, []),
    ],
)
def test_a_malformed_answer_is_an_error_that_says_that_the_call_has_run(answer: Any, salvaged: list[str]) -> None:
    result = read_call_result(answer, 0)
    assert result.is_error
    assert [block["text"] for block in result.content] == salvaged
    assert result.notes[0].startswith("the server sent an invalid result (the call has run)")


@pytest.mark.parametrize(("said", "is_error"), [("true", True), ("false", False), (1, True), (0, False), (None, False)])
def test_is_error_of_a_wrong_kind_is_understood_and_noted(said: Any, is_error: bool) -> None:
    result = read_call_result({"content": [TEXT], "isError": said}, 0)
    assert result.is_error is is_error
    assert bool(result.notes) is (said is not None)
