"""The search index: tools in, tools out by any wording."""

from __future__ import annotations

import os
import string
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.search import EXACT, SearchIndex
from codebuddy_mcp_tools.types import ToolInfo
from tests.tools.haystack import TOOLS, index_of, tool

INDEX = index_of(TOOLS)


def first(query: str) -> str | None:
    return next(iter(INDEX.rank(query, 1)), None)


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        "mcp__filesystem__write_file",
        "mcp_filesystem_write_file",
        "filesystem.write_file",
        "filesystem write file",
        "write_file",
        "writeFile",
        "Write File",
        "WRITE-FILE",
    ],
)
def test_the_name_of_a_tool_in_any_spelling_has_that_tool_first(spelling: str) -> None:
    hit = INDEX.search(spelling)[0]
    assert hit.key == "mcp__filesystem__write_file"
    assert hit.score >= EXACT


def test_a_bare_name_that_two_servers_have_gives_both_first() -> None:
    assert set(INDEX.rank("create_issue", 2)) == {"mcp__github__create_issue", "mcp__linear__create_issue"}
    assert INDEX.spelled("createIssue") == ["mcp__github__create_issue", "mcp__linear__create_issue"]


def test_a_name_beats_a_tool_that_says_more_about_it() -> None:
    index = index_of(
        [
            tool("a", "ping"),
            tool("b", "ping_ping", "ping " * 50, title="ping ping", ping="ping ping"),
            tool("ping", "x"),
        ]
    )
    assert index.rank("ping", 1) == ["mcp__a__ping"]


def test_a_tool_without_a_letter_in_its_name_is_not_what_an_empty_query_names() -> None:
    index = SearchIndex()
    index.add("___", tool("-", "___"))
    assert index.search("") == []
    assert index.search("?!") == []


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("open an issue on github", "mcp__github__create_issue"),
        ("linear new issue", "mcp__linear__create_issue"),
        ("creating issues in Linear", "mcp__linear__create_issue"),
        ("remove a repo", "mcp__github__delete_repository"),
        ("merge PR", "mcp__github__merge_pull_request"),
        ("mergePullRequest", "mcp__github__merge_pull_request"),
        ("show me what is in a file", "mcp__filesystem__read_text_file"),
        ("forecast", "mcp__weather__getForecast"),
        ("get_forecast", "mcp__weather__getForecast"),
        ("mail to a colleague", "mcp__mail__send-email"),
        ("kubernetes pods", "mcp__k8s__podsList"),
        ("pronostico tiempo", "mcp__tiempo__pronóstico"),
        ("STRASSE suchen", "mcp__strasse__Straßensuche"),
        ("ファイル検索", "mcp__日本__検索"),
    ],
)
def test_a_wish_in_other_words_finds_its_tool(query: str, expected: str) -> None:
    assert first(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("wether forcast", "mcp__weather__getForecast"),
        ("delete repositroy", "mcp__github__delete_repository"),
        ("send emial", "mcp__mail__send-email"),
        ("slakc message", "mcp__slack__post_message"),
    ],
)
def test_a_misspelt_wish_finds_its_tool(query: str, expected: str) -> None:
    assert first(query) == expected


def test_words_of_a_servers_name_narrow_the_search_to_it() -> None:
    assert [key.split("__")[1] for key in INDEX.rank("github issues", 2)] == ["github", "github"]
    assert first("issue linear") == "mcp__linear__create_issue"


@pytest.mark.parametrize(("query", "word"), [("create issue", "create"), ("delete repository", "delete")])
def test_what_is_to_be_done_decides_between_tools_for_one_thing(query: str, word: str) -> None:
    assert word in str(first(query))


@pytest.mark.parametrize("query", ["github issues", "GitHub issues", "git hub issues", "GITHUB issues"])
@pytest.mark.parametrize("spelling", ["github", "GitHub", "git-hub"])
def test_a_name_of_two_words_is_found_in_every_spelling(query: str, spelling: str) -> None:
    named = index_of([tool(spelling, "list_issues"), tool("linear", "list_issues"), tool("jira", "issues")])
    assert named.rank(query, 1) == [f"mcp__{spelling}__list_issues"]
    described = index_of([tool("a", "list", f"Issues of {spelling}"), tool("b", "list", "Issues of Linear")])
    assert described.rank(query, 1) == ["mcp__a__list"]


@pytest.mark.parametrize(
    ("query", "name"), [("filename", "file_name"), ("timezone", "timeZone"), ("youtube", "YouTube")]
)
def test_words_that_are_written_apart_are_found_as_one(query: str, name: str) -> None:
    assert index_of([tool("s", name), tool("s", "file"), tool("s", "zone")]).rank(query, 1) == [f"mcp__s__{name}"]


def test_a_tool_that_deletes_is_not_first_unless_that_was_asked() -> None:
    index = index_of([tool("s", "delete_item"), tool("s", "get_item"), tool("s", "update_item")])
    assert index.rank("item", 3)[-1] == "mcp__s__delete_item"
    assert index.rank("remove item", 1) == ["mcp__s__delete_item"]


def test_arguments_are_searched_too() -> None:
    assert first("latitude") == "mcp__weather__getForecast"


# -- required words --------------------------------------------------------------------------------------------------


def test_a_required_word_must_occur_in_the_server_or_tool_name() -> None:
    found = INDEX.search("issue", 20, required=["linear"])
    assert [hit.key for hit in found] == ["mcp__linear__create_issue"]
    assert INDEX.search("issue", required=["nowhere"]) == []


def test_required_words_alone_find_every_tool_that_has_them() -> None:
    assert {hit.key for hit in INDEX.search("", 20, required=["file"])} == {
        "mcp__filesystem__read_text_file",
        "mcp__filesystem__write_file",
    }


def test_a_required_word_may_be_part_of_a_word_and_spelled_in_any_way() -> None:
    assert len(INDEX.search("", 20, required=["Pull-Req"])) == 1
    assert len(INDEX.search("", 20, required=["issue", "git"])) == 2


def test_a_tool_beyond_the_best_fifty_is_found_when_it_is_required() -> None:
    index = index_of([tool(f"s{n}", "create_issue", "Create an issue") for n in range(300)] + [tool("zz", "issue")])
    assert index.rank("create an issue", 1) != ["mcp__zz__issue"]
    assert [hit.key for hit in index.search("create an issue", required=["zz"])] == ["mcp__zz__issue"]


# -- explanations ----------------------------------------------------------------------------------------------------


def test_an_explanation_names_the_fields_and_the_words_that_scored() -> None:
    fields = INDEX.explain("creating github issues", TOOLS[0])
    assert fields["name"] == ("creating", "issues")
    assert fields["server"] == ("github",)
    assert fields["title"] == ("creating (new)", "issues")
    assert fields["argument texts"] == ("issues",)


def test_an_explanation_says_which_word_stood_in() -> None:
    assert INDEX.explain("remove repo", TOOLS[3])["name"] == ("remove (delete)", "repo (repository)")


def test_an_explanation_of_nothing_is_empty() -> None:
    assert INDEX.explain("forecast", TOOLS[0]) == {}
    assert INDEX.explain("", TOOLS[0]) == {}


def test_coverage_tells_a_fitting_tool_from_a_poor_one() -> None:
    assert INDEX.coverage("create issue", "mcp__github__create_issue") > 0.9
    assert INDEX.coverage("book a flight to Rome", "mcp__github__create_issue") < 0.3
    assert INDEX.coverage("", "mcp__github__create_issue") == 0.0


# -- order -----------------------------------------------------------------------------------------------------------


def test_equals_come_in_the_order_of_their_names_however_they_were_added() -> None:
    twins = [tool(f"s{n:03}", "create_issue", "Create an issue") for n in range(120)]
    names = [f"mcp__{one.server}__{one.name}" for one in twins]
    for order in (twins, twins[::-1]):
        assert index_of(order).rank("new issue", 5) == names[:5]


def test_as_many_are_found_as_are_asked_for() -> None:
    twins = [tool(f"s{n:03}", "create_issue", "Create an issue") for n in range(120)]
    for wanted in (1, 5, 50, 100):
        assert len(index_of(twins).search("new issue", wanted)) == wanted


def test_the_order_is_the_same_in_every_process() -> None:
    program = (
        "from tests.tools.haystack import TOOLS, index_of\n"
        "index = index_of(TOOLS)\n"
        "long = 'the complete text of one or more issues or files of a place, a team, or a channel '\n"
        "for query in (long, long + 'or pods in a repository for people in a new city', 'file'):\n"
        "    print(index.search(query, 20))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "0123"
    }
    assert len(answers) == 1


# -- changing --------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["create", "issue", "file", "read", "mail", "weather", "s3", "größe", "検索", "list", "the", "git", "hub"]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
ANY_TOOL = st.builds(
    tool, WORDS, st.lists(WORDS, min_size=1, max_size=3).map("_".join), TEXTS, st.none() | TEXTS, argument=TEXTS
)
KEYS = st.sampled_from(string.ascii_lowercase[:8])


@settings(max_examples=150, deadline=None)
@given(
    changes=st.lists(st.tuples(KEYS, st.none() | ANY_TOOL), max_size=30),
    queries=st.lists(TEXTS | st.just("creat isue") | st.text(max_size=12), min_size=1, max_size=4),
)
def test_an_index_that_changed_answers_like_one_that_was_built_anew(
    changes: list[tuple[str, ToolInfo | None]], queries: list[str]
) -> None:
    changed, now = SearchIndex(), dict[str, ToolInfo]()
    for number, (key, one) in enumerate(changes):
        if one is None:
            changed.remove([key])
            now.pop(key, None)
        else:
            changed.add(key, one)
            now[key] = one
        if number % 5 == 0:
            changed.search("creat isue")  # fills what is kept between searches
    fresh = SearchIndex()
    for key, one in now.items():
        fresh.add(key, one)
    assert len(changed) == len(fresh)
    for query in queries:
        assert changed.search(query, 10) == fresh.search(query, 10)
        assert changed.search(query, 10, required=["is"]) == fresh.search(query, 10, required=["is"])
        assert changed.spelled(query) == fresh.spelled(query)


def test_nothing_stays_of_tools_that_are_gone() -> None:
    index = index_of(TOOLS)
    index.search("creat isue")
    index.remove([f"mcp__{one.server}__{one.name}" for one in TOOLS])
    assert len(index) == 0
    assert index.search("create issue") == []
    assert not index._postings._lists
    assert not index._by_spelling
    assert not any((index._postings._grams or {}).values())


def test_an_unknown_name_can_be_removed() -> None:
    index = index_of(TOOLS[:1])
    index.remove(["nothing", "nothing"])
    assert len(index) == 1
