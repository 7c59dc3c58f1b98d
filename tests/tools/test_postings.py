"""The inverted index: what a word is worth, and what is spelled like it."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.tools.postings import Postings


def postings(*documents: str) -> Postings:
    found = Postings()
    for slot, words in enumerate(documents):
        found.add(slot, dict.fromkeys(words.split(), 0.5))
    return found


def test_a_rare_word_is_worth_more_than_a_common_one_and_an_unknown_one_nothing() -> None:
    index = postings("get issue", "get file", "get mail")
    assert index.idf("issue") > index.idf("get") > 0
    assert index.idf("nothing") == 0


def test_what_a_word_is_worth_follows_every_change() -> None:
    index = postings("issue", "file")
    before = index.idf("issue")
    index.add(2, {"issue": 0.5})
    assert index.idf("issue") < before
    index.remove(2, ["issue"])
    assert index.idf("issue") == before


def test_only_the_words_of_what_is_removed_are_touched() -> None:
    index = postings("issue file", "issue mail")
    mail = index.get("mail")
    index.remove(0, ["issue", "file"])
    assert index.get("issue") == [1, 0.5]
    assert index.get("mail") is mail
    assert "file" not in index
    assert index.size == 1


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("wether", "weather"),
        ("repositroy", "repository"),
        ("isue", "issue"),
        ("emial", "email"),
        ("forcast", "forecast"),
    ],
)
def test_a_misspelt_word_comes_near_the_one_that_was_meant(word: str, meant: str) -> None:
    index = postings("weather forecast repository issue email file delete create pods")
    assert index.near(word)[0][0] == meant


@pytest.mark.parametrize("word", ["zzzzzz", "qwfp", "xylophone"])
def test_a_word_that_is_like_none_comes_near_nothing(word: str) -> None:
    assert postings("weather forecast repository issue email").near(word) == []


def test_equally_near_words_come_in_their_own_order() -> None:
    one = postings("cat1x cat2x cat3x cat4x")
    other = postings("cat4x cat3x cat2x cat1x")
    assert [term for term, _ in one.near("cat0x")] == [term for term, _ in other.near("cat0x")]


def test_spellings_follow_every_change() -> None:
    index = postings("weather")
    assert index.near("mesage") == []
    index.add(1, {"message": 0.5})
    assert index.near("mesage")[0][0] == "message"
    index.remove(1, ["message"])
    assert index.near("mesage") == []
