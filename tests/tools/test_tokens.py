"""Words come out of every spelling and script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.tokens import squashed, terms, words


@pytest.mark.parametrize(
    "text",
    ["createIssue", "CreateIssue", "create_issue", "create-issue", "create.issue", "CREATE_ISSUE", "create/issue: "],
)
def test_every_spelling_of_a_name_comes_apart(text: str) -> None:
    assert words(text) == ["create", "issue"]
    assert squashed(text) == "createissue"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPServer", "http server"),
        ("parseHTMLPage", "parse html page"),
        ("getURL", "get url"),
        ("listURLs", "list url"),
        ("userIDsByName", "user id by name"),
        ("JSONtoCSV", "json to csv"),
        ("readPDF", "read pdf"),
        ("mailAPIv2Send", "mail api v 2 send"),
        ("step1Result", "step 1 result"),
    ],
)
def test_acronyms_and_numbers_come_apart_from_words(text: str, expected: str) -> None:
    assert words(text) == expected.split()


@pytest.mark.parametrize("text", ["k8s", "s3", "utf8", "2fa", "mp4", "K8S"])
def test_a_short_mix_of_letters_and_digits_stays_one_word(text: str) -> None:
    assert words(text) == [text.lower()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Straße", "strasse"),
        ("STRASSE", "strasse"),
        ("GROẞE", "grosse"),
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("Łódź", "lodz"),
        ("Ærø", "aero"),
        ("İstanbul", "istanbul"),
        ("ﬁle", "file"),
        ("ＡＰＩ", "api"),
        ("Ἑλλάς", "ελλασ"),
        ("ПРИВЕТ", "привет"),
        ("हिन्दी", "हिन्दी"),
        ("العَرَبِيَّة", "العربية"),
        ("soft\u00adware", "software"),
        ("ze\u200bro", "zero"),
    ],
)
def test_letters_with_marks_are_plain_letters(text: str, expected: str) -> None:
    assert words(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("搜索文件", ["搜索", "索文", "文件"]),
        ("検索", ["検索"]),
        ("図", ["図"]),
        ("ファイル", ["ファ", "ァイ", "イル"]),
        ("파일 검색", ["파일", "검색"]),
        ("日本GitHub検索", ["日本", "git", "hub", "検索"]),
    ],
)
def test_scripts_without_spaces_become_pairs_of_characters(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_terms_are_stemmed_words() -> None:
    assert terms("Creating files") == terms("create file")


@pytest.mark.parametrize("text", ["", " ", "?!…", "\x00\x1b", "\ud800", "_ _", "😀", "(.*)+[a-z]\\"[:6]])
def test_where_there_is_no_word_there_is_none(text: str) -> None:
    assert words(text) == []
    assert squashed(text) == ""


def test_one_endless_word_is_cut() -> None:
    assert all(len(word) <= 64 for word in words("x" * 100_000 + "É" * 100_000))


@given(st.text(max_size=200))
def test_any_text_comes_apart_into_lower_case_words(text: str) -> None:
    found = words(text)
    assert all(found)
    assert all(word == word.lower() for word in found if word.isascii())
    assert len(terms(text)) == len(found)


@given(st.text("abcXYZ_-. 19é", max_size=40))
def test_taking_apart_twice_changes_nothing(text: str) -> None:
    assert terms(text) == terms(text)
    assert squashed(squashed(text)) == squashed(text)
