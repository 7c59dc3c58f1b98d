"""The search index among hostile servers, odd queries and broken definitions."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.tools.search import SearchIndex
from codebuddy_mcp_tools.types import ToolInfo
from tests.tools.haystack import TOOLS, index_of, tool

INDEX = index_of(TOOLS)

BAIT = sorted({word for one in TOOLS for word in f"{one.server} {one.name} {one.description}".split()})
STUFFED = {
    "description": tool("evil", "do", " ".join(BAIT)),
    "a word over and over": tool("evil", "do", "issue create github " * 400),
    "title": tool("evil", "do", title=" ".join(BAIT)),
    "name": tool("evil", "_".join(BAIT)[:250]),
    "server": tool("_".join(BAIT)[:250], "do"),
    "arguments": tool("evil", "do", **{f"{word} {n}": word for n, word in enumerate(BAIT)}),
    "everything": tool("evil", "_".join(BAIT[::3]), " ".join(BAIT), " ".join(BAIT), **dict.fromkeys(BAIT, "create")),
}


@pytest.mark.parametrize("where", STUFFED)
def test_a_tool_stuffed_with_words_wins_nothing(where: str) -> None:
    index = index_of([*TOOLS, STUFFED[where]])
    for one in TOOLS:
        wanted = f"{one.server} {one.name}"
        assert index.rank(wanted, 1) == [f"mcp__{one.server}__{one.name}"]
    for query in ("open an issue on github", "remove a repo", "forecast", "mail to a colleague", "kubernetes pods"):
        assert index.rank(query, 1) == INDEX.rank(query, 1)


@pytest.mark.parametrize("query", ["mcp__github__create_issue", "github.create_issue", "github create issue"])
@pytest.mark.parametrize("name", ["mcp__github__create_issue", "github_create_issue", "github.create_issue"])
def test_a_tool_that_calls_itself_like_another_server_does_not_come_before_it(query: str, name: str) -> None:
    index = index_of([*TOOLS, tool("a", name, "github create issue", title="github create issue")])
    assert index.rank(query, 1) == ["mcp__github__create_issue"]


def test_a_name_to_the_letter_comes_before_the_same_letters_divided_in_another_way() -> None:
    index = index_of([tool("git", "hub_create_issue"), tool("github", "create_issue")])
    assert index.rank("mcp__github__create_issue", 1) == ["mcp__github__create_issue"]
    assert index.rank("mcp__git__hub_create_issue", 1) == ["mcp__git__hub_create_issue"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "?!…",
        "😀",
        "\x00\x1b[31m",
        "\ud800",
        "(.*)+$",
        "[a-",
        "\\",
        "%s{0}",
        "'; --",
        "and or the",
        "__",
        "+",
        "a",
    ],
)
def test_an_odd_query_is_answered(query: str) -> None:
    assert len(INDEX.search(query)) <= 5
    assert INDEX.search(query, required=[query]) is not None


@pytest.mark.parametrize("query", ["create issue " * 8000, "x" * 100_000, "é" * 100_000, "検" * 100_000, "a+" * 50_000])
def test_a_query_of_a_hundred_kilobytes_is_answered(query: str) -> None:
    assert len(INDEX.search(query)) <= 5
    INDEX.explain(query, TOOLS[0])
    INDEX.coverage(query, "mcp__github__create_issue")
    INDEX.search("issue", required=query.split())


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": None},
        {"properties": []},
        {"properties": {"a": None, "b": True, "c": []}},
        {"properties": {"a": {"description": 7, "enum": "no list"}}},
        {"properties": {"a": {"enum": [1, None, "yes"], "items": [], "properties": 3}}},
    ],
)
def test_an_odd_schema_can_be_indexed(schema: dict[str, object]) -> None:
    index = SearchIndex()
    index.add("t", ToolInfo("s", "t", "says little", input_schema=schema))
    assert index.rank("little", 1) == ["t"]


def test_a_definition_of_megabytes_is_cut() -> None:
    index = SearchIndex()
    huge = tool("s", "n" * 1_000_000, "word " * 1_000_000, **{f"a{n}": "text " * 1000 for n in range(500)})
    index.add("huge", huge)
    assert len(index._documents[0].terms) < 500
