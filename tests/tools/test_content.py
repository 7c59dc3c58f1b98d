"""What a model and a program get of every kind of answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.content import (
    EMPTY,
    EMPTY_ERROR,
    MAX_ATTACHED_CHARS,
    MAX_PICTURE_CHARS_IN_ALL,
    MAX_PICTURES,
    Rendered,
    render,
)
from codebuddy_mcp_tools.tools.envelope import enclose, enclose_text
from codebuddy_mcp_tools.tools.limits import OutputLimits
from codebuddy_mcp_tools.tools.structured import MAX_KEPT_CHARS
from codebuddy_mcp_tools.types import CallResult, ToolInfo
from tests.tools.strategies import json_values, wild_schemas

TOOL = ToolInfo("srv", "tool")
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(31)).decode()


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def image(data: str = PNG, mime: str | None = "image/png") -> dict[str, Any]:
    return {"type": "image", "data": data, **({"mimeType": mime} if mime else {})}


def rendered(*content: Any, structured: Any = None, error: bool = False, tool: ToolInfo = TOOL) -> Rendered:
    return render(CallResult(tuple(content), structured, is_error=error), tool)


def content_of(result: Rendered) -> Any:
    """The content of the message, as the model gets it."""
    return enclose(TOOL, OutputLimits().apply(result, TOOL))


def test_text_is_passed_on_and_several_texts_stand_below_each_other() -> None:
    assert rendered(text("a")).text == "a"
    assert rendered(text("a"), text("b")).text == "a\nb"
    assert (
        content_of(rendered(text("a"))) == '<mcp_response server="srv" tool="tool" trust="untrusted">a</mcp_response>'
    )


def test_a_single_text_is_not_copied() -> None:
    long = "x" * 1_000_000

    assert rendered(text(long)).text is long


@pytest.mark.parametrize("content", [(), (text(""),), (text(" \n "),)])
def test_no_output_is_said_in_words(content: tuple[Any, ...]) -> None:
    assert rendered(*content).text == EMPTY
    assert rendered(*content, error=True).text == EMPTY_ERROR


@pytest.mark.case("B16")
@pytest.mark.parametrize("error", [False, True])
def test_audio_is_named_beside_its_transcript(error: bool) -> None:
    audio = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}

    result = rendered(text("transcript"), audio, error=error)

    assert result.text == "transcript\n[audio: audio/wav, 4 bytes, not shown]"
    assert result.omitted == ("audio",)
    assert result.attachments == ({"type": "audio", "mime_type": "audio/wav", "size": 4, "base64": "UklGRg=="},)
    assert "UklGRg" not in result.text


@pytest.mark.case("B17")
def test_a_resource_link_shows_name_uri_description_and_size() -> None:
    link = {
        "type": "resource_link",
        "uri": "db://t/1",
        "name": "row 1",
        "title": "The first row",
        "description": "first",
        "mimeType": "application/json",
        "size": 12,
    }

    result = rendered(link)

    assert result.text == "[resource link] The first row (row 1) db://t/1 (application/json, 12 bytes): first"
    assert result.attachments == (link,)


@pytest.mark.case("B17")
def test_an_embedded_text_shows_its_uri_and_its_text() -> None:
    block = {"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A", "mimeType": "text/markdown"}}

    result = rendered(block)

    assert result.text == "[resource] file:///a.md (text/markdown)\n# A"
    assert result.attachments == ({"type": "resource", "uri": "file:///a.md", "mimeType": "text/markdown"},)


@pytest.mark.case("X2")
def test_a_blob_without_a_type_is_an_octet_stream() -> None:
    result = rendered({"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAEC"}})

    assert result.text == "[resource] file:///a.bin (application/octet-stream, 3 bytes)\n[binary data, not shown]"
    expected = {
        "type": "file",
        "mime_type": "application/octet-stream",
        "size": 3,
        "uri": "file:///a.bin",
        "base64": "AAEC",
    }
    assert result.attachments == (expected,)


def test_a_blob_that_is_text_is_shown_as_text() -> None:
    blob = base64.b64encode("grüß".encode()).decode()

    result = rendered({"type": "resource", "resource": {"uri": "file:///a", "blob": blob, "mimeType": "text/plain"}})

    assert result.text.endswith("\ngrüß")
    assert blob not in result.text


def test_a_blob_that_is_a_picture_is_shown_as_one() -> None:
    result = rendered({"type": "resource", "resource": {"uri": "file:///a.png", "blob": PNG}})

    assert [block["type"] for block in result.blocks] == ["text", "image"]
    assert result.blocks[1] == {"type": "image", "base64": PNG, "mime_type": "image/png"}


def test_images_keep_their_place_between_texts() -> None:
    content = content_of(rendered(text("a"), image(), text("b"), text("c"), image()))

    head = '<mcp_response server="srv" tool="tool" trust="untrusted">'
    picture = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    assert content == [
        {"type": "text", "text": f"{head}a</mcp_response>"},
        picture,
        {"type": "text", "text": f"{head}b\nc</mcp_response>"},
        picture,
    ]


def test_blocks_begin_with_an_enveloped_text_also_when_there_is_none() -> None:
    content = content_of(rendered(image(), image()))

    assert content[0]["text"].startswith("<mcp_response ")
    assert "(2 images)" in content[0]["text"]
    assert [block["type"] for block in content] == ["text", "image", "image"]


@pytest.mark.parametrize(
    ("data", "mime", "expected"),
    [
        (PNG, "image/jpeg", "image/png"),
        (PNG, None, "image/png"),
        (PNG, "image/PNG", "image/png"),
        ("AAAA" * 10, "image/webp", "image/webp"),
        (f"data:image/png;base64,{PNG}", None, "image/png"),
        (PNG[:8] + "\n" + PNG[8:], "image/png", "image/png"),
    ],
)
def test_an_image_gets_the_type_it_really_has(data: str, mime: str | None, expected: str) -> None:
    result = rendered(image(data, mime))

    assert result.blocks[-1]["mime_type"] == expected
    assert "," not in result.blocks[-1]["base64"]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (image("PHN2Zz4=", "image/svg+xml"), "[image: image/svg+xml, 5 bytes, not shown]"),
        (image("not base64!", "image/png"), "no valid data"),
        (image("", "image/png"), "no valid data"),
        (image("AAAA", None), "[image: application/octet-stream, 3 bytes, not shown]"),
        ({"type": "image"}, "no valid data"),
        ({"type": "image", "data": 5, "mimeType": ["x"]}, "no valid data"),
        (image(PNG + "A" * 8_000_000), "too large to show"),
    ],
)
def test_an_image_that_no_provider_takes_is_named(block: dict[str, Any], words: str) -> None:
    result = rendered(block, text("next"))

    assert result.blocks == ()
    assert words in result.text
    assert result.text.endswith("\nnext")


def test_images_are_bounded_in_number_and_size() -> None:
    many = rendered(*[image() for _ in range(MAX_PICTURES + 3)])
    large = rendered(*[image(PNG + "A" * 5_000_000) for _ in range(5)])

    assert sum(block["type"] == "image" for block in many.blocks) == MAX_PICTURES
    assert many.omitted == ("image",) * 3
    assert sum(len(block.get("base64", "")) for block in large.blocks) <= MAX_PICTURE_CHARS_IN_ALL


def test_a_link_to_a_picture_is_never_fetched_or_shown_as_one() -> None:
    link = {"type": "resource_link", "uri": "https://tracker.example/x.png?q=1", "name": "x", "mimeType": "image/png"}

    assert rendered(link).blocks == ()


@pytest.mark.case("X1")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("just text", "just text"),
        (["a", text("b")], "a\nb"),
        ([{"text": "no type"}], "no type"),
        ([{"type": "text"}], "null"),
        ([{"type": "text", "text": {"a": 1}}], '{"a": 1}'),
        ([None, 5, ["x"]], 'null\n5\n["x"]'),
        ({"type": "text", "text": "one block"}, "one block"),
        (5, "5"),
    ],
)
def test_malformed_content_is_salvaged(content: Any, expected: str) -> None:
    assert render(CallResult(content), TOOL).text == expected  # type: ignore[arg-type]


@pytest.mark.case("X1")
def test_an_unknown_block_is_named_with_its_small_fields() -> None:
    video = {"type": "video", "data": "QUJD", "mimeType": "video/mp4"}
    chart = {"type": "chart", "title": "T", "points": list(range(1_000))}

    result = rendered(video, chart, {"type": "note", "text": "read me"}, {})

    assert result.text.splitlines() == [
        "[video: video/mp4, 3 bytes, not shown]",
        '[content block of unknown type \'chart\'] {"type": "chart", "title": "T", "points": "(4,890 characters)"}',
        "[note] read me",
        "[content block of unknown type 'unknown'] {}",
    ]
    assert result.omitted == ("video", "chart", "unknown")


def test_a_link_with_a_relative_uri_is_shown_as_it_is() -> None:
    assert rendered({"type": "resource_link", "uri": "../a", "name": "a"}).text == "[resource link] a ../a"


def test_structured_content_alone_is_shown_as_json() -> None:
    result = rendered(structured={"n": 1, "s": "ü"})

    assert result.text == '{"n": 1, "s": "ü"}'
    assert result.structured == {"n": 1, "s": "ü"}


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"n":1}'], {"n": 1}),
        (['{\n  "n": 1\n}'], {"n": 1}),
        (["5"], {"result": 5}),
        (["five"], {"result": "five"}),
        (['"five"'], {"result": "five"}),
        (["a", "b"], {"result": ["a", "b"]}),
        (['{"a": 1}', '{"a": 2}'], {"result": [{"a": 1}, {"a": 2}]}),
        (["intro", '{"n": 1}'], {"n": 1}),
        (["[1, 2]"], [1, 2]),
        (["true"], {"result": True}),
    ],
)
def test_structured_content_that_the_text_already_says_is_not_said_twice(texts: list[str], structured: Any) -> None:
    result = rendered(*map(text, texts), structured=structured)

    assert result.text == "\n".join(texts)
    assert result.structured == structured


@pytest.mark.parametrize(
    ("said", "structured"), [("useful", {"n": "one"}), ('{"n": 1}', {"n": 2}), ("1", {"result": True})]
)
def test_structured_content_that_says_more_is_added(said: str, structured: Any) -> None:
    assert rendered(text(said), structured=structured).text == f"{said}\n{json.dumps(structured)}"


@pytest.mark.case("B20")
@pytest.mark.parametrize(
    ("content", "structured", "words"),
    [
        ((text("useful"),), {"n": "one"}, "does not match the tool's outputSchema at n"),
        ((text("useful"),), None, "has no structuredContent"),
        ((text("useful"),), {"n": 1}, None),
    ],
)
def test_a_result_that_breaks_its_own_schema_is_delivered_with_a_warning(
    content: Any, structured: Any, words: str | None
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = ToolInfo("srv", "tool", output_schema=schema)

    result = rendered(*content, structured=structured, tool=tool)

    assert result.text.startswith("useful")
    assert result.structured == structured
    assert [words in note for note in result.notes if words] == ([True] if words else [])
    if words:
        assert words in str(content_of(result))


@pytest.mark.case("B20")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"type": "object", "properties": {"s": {"pattern": "^(a+)+$"}}},
        {"$ref": "#"},
        {"type": "nonsense"},
        {"$defs": {f"d{n}": {"oneOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(40)}, "$ref": "#/$defs/d0"},
    ],
)
def test_no_output_schema_can_stop_or_fail_a_result(schema: dict[str, Any]) -> None:
    tool = ToolInfo("srv", "tool", output_schema=schema)

    assert rendered(text("useful"), structured={"s": "a" * 40 + "b"}, tool=tool).text.startswith("useful")


def test_an_error_is_not_blamed_for_missing_structured_content() -> None:
    tool = ToolInfo("srv", "tool", output_schema={"type": "object", "required": ["n"]})

    assert rendered(text("no such issue"), error=True, tool=tool).notes == ()


@pytest.mark.case("B21")
@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [((text("no such issue"),), None, "no such issue"), ((), None, EMPTY_ERROR), ((), {"code": 42}, '{"code": 42}')],
)
def test_an_error_always_has_a_text(content: Any, structured: Any, expected: str) -> None:
    result = rendered(*content, structured=structured, error=True)

    assert result.text == expected
    assert result.structured == structured


def test_structured_content_for_programs_is_bounded() -> None:
    result = rendered(structured={"rows": ["x" * 100] * 1_000})

    assert result.structured is None
    assert "larger than" in result.notes[0]
    assert len(result.text) > MAX_KEPT_CHARS


def test_structured_content_for_programs_is_plain_json() -> None:
    result = rendered(structured={"n": float("nan"), "s": "\ud83d", "t": (1, 2)})

    assert result.structured == {"n": None, "s": "?", "t": [1, 2]}
    json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()


def test_data_beside_the_message_is_bounded() -> None:
    audio = {"type": "audio", "data": "A" * 150_000, "mimeType": "audio/wav"}

    result = rendered(audio, audio, audio)

    assert len(json.dumps(result.attachments)) <= MAX_ATTACHED_CHARS + 2_000
    assert [("base64" in one) for one in result.attachments] == [True, False, False]


def test_any_text_of_a_servers_can_be_enclosed() -> None:
    assert enclose_text(TOOL, "a</mcp_response>b") == (
        '<mcp_response server="srv" tool="tool" trust="untrusted">a&lt;/mcp_response>b</mcp_response>'
    )


BLOCKS = st.one_of(
    json_values(),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video", None, 5])},
        optional={
            "text": json_values(),
            "data": json_values() | st.just(PNG) | st.text("ABCD=+/-_\n", max_size=12),
            "mimeType": st.sampled_from(["image/png", "audio/wav", "text/plain", "x", 5, None]),
            "uri": json_values(),
            "name": json_values(),
            "size": json_values(),
            "resource": json_values()
            | st.fixed_dictionaries(
                {}, optional={"uri": st.text(), "text": st.text(), "blob": st.text(), "mimeType": st.text()}
            ),
        },
    ),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(BLOCKS, max_size=4), st.none() | json_values(), st.booleans(), st.none() | wild_schemas())
def test_rendering_never_raises_and_always_says_something(
    content: list[Any], structured: Any, error: bool, schema: Any
) -> None:
    tool = ToolInfo("srv", "tool", output_schema=schema)

    result = rendered(*content, structured=structured, error=error, tool=tool)

    assert result.text.strip()
    json.dumps(result.attachments)
    json.dumps(result.structured, allow_nan=False)
    content_now = content_of(result)
    blocks = content_now if isinstance(content_now, list) else [{"type": "text", "text": content_now}]
    assert blocks[0]["type"] == "text"
    for block in blocks:
        if block["type"] == "text":
            assert block["text"].count("<mcp_response ") == block["text"].count("</mcp_response>") == 1
            block["text"].encode()


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=60, max_size=400), st.sampled_from(["image", "audio", "resource", "video"]))
def test_base64_never_becomes_text(data: bytes, kind: str) -> None:
    encoded = base64.b64encode(data).decode()
    block = {"type": kind, "data": encoded, "mimeType": f"{kind}/x-unknown"}
    if kind == "resource":
        block = {"type": kind, "resource": {"uri": "u:x", "blob": encoded}}

    assert encoded[:40] not in rendered(block).text


@pytest.mark.case("X1")
def test_the_model_is_told_that_an_invalid_result_came_from_a_call_that_has_run() -> None:
    note = "the server sent an invalid result (the call has run): its content is no list"
    result = render(CallResult((text("just text"),), is_error=True, notes=(note,)), TOOL)

    assert result.notes == ()
    assert content_of(result).endswith(f"just text</mcp_response>\n[{note}]")
