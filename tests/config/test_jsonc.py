"""Reading JSON with comments."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config import jsonc, parse
from codebuddy_mcp_tools.config.document import join_pointer, plain_json, scan, split_pointer
from codebuddy_mcp_tools.errors import ConfigError, ConfigSyntaxError

SERVERS = {"mcpServers": {"s": {"command": "x"}}}


@pytest.mark.case("B52")
def test_comments_and_trailing_commas_are_read_and_strings_that_look_like_comments_stay():
    text = """{ // c
 "mcpServers":{ /* x */ "s":{"type":"http","url":"http://127.0.0.1:1/mcp","args":["a/*b","c//d","e,]"],},},}"""
    assert parse(text)["mcpServers"]["s"] == {
        "type": "http",
        "url": "http://127.0.0.1:1/mcp",
        "args": ["a/*b", "c//d", "e,]"],
    }


@pytest.mark.case("B51")
@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (b"", "utf-16-le"),
        (b"", "utf-8"),
    ],
)
def test_every_unicode_encoding_is_read_with_or_without_a_byte_order_mark(bom, encoding):
    assert parse(bom + json.dumps(SERVERS).encode(encoding)) == SERVERS


def test_json5_is_read_when_it_is_small():
    assert parse("{mcpServers: {'s': {command: 'x', timeout: 0x10, },}, /* ' */}") == {
        "mcpServers": {"s": {"command": "x", "timeout": 16}}
    }


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("  // only a comment\n", 1, 1),
        ('{"a": 1,,}', 1, 9),
        ("[,]", 1, 2),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{\n "a": {"k": 1,\n  "k": 2}}', 3, 3),
        ('{"a": /* never closed', 1, 7),
        ('{\n "a": 1', 2, 8),
        ('{"a": “b”}', 1, 7),
        ("{'a': 1\n b: 2}", 2, 2),
        ('{"a": 1} x', 1, 10),
        ('{"a": "\n"}', 1, 8),
        ("nul", 1, 4),
    ],
)
def test_a_syntax_error_tells_line_and_column(text, line, column):
    with pytest.raises(ConfigSyntaxError) as caught:
        parse(text, Path("x.json"))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value).startswith(f"x.json:{line}:{column}: ")


def test_a_key_that_stands_twice_is_refused_by_name():
    with pytest.raises(ConfigSyntaxError, match='"a" stands twice'):
        parse('{"mcpServers": {"a": {"command": "good"}, "a": {"command": "bad"}}}')
    assert parse('{"x": {"a": 1}, "y": {"a": 2}}') == {"x": {"a": 1}, "y": {"a": 2}}


def test_bytes_that_are_no_text_are_an_error_with_their_place():
    with pytest.raises(ConfigSyntaxError) as caught:
        parse(b'{\n"a": "\xff"}')
    assert (caught.value.line, caught.value.column) == (2, 7)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100 + "]" * 100,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "[" * 200_000,
        "{a:" * 60 + "'" + "}" * 60,
        '{"n": ' + "9" * 5000 + "}",
        "{a: 1, " + " " * jsonc.MAX_JSON5_CHARS + "b: 2}",
        '"' + '\\"' * 200_000,
        "/*" * 200_000,
        "{" + "/* /" * 100_000,
        "x" * (jsonc.MAX_BYTES + 1),
    ],
    ids=["deep", "deeper", "unclosed", "deep json5", "digits", "big json5", "quotes", "comments", "half", "big"],
)
def test_a_hostile_text_is_a_clear_error(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, Path("hostile.json"))
    assert len(str(caught.value)) < 300
    assert "hostile.json" in str(caught.value)


def test_a_large_ordinary_file_is_read():
    big = {"history": ["x" * 100] * 5000, **SERVERS}
    assert parse("// c\n" + json.dumps(big, indent=1)) == big


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.sampled_from([None, 1, "\t"]))
def test_whatever_json_writes_is_read_back(value, indent):
    text = json.dumps(value, indent=indent)
    assert parse(text) == value
    assert plain_json(text).text == text
    spaced = text.replace("{", "{ /* c */ ").replace("[", "[ // c\n") if '"' not in text else text
    assert parse(spaced) == value


@given(st.text(alphabet="{}[]\",:/*\\ \n\r\t'ab1-.eE“\ufeff\x00", max_size=60))
def test_any_text_gives_a_value_or_a_configuration_error(text):
    try:
        value = parse(text)
    except ConfigError:
        return
    json.dumps(value)
    assert scan(text.removeprefix("\ufeff")) is not None


@given(st.lists(st.text()))
def test_a_json_pointer_survives_its_escapes(parts):
    assert split_pointer(join_pointer(*parts)) == tuple(parts)


def test_locate_finds_the_line_of_a_value_under_an_escaped_key():
    text = '{\n  "projects": {\n    "/a~b": {"mcpServers": {\n      "s": 1}}}}'
    assert jsonc.locate(text, "/projects/~1a~0b/mcpServers/s") == (4, 12)
    assert jsonc.locate(text, "/nothing") == (1, 1)
