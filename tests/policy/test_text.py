"""Cleaning: what goes, what stays, and how many characters went."""

from __future__ import annotations

import shlex
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.policy.text import (
    MAX_DESCRIPTION,
    clean,
    clean_description,
    clean_line,
    command_argument,
    show,
)

_VISIBLE_FORMATS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_JOINERS = frozenset("\u200c\u200d")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[8mhidden\x1b[28m", "hidden"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x1b_apc\x1b\\text", "text"),
        ("\x1b^pm\x9ctext", "text"),
        ("\x1b(B\x1bctext", "text"),
        ("a\x1b", "a"),
        ("\x1b\x1b[31m[31mx", "[31mx"),
        ("bell\x07 null\x00 backspace\x08", "bell null backspace"),
        ("c1 \x85\x90 del\x7f", "c1  del"),
        ("tag\U000e0001\U000e0049\U000e0067\U000e007f", "tag"),
        ("vs\U000e0100\U000e01ef", "vs"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        ("ze\u200bro\u2060wi\ufeffdth", "zerowidth"),
        ("soft\u00adhyphen \u061c\u180e\u034f", "softhyphen "),
        ("\u3164\u115f\u1160\uffa0", ""),
        ("lone\ud83d surrogate", "lone surrogate"),
        ("\u2061\u2062\u2063\u2064\u206a\u206f", ""),
        ("non\ufffecharacter\ufdd0", "noncharacter"),
    ],
)
def test_what_no_reader_sees_is_removed_and_counted(text: str, expected: str) -> None:
    cleaned = clean(text)
    assert cleaned.text == expected
    assert cleaned.removed == len(text) - len(expected)


@pytest.mark.parametrize(
    "text",
    [
        "plain", "tab\tand\nnewline", "windows\r\nlines\r\n", "emoji 👩‍👩‍👧‍👦 ❤️‍🔥 👍🏽 🏳️‍🌈 #️⃣", "می‌خواهم", "क्‍ष",
        "עברית عربى", "日本語テキスト", "combining e\u0301 a\u0308", "math 𝒜 ∑ ≤", "private \ue0b0 use",
        "arabic number \u0600\u06dd",
        "nbsp\u00a0 em\u2003space",
    ],
)  # fmt: skip
def test_ordinary_writing_stays_as_it_is(text: str) -> None:
    assert clean(text) == type(clean(""))(text, 0)


def test_a_carriage_return_alone_becomes_a_line_end_and_counts() -> None:
    assert clean("10%\r20%\r\ndone") == type(clean(""))("10%\n20%\r\ndone", 1)


def test_runs_of_joiners_and_selectors_are_cut_to_one() -> None:
    assert clean("a" + "\u200c\u200d" * 50 + "b").text == "a\u200cb"
    assert clean("a" + "".join(map(chr, range(0xFE00, 0xFE10))) + "b").text == "a\ufe00b"
    assert clean("❤" + "\ufe0f\u200d" * 20).text == "❤\ufe0f\u200d"


def test_names_lose_joiners_and_selectors() -> None:
    assert clean("de\u200dlete\u200c\ufe0f", keep_joiners=False).text == "delete"


def test_every_format_character_of_unicode_is_covered() -> None:
    missed = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(char := chr(code)) in {"Cf", "Cs"}
        and char not in _VISIBLE_FORMATS | _JOINERS
        and clean(f"a{char}b").text != "ab"
    ]
    assert missed == []


@given(st.text() | st.text(alphabet="\x1b[]\x07\x9b\x9d0;m\\\r\n\u200b\u200d\ufe0f\u202ea<\U000e0041\ud800"))
def test_cleaning_twice_changes_nothing(text: str) -> None:
    once = clean(text)
    assert clean(once.text) == type(once)(once.text, 0)
    assert not set(once.text) & set("\x00\x1b\x9b\u202e\u2066\u200b\ufeff\U000e0041")
    once.text.encode("utf-8")


def test_a_line_is_one_line_of_the_asked_length() -> None:
    assert clean_line("  a\n\tb\u2028c \x1b[31md\u200b ") == "a b c d"
    assert clean_line("x" * 300, 10) == "x" * 9 + "…"
    assert clean_line("", 10) == ""
    assert len(clean_line("word " * 1_000_000, 200)) <= 200


def test_a_description_is_cleaned_and_capped() -> None:
    text = clean_description("<IMPORTANT>\u200b\U000e0049 read" + "x" * 200_000)
    assert text.startswith("<IMPORTANT> read")
    assert len(text) == MAX_DESCRIPTION
    assert text.endswith("…")
    assert clean_description("short") == "short"


def test_showing_drops_nothing_and_acts_on_nothing() -> None:
    assert show("a\x1b[31m\u202eb\nc\td\\e\U000e0041\ud83d") == r"a\x1b[31m\u202eb\nc\td\\e\U000e0041\ud83d"
    assert show("plain ünï 名前") == "plain ünï 名前"
    assert len(show("x" * 5000 + "\n")) == 5002


@given(st.text())
def test_what_is_shown_is_printable_and_two_texts_are_never_shown_alike(text: str) -> None:
    shown = show(text)
    assert shown.isprintable()
    assert show(text + "\\n") != show(text + "\n")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("plain-name_1.x", "plain-name_1.x"),
        ("näme", "näme"),
        ("Google Sheets", '"Google Sheets"'),
        ("a b", '"a b"'),
        ("--yes", "-- --yes"),
        ("-y", "-- -y"),
        ("-- all", '-- "-- all"'),
        ("$(id)", "'$(id)'"),
        ("`id`", "'`id`'"),
        ("a;b", "'a;b'"),
    ],
)
def test_a_name_in_a_command_to_copy_is_one_argument(name: str, argument: str) -> None:
    assert command_argument(name) == argument
    assert shlex.split(argument)[-1] == name
