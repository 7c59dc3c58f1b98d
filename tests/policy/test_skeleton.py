"""The skeleton: texts that look alike have one, and plain text is its own."""

from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.policy import skeleton as room
from codebuddy_mcp_tools.policy.skeleton import lookalikes_of, loose, skeleton


@pytest.mark.parametrize(
    "text",
    [
        "delete",
        "DELETE",
        "dеlete",
        "ｄｅｌｅｔｅ",
        "𝐝𝐞𝐥𝐞𝐭𝐞",
        "𝓭𝓮𝓵𝓮𝓽𝓮",
        "ⓓⓔⓛⓔⓣⓔ",
        "dé́lete",
        "de\u200blete",
        "d̶e̶lete",
        "ᴅᴇʟᴇᴛᴇ",
        "🅳elete",
        "🇩elete",
        "ԁelete",
        "ᗞelete",
        "Ꭰelete",
        "de\xadlete",
        "ꓓꓰꓡꓰꓔꓰ",
        "ΔELETE".replace("Δ", "D"),
        "dɛlete",
        "ďeĺeţe",
    ],
)
def test_what_looks_like_a_word_has_its_skeleton(text: str) -> None:
    assert skeleton(text) == "delete"
    assert loose(text) == "delete"


def test_capitals_that_look_like_other_letters_than_their_small_forms() -> None:
    assert skeleton("ΗΜΝΥΖ") == "hmnyz"
    assert skeleton("ημνυζ") == "nmnvu"[0] + skeleton("μ") + "v" + "u" + "z"


def test_plain_text_is_its_own_skeleton() -> None:
    plain = string.ascii_lowercase + string.digits + string.punctuation
    assert skeleton(plain) == plain
    assert skeleton("a\tb\nc\u00a0d") == "a b c d"


def test_no_character_looks_like_two_letters() -> None:
    counted = Counter("".join(room._LOOKALIKES.values()))
    assert [char for char, times in counted.items() if times > 1] == []
    assert not set("".join(room._LOOKALIKES.values())) & set(string.printable)


@pytest.mark.parametrize("plain", ["<", ">", "/", "\\", "&", "%"])
def test_the_lookalikes_of_a_sign_have_it_in_their_skeleton(plain: str) -> None:
    assert all(plain in skeleton(char) for char in lookalikes_of(plain))


@given(st.text())
def test_the_skeleton_of_a_skeleton_is_itself(text: str) -> None:
    once = skeleton(text)
    assert skeleton(once) == once or not once.isascii()


def test_the_table_of_seen_characters_is_bounded() -> None:
    skeleton("".join(map(chr, range(0x10000, 0x30000))))
    assert len(room._TABLE) <= 1 << 16
