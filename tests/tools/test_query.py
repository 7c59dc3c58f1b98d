"""A query is taken apart: wishes, words that count, values, words that stand in for others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.postings import Postings
from codebuddy_mcp_tools.tools.query import LIGHT_SHARE, MAX_QUERY, VALUE_SHARE, Query, parse
from codebuddy_mcp_tools.tools.tokens import terms


def index(*texts: str) -> Postings:
    postings = Postings()
    for slot, text in enumerate(texts):
        postings.add(slot, dict.fromkeys(terms(text), 1.0))
    return postings


INDEX = index("create issue", "delete repository", "read file github", "weather forecast", "pullrequest filename")


def query(text: str) -> Query:
    parsed = parse(text, INDEX)
    assert parsed is not None
    return parsed


def test_stop_words_do_not_count() -> None:
    assert query("please read the file for me").clauses == [["read", "file"]]


def test_stop_words_count_when_there_is_nothing_else() -> None:
    assert query("what is this").clauses == [["what", "is", "thi"]]


@pytest.mark.parametrize("text", ["read a file, delete a repository", "read file and delete repository"])
def test_several_wishes_are_several_clauses(text: str) -> None:
    assert query(text).clauses == [terms("read file"), terms("delete repository")]


def test_a_dot_inside_a_name_is_not_the_end_of_a_wish() -> None:
    assert len(query("read notes.txt now").clauses) == 1


@pytest.mark.parametrize("text", ["read https://example.com/issue", "read /tmp/issue", "read ./issue", "read 42"])
def test_addresses_paths_and_numbers_count_little(text: str) -> None:
    parsed = query(text)
    value = terms(text)[-1]
    known = INDEX.idf(value) or 4.0
    assert parsed.worth[value] == pytest.approx(known * VALUE_SHARE)


def test_words_of_half_a_meaning_count_half() -> None:
    assert query("make issue").worth["make"] == 4.0 * LIGHT_SHARE


def test_synonyms_and_abbreviations_stand_in() -> None:
    parsed = query("remove repo")
    assert parsed.sources[terms("delete")[0]][0] == terms("remove")[0]
    assert parsed.sources[terms("repository")[0]][0] == "repo"


def test_a_word_itself_counts_more_than_what_stands_in() -> None:
    sources = query("delete").sources
    assert sources[terms("delete")[0]] == (terms("delete")[0], 1.0)


@pytest.mark.parametrize("text", ["pull request", "pullRequest", "request pull", "file name"])
def test_two_words_are_found_where_they_are_written_as_one(text: str) -> None:
    assert {"pullrequest", "filenam"} & set(query(text).sources)


def test_a_misspelt_word_stands_for_what_is_near() -> None:
    parsed = query("wether forcast")
    assert {"weather", "forecast"} <= set(parsed.sources)


def test_at_most_three_words_are_taken_for_misspelt() -> None:
    near = {word for word, _ in query("wether forcast isue repositry").sources.values()}
    assert len(near) == 3


def test_the_kinds_of_verbs_are_known() -> None:
    assert query("remove file").verbs == {"delete"}
    assert query("file").verbs == frozenset()


@pytest.mark.parametrize("text", ["", "   ", "?!.,;", "\x00\x07", "\ud800\udfff", "😀", "+", "()[]{}*\\^$|"])
def test_a_query_without_words_is_none(text: str) -> None:
    assert parse(text, INDEX) is None


def test_a_query_of_a_hundred_kilobytes_is_cut() -> None:
    parsed = query("weather " + "word " * 20_000)
    assert sum(map(len, parsed.clauses)) <= MAX_QUERY
    assert len(query(" ".join(f"word{n}x" for n in range(5000))).worth) <= 48


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_can_be_asked(text: str) -> None:
    parsed = parse(text, INDEX)
    if parsed is not None:
        assert parsed.total > 0
        assert all(word in parsed.worth for word, _ in parsed.sources.values())
        assert all(0 < weight <= 1 for _, weight in parsed.sources.values())
