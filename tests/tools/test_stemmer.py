"""The stemmer joins the forms of a word, and keeps different words apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.stemmer import stem


@pytest.mark.parametrize(
    "forms",
    [
        "file files",
        "create creates created creating creation",
        "calculate calculator calculating calculation",
        "notify notifies notified notification",
        "query queries",
        "search searches searching searched",
        "run running runs",
        "stop stopped stopping",
        "class classes",
        "index indexes indexing indexed",
        "translate translation translator",
        "organization organize organizer",
        "agree agreed",
        "fail failing failed",
        "size sized sizing",
    ],
)
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("new", "news"),
        ("status", "state"),
        ("process", "procession"),
        ("organ", "organization"),
        ("port", "portal"),
        ("address", "add"),
        ("base", "basis"),
        ("import", "important"),
        ("read", "ready"),
        ("station", "state"),
    ],
)
def test_different_words_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize("word", ["", "a", "s3", "k8s", "ls", "größe", "日本", "привет", "is", "css", "dns", "bus"])
def test_short_words_words_with_digits_and_other_scripts_come_back_unchanged(word: str) -> None:
    assert stem(word) == word


@given(st.text("abcdefghijklmnopqrstuvwxyz", max_size=30))
def test_a_stem_is_never_empty_or_longer_than_one_letter_more(word: str) -> None:
    stemmed = stem(word)
    assert bool(stemmed) == bool(word)
    assert len(stemmed) <= len(word) + 1


@given(st.text(max_size=30))
def test_any_text_has_a_stem(text: str) -> None:
    assert isinstance(stem(text), str)


def test_a_word_of_vowels_and_ys_takes_no_time() -> None:
    assert stem("y" * 64)
    assert stem("aei" * 20 + "ing")
