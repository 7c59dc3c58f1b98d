"""Visible names: legal for every provider, distinct, stable, and never parsed back."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.policy.names import (
    Ambiguous,
    NameTable,
    NearMisses,
    fold,
    hashed_name,
    name_forms,
    visible_name,
)

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
AWKWARD = [
    "calendar.respondToEvent",
    "admin/users/list",
    "ns:tool",
    "get weather",
    "ünï",
    "名前ツール",
    "9lives",
    "",
    "a.b",
    "a_b",
]
AWKWARD += [
    "x" * 200,
    "line\nbreak",
    "../../etc/x",
    "\u202eevil",
    "\U000e0041tag",
    "mcp__other__t",
    "$(id)",
    "\ud800",
    "a b",
    "a-b",
]


@pytest.mark.case("B09")
def test_awkward_tool_names_become_legal_and_distinct_and_keep_their_way_back() -> None:
    table = NameTable([("s", tool) for tool in AWKWARD])
    names = [table.visible("s", tool) for tool in AWKWARD]
    assert all(LEGAL.fullmatch(name) for name in names)
    assert len(set(names)) == len(AWKWARD)
    assert [table.pair(name) for name in names] == [("s", tool) for tool in AWKWARD]
    assert table.visible("s", "a_b") == "mcp__s__a_b"
    assert table.visible("s", "a-b") == "mcp__s__a-b"
    assert re.fullmatch(r"mcp__s__a_b_[0-9a-f]{8}", table.visible("s", "a.b"))


@pytest.mark.case("B10")
def test_a_server_name_with_spaces_and_dots_is_folded() -> None:
    assert visible_name("Google Sheets.v2", "read") == "mcp__Google_Sheets_v2__read"
    table = NameTable([("Google Sheets.v2", "read")])
    for spelling in ("mcp__Google-Sheets.v2__read", "google_sheets_v2.read", "mcp__GOOGLE_SHEETS_V2__READ", "read"):
        assert table.resolve(spelling) == ("Google Sheets.v2", "read")


@pytest.mark.case("B11")
def test_long_names_are_cut_and_differ() -> None:
    server = "executeautomation-playwright-enterprise-environment"
    tools = ["playwright_click_and_switch_tab_one", "playwright_click_and_switch_tab_two"]
    table = NameTable([(server, tool) for tool in tools])
    names = [table.visible(server, tool) for tool in tools]
    assert len(set(names)) == 2
    for name in names:
        assert len(name) == 64
        assert re.fullmatch(r"mcp__executeautomation-playwright-enterprise-environmen.*_[0-9a-f]{8}", name)
    assert names == [visible_name(server, tool) for tool in tools]


@pytest.mark.case("B12")
def test_one_tool_name_on_two_servers_gives_two_names() -> None:
    table = NameTable([("A", "send_email"), ("B", "send_email"), ("A", "send_email")])
    assert [table.visible(*pair) for pair in table] == ["mcp__A__send_email", "mcp__B__send_email"]
    assert table.resolve("send_email") == Ambiguous((("A", "send_email"), ("B", "send_email")))


def test_pairs_that_join_to_one_text_stay_apart() -> None:
    table = NameTable([("a", "b_c"), ("a_b", "c"), ("a", "b__c"), ("a__b", "c")])
    names = {table.visible(*pair) for pair in table}
    assert len(names) == 4
    assert "mcp__a__b__c" not in names, "two pairs are entitled to it, so nobody gets it"


def test_in_a_clash_the_unchanged_name_keeps_its_form_in_every_order() -> None:
    pairs = [("s", "a.b"), ("s", "a/b"), ("s", "a_b"), ("s", "a b")]
    tables = [NameTable(order) for order in itertools.permutations(pairs)]
    first = {pair: tables[0].visible(*pair) for pair in pairs}
    assert first["s", "a_b"] == "mcp__s__a_b"
    assert all({pair: table.visible(*pair) for pair in pairs} == first for table in tables)


def test_among_folded_names_only_each_gets_a_hash() -> None:
    table = NameTable([("s", "a.b"), ("s", "a/b")])
    assert all(re.fullmatch(r"mcp__s__a_b_[0-9a-f]{8}", table.visible(*pair)) for pair in table)


def test_the_hash_covers_server_and_tool_separately() -> None:
    assert hashed_name("a", "b__c", 8)[-8:] != hashed_name("a__b", "c", 8)[-8:]


def test_core_tools_are_never_shadowed() -> None:
    reserved = {"mcp__s__t", "describe_tool"}
    table = NameTable([("s", "t"), ("s", "describe_tool")], reserved)
    assert table.visible("s", "t") not in reserved
    assert table.pair("mcp__s__t") is None
    assert LEGAL.fullmatch(table.visible("s", "t"))


def test_a_name_that_guesses_anothers_hash_does_not_take_it() -> None:
    stolen = hashed_name("s", "a.b", 8)[len("mcp__s__") :]
    table = NameTable([("s", "a.b"), ("s", "a/b"), ("s", stolen)])
    assert table.visible("s", "a.b") == f"mcp__s__{stolen}"
    assert table.visible("s", stolen) != f"mcp__s__{stolen}"
    assert len({table.visible(*pair) for pair in table}) == 3


def test_every_name_a_pair_gets_is_one_of_its_forms() -> None:
    pairs = [("s", "a.b"), ("s", "a_b"), ("s", "x" * 90), ("s", "x" * 91)]
    table = NameTable(pairs)
    assert all(table.visible(*pair) in name_forms(*pair) for pair in pairs)


def test_names_of_strangers_are_a_key_error() -> None:
    with pytest.raises(KeyError):
        NameTable([]).visible("s", "t")


@pytest.mark.parametrize(
    "text",
    [
        "mcp__web-search__find_all",
        "mcp_web-search_find_all",
        "web-search.find_all",
        "find_all",
        "mcp__web_search__find_all",
        "MCP__Web.Search__FIND-ALL",
        "mcp_web_search_find_all",
        " find_all ",
        "Find All",
        "web_search.find_all",
    ],
)
def test_every_spelling_leads_to_the_tool(text: str) -> None:
    table = NameTable([("web-search", "find_all"), ("web-search", "find_one"), ("other", "get")])
    assert table.resolve(text) == ("web-search", "find_all")


def test_an_exact_spelling_beats_a_forgiving_one() -> None:
    table = NameTable([("s", "a.b"), ("s", "a_b")])
    assert table.resolve("a.b") == ("s", "a.b")
    assert table.resolve("s.a_b") == ("s", "a_b")
    assert table.resolve("A-B") == Ambiguous((("s", "a.b"), ("s", "a_b")))


def test_a_visible_name_beats_a_tool_that_is_called_so() -> None:
    table = NameTable([("a", "t"), ("evil", "mcp__a__t")])
    assert table.resolve("mcp__a__t") == ("a", "t")


def test_unknown_names_get_near_misses_best_first() -> None:
    table = NameTable([("github", "create_issue"), ("github", "list_issues"), ("time", "now")])
    found = table.resolve("creat_issue")
    assert isinstance(found, NearMisses)
    assert found.names[0] == "mcp__github__create_issue"
    assert table.resolve("zzz") == NearMisses(())


def test_cut_names_resolve_by_their_full_spelling_too() -> None:
    table = NameTable([("s" * 40, "t" * 40)])
    assert table.resolve(f"mcp__{'s' * 40}__{'t' * 40}") == ("s" * 40, "t" * 40)
    assert table.resolve(visible_name("s" * 40, "t" * 40)) == ("s" * 40, "t" * 40)


_NAMES = st.text(max_size=12) | st.text(alphabet="ab._-/ ", max_size=6) | st.text(min_size=50, max_size=120)


@given(
    st.lists(st.tuples(_NAMES, _NAMES), max_size=30),
    st.sets(st.sampled_from(["mcp__a__b", "mcp____", "ToolSearch"])),
    st.randoms(),
)
def test_names_are_legal_distinct_and_independent_of_order(
    pairs: list[tuple[str, str]], reserved: set[str], shuffler: random.Random
) -> None:
    table = NameTable(pairs, reserved)
    names = {pair: table.visible(*pair) for pair in pairs}
    assert all(LEGAL.fullmatch(name) for name in names.values())
    assert len(set(names.values())) == len(set(pairs))
    assert not set(names.values()) & reserved
    assert all(table.pair(name) == pair for pair, name in names.items())
    shuffled = pairs[:]
    shuffler.shuffle(shuffled)
    again = NameTable(shuffled, reserved)
    assert {pair: again.visible(*pair) for pair in pairs} == names


@given(st.text())
def test_folding_keeps_the_length(text: str) -> None:
    assert len(fold(text)) == len(text)


def test_ten_thousand_clashing_tools_are_named() -> None:
    pairs = [("s", "名" * number) for number in range(1, 101)] + [
        (f"s{n}", f"t.{m}") for n in range(100) for m in range(100)
    ]
    table = NameTable(pairs)
    assert len({table.visible(*pair) for pair in pairs}) == len(pairs)
