"""Lines from a pipe: cut where they end, bounded, and as much understood of a bad one as can be."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.client.lines import LineSplitter, Oversized, answered_id, looks_like_message, parse_line


@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_lines_come_out_as_they_went_in_wherever_the_chunks_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, out, rest = LineSplitter(), [], stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        out += splitter.feed(rest[:size])
        rest = rest[size:]
    assert out == lines
    assert splitter.flush() == []


def test_the_last_line_may_lack_its_line_feed() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\nb") == [b"a"]
    assert splitter.flush() == [b"b"]
    assert splitter.flush() == []


def test_a_line_over_the_limit_keeps_its_edges_and_the_next_one_is_whole() -> None:
    splitter = LineSplitter(limit=1000)
    long = b'{"id": 7, "result": "' + b"x" * 5000 + b'"}'
    lines = []
    for start in range(0, len(long), 300):
        lines += splitter.feed(long[start : start + 300])
    lines += splitter.feed(b'\n{"id": 8}\n')
    assert lines == [Oversized(long[:512], long[-512:]), b'{"id": 8}']


def test_a_line_over_the_limit_in_one_piece_is_noticed_too() -> None:
    (line,) = LineSplitter(limit=10).feed(b"x" * 20 + b"\n")
    assert isinstance(line, Oversized)


def test_a_line_that_never_ends_costs_no_more_than_the_limit() -> None:
    splitter, chunk = LineSplitter(limit=1 << 20), b"x" * (1 << 16)
    tracemalloc.start()
    for _ in range(1000):
        splitter.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'\xef\xbb\xbf{"id": 1}', {"id": 1}),
        (b'{"id": 1}\r', {"id": 1}),
        (b'{"t": "a\xff\xfeb"}', {"t": "a\ufffd\ufffdb"}),
        (b'{"t": "\\ud83d"}', {"t": "\ud83d"}),
        (b"[1, 2]", [1, 2]),
    ],
)
def test_a_line_is_read_in_spite_of_its_flaws(line: bytes, value: object) -> None:
    assert parse_line(line) == value


@pytest.mark.parametrize("line", [b"Server listening", b"{", b"\xff\xfe{\x00", b"[" * 100_000])
def test_a_line_that_is_not_json_is_one_kind_of_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        parse_line(line)


def test_depth_that_one_parser_refuses_and_another_takes_is_taken() -> None:
    value = parse_line(b"[" * 500 + b"]" * 500)
    assert json.dumps(value) == "[" * 500 + "]" * 500


@pytest.mark.parametrize(
    ("head", "tail", "found"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{"content":[', None, 12),
        (b'{ "id" : "12" , "result": [', None, "12"),
        (b'\xef\xbb\xbf{"id":3,"error":', None, 3),
        (b'{"jsonrpc":"2.0","result":{"id":99,"x":"', b'yyy"},"id":4}', 4),
        (b'{"result":{"x":"', b'yyy"},"id":5,"jsonrpc":"2.0"}\r', 5),
        (b'{"result":{"id":99,"x":"', b'yyy"}}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":1', None, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":', None, None),
        (b'{"id":null,"error":', None, None),
        (b"xxxx", b"yyyy", None),
    ],
)
def test_the_id_of_an_unreadable_answer_is_found_only_where_it_can_stand(
    head: bytes, tail: bytes | None, found: object
) -> None:
    assert answered_id(head, tail) == found


def test_a_banner_is_told_from_a_broken_message() -> None:
    assert looks_like_message(b' \xef\xbb\xbf{"id"') is False
    assert looks_like_message(b'\xef\xbb\xbf {"id"')
    assert not looks_like_message(b"Starting {server}")
