"""Properties of the edit that hold for every file, whatever it looks like."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config.document import plain_json
from codebuddy_mcp_tools.config.jsonc import parse
from codebuddy_mcp_tools.config.splice import put_text, remove_text

keys = st.text(alphabet='abé "\\/~_-{}[],:', min_size=0, max_size=4)
scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.text(alphabet='ab,{}[]"/*\\\n é', max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
comments = st.sampled_from(
    ["", "", " ", "/* c */", '/* { " , */', "// l } ,\n", "\n  ", "\n\t", "\r\n  ", " /* a */ // b\n  "]
)


@st.composite
def spelled(draw, value):
    """A JSON-with-comments spelling of a value."""
    gap = lambda: draw(comments)  # noqa: E731
    if isinstance(value, dict):
        parts = [
            f"{gap()}{json.dumps(key, ensure_ascii=draw(st.booleans()))}{gap()}:{gap()}{draw(spelled(item))}{gap()}"
            for key, item in value.items()
        ]
        return "{" + ",".join(parts) + ("," + gap() if parts and draw(st.booleans()) else gap()) + "}"
    if isinstance(value, list):
        parts = [f"{gap()}{draw(spelled(item))}{gap()}" for item in value]
        return "[" + ",".join(parts) + ("," + gap() if parts and draw(st.booleans()) else gap()) + "]"
    return json.dumps(value)


@st.composite
def documents(draw):
    value = draw(st.dictionaries(keys, values, max_size=4))
    value["m"] = draw(st.dictionaries(keys, values, max_size=4))
    return value, draw(comments) + draw(spelled(value)) + draw(comments)


def comments_of(text: str) -> list[str]:
    plain = plain_json(text).text
    return [c for c, p in zip(text, plain, strict=True) if c != p and c != ","]


@given(documents(), keys, values)
def test_setting_gives_the_old_value_with_that_one_change(document, key, new):
    value, text = document
    assert parse(text) == value
    changed = put_text(text, ("m", key), new)
    expected = {**value, "m": {**value["m"], key: new}}
    assert parse(changed) == expected
    assert list(parse(changed)["m"]) == list(expected["m"])
    if key not in value["m"]:
        assert comments_of(changed) == comments_of(text)


@given(documents(), keys, values)
def test_adding_to_entries_that_are_there_and_removing_again_gives_the_text_back(document, key, new):
    value, text = document
    if key not in value["m"]:
        added = put_text(text, ("m", key), new)
        removed = remove_text(added, ("m", key))
        assert parse(removed) == value
        if value["m"]:
            assert removed == text


@given(documents(), st.data())
def test_removing_gives_the_old_value_without_that_key_and_keeps_every_comment(document, data):
    value, text = document
    if value["m"]:
        key = data.draw(st.sampled_from(list(value["m"])))
        shorter = remove_text(text, ("m", key))
        rest = {name: item for name, item in value["m"].items() if name != key}
        assert parse(shorter) == {**value, "m": rest}
        assert len(shorter) < len(text)


@given(documents(), keys)
def test_removing_what_is_not_there_changes_nothing(document, key):
    value, text = document
    if key not in value["m"]:
        assert remove_text(text, ("m", key)) == text
    assert remove_text(text, ("no such", key)) == text


@given(documents(), st.lists(keys, min_size=1, max_size=3), values)
def test_objects_on_the_way_are_made(document, path, new):
    _, text = document
    table = parse(put_text(text, ("brand new", *path), new))
    for part in ("brand new", *path):
        table = table[part]
    assert table == new
