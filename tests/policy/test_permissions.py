"""Permission rules: deny > ask > allow > mode, on the pair of server and tool."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.config import Permissions, Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.names import hashed_name, name_forms, visible_name
from codebuddy_mcp_tools.policy.permissions import Decision, PermissionPolicy
from codebuddy_mcp_tools.types import ToolInfo


def tool(server: str, name: str, **annotations: object) -> ToolInfo:
    return ToolInfo(server, name, annotations=annotations)


def effect(
    server: str, name: str, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = (),
    mode: str = "manual",
    servers: Iterable[str] = (), tools: Iterable[ToolInfo] = (), **permissions: str,
) -> str:  # fmt: skip
    policy = PermissionPolicy(allow, ask, deny, tool_permissions=permissions, mode=mode, servers=servers, tools=tools)
    return policy.decide(tool(server, name)).effect


@pytest.mark.case("B63")
@pytest.mark.parametrize(
    ("rule", "server", "name"),
    [
        ("mcp__tts__*", "tts", "say"),
        ("mcp__tts", "tts", "say"),
        ("MCP__TTS", "tts", "say"),
        ("mcp__TTS__Say", "tts", "say"),
        (" mcp__tts ", "tts", "say"),
        ("mcp__web-search", "web_search", "go"),
        ("mcp__web_search", "web-search", "go"),
        ("mcp__web.search__*", "web-search", "go"),
        ("mcp__Google_Sheets", "Google Sheets", "read"),
        ("mcp__web-search__find-all", "web.search", "find_all"),
        ("mcp__a__b__c", "a", "b__c"),
        ("mcp__a__b__c", "a__b", "c"),
        ("mcp__s__b_c", "s", "b.c"),
        ("mcp__tts __ *", "tts", "say"),
        ("mcp--tts--say", "tts", "say"),
        ("mCp..tts", "tts", "say"),
        ("\ufeffmcp__tts", "tts", "say"),
        ("ｍｃｐ＿＿ｔｔｓ", "tts", "say"),
    ],
)
def test_rules_allow_what_they_name(rule: str, server: str, name: str) -> None:
    assert effect(server, name, allow=[rule]) == "allow"
    assert effect(server, name, ask=[rule], mode="autonomous") == "ask"
    assert effect(server, name, deny=[rule], mode="autonomous") == "deny"


@pytest.mark.case("B63")
@pytest.mark.parametrize(
    ("rule", "server", "name"),
    [
        ("mcp__git", "github", "x"),
        ("mcp__git__*", "github", "x"),
        ("mcp__a", "a__b", "c"),
        ("mcp__github__get", "github", "get_issue"),
        ("mcp__github__get_issue", "github", "get"),
        ("mcp__github__get_issue", "gitlab", "get_issue"),
        ("mcp__git*", "github", "x"),
        ("mcp__github__get_*", "github", "get_issue"),
        ("mcp__*__get_issue", "github", "get_issue"),
        ("mcp__**", "github", "x"),
        ("*", "github", "x"),
        ("mcp", "github", "x"),
        ("mcp__", "github", "x"),
        ("mcp__ ", "github", "x"),
        ("github", "github", "x"),
        ("github__x", "github", "x"),
        ("get_issue", "github", "get_issue"),
        ("Bash(git:*)", "github", "x"),
        ("", "github", "x"),
        ("mcp__github(x)", "github", "x"),
        ("mcp__github__x(y)", "github", "x"),
        ("mcp__*__*", "github", "x"),
        ("mcp__?ithub", "github", "x"),
        ("mcp__[g]ithub", "github", "x"),
        ("mcp__github|mcp__x", "github", "x"),
        ("mcp__github,mcp__x", "github", "x"),
        ("!mcp__gitlab", "github", "x"),
        ("/mcp__github.*/", "github", "x"),
        ("mcp____x", "github", "x"),
        ("mcp___github", "github", "x"),
        ("mcp_*", "github", "x"),
        ("mcp_github_*", "github", "x"),
        ("github.*", "github", "x"),
        ("github/x", "github", "x"),
    ],
)
def test_rules_do_not_reach_further_than_they_name(rule: str, server: str, name: str) -> None:
    assert effect(server, name, allow=[rule], ask=[], deny=[]) == "ask"
    assert effect(server, name, ask=[rule], mode="autonomous") == "allow"
    assert effect(server, name, deny=[rule], mode="autonomous") == "allow"


def test_a_rule_that_ends_with_the_divider_forbids_the_server_and_allows_nothing() -> None:
    assert effect("github", "x", deny=["mcp__github__"], mode="autonomous") == "deny"
    assert effect("github", "x", ask=["mcp__github __ "], mode="autonomous") == "ask"
    assert effect("github", "x", deny=[" mcp__github __ x "], mode="autonomous") == "deny"
    assert effect("github_", "x", deny=["mcp__github__"], mode="autonomous") == "allow"
    assert effect("github", "x", allow=["mcp__github__"]) == "ask"
    [finding] = PermissionPolicy(["mcp__github__"]).lint([tool("github", "x")])
    assert "write mcp__github__*" in finding.message


def test_every_tool_at_once_works_in_deny_and_ask_and_does_nothing_in_allow() -> None:
    assert effect("s", "t", deny=["mcp__*"], mode="autonomous") == "deny"
    assert effect("s", "t", ask=["MCP__*"], mode="autonomous") == "ask"
    assert effect("s", "t", allow=["mcp__*"]) == "ask"


def test_deny_goes_before_ask_before_allow() -> None:
    everywhere = {"allow": ["mcp__s"], "ask": ["mcp__s__t", "mcp__s__u"], "deny": ["mcp__s__u"]}
    assert [effect("s", name, **everywhere) for name in "tuv"] == ["ask", "deny", "allow"]


# The table of the fact sheet, section 2.7. "ask" is what the mode says when no rule allows.
@pytest.mark.parametrize(
    ("allow", "deny", "servers", "call", "expected"),
    [
        (["mcp__git_hub"], [], ["git_hub", "git-hub"], ("git-hub", "x"), "ask"),
        (["mcp__git_hub"], [], ["git_hub", "git-hub"], ("git_hub", "x"), "ask"),
        (["mcp__a__b"], [], ["a", "a__b"], ("a__b", "c"), "ask"),
        (["mcp__a__b"], [], ["a", "a__b"], ("a", "b"), "ask"),
        (["mcp__a__b__*"], [], ["a", "a__b"], ("a__b", "c"), "allow"),
        ([], ["mcp__a__b"], ["a", "a__b"], ("a__b", "c"), "deny"),
        ([], ["mcp__a__b"], ["a", "a__b"], ("a", "b"), "deny"),
        (["mcp__github"], ["mcp__github__delete"], ["github"], ("github", "DELETE"), "deny"),
        (["mcp__github"], ["mcp__github__delete"], ["github"], ("github", "ｄｅｌｅｔｅ"), "deny"),
        (["mcp__github"], ["mcp__github__delete"], ["github"], ("github", "d\u0435lete"), "deny"),
        (["mcp__github"], ["mcp__github__delete"], ["github"], ("github", "delete\u200b"), "deny"),
        (["mcp__github"], ["mcp__github__delete"], ["github"], ("github", " delete"), "deny"),
        (["mcp__github"], [], ["github"], ("github", "d\u0435lete"), "ask"),
        (["mcp__github"], [], ["github"], ("github", "delete\u200b"), "ask"),
        (["mcp__github__名前"], [], ["github"], ("github", "名前"), "ask"),
        ([hashed_name("github", "名前", 8)], [], ["github"], ("github", "名前"), "allow"),
        ([], [visible_name("github", "名前")], ["github"], ("github", "名前"), "deny"),
        ([], ["mcp__github__名前"], ["github"], ("github", "名前"), "deny"),
        (["mcp__git"], [], ["git", "github"], ("github", "x"), "ask"),
        (["*"], [], ["s"], ("s", "t"), "ask"),
        ([], ["*"], ["s"], ("s", "t"), "ask"),
    ],
)  # fmt: skip
def test_ambiguity_grants_nothing_and_forbids_generously(
    allow: list[str], deny: list[str], servers: list[str], call: tuple[str, str], expected: str
) -> None:
    assert effect(*call, allow=allow, deny=deny, servers=servers) == expected


def test_two_tools_that_a_rule_cannot_tell_apart_are_not_allowed_by_it() -> None:
    both = [tool("s", "get_x"), tool("s", "get-x")]
    assert [effect("s", t.name, allow=["mcp__s__get_x"], tools=both) for t in both] == ["ask", "ask"]
    assert [effect("s", t.name, allow=["mcp__s"], tools=both) for t in both] == ["allow", "allow"]
    assert [effect("s", t.name, deny=["mcp__s__get_x"], tools=both, mode="autonomous") for t in both] == [
        "deny",
        "deny",
    ]


def test_a_server_that_appears_later_takes_the_grant_away() -> None:
    assert effect("web-search", "go", allow=["mcp__web_search"]) == "allow"
    assert effect("web-search", "go", allow=["mcp__web_search"], servers=["web.search"]) == "ask"


@pytest.mark.case("B11")
def test_long_names_are_matched_by_the_full_name_and_by_the_cut_one() -> None:
    server, name = "executeautomation-playwright-enterprise-environment", "playwright_click_and_switch_tab_one"
    other = tool(server, "playwright_click_and_switch_tab_two")
    for rule in (f"mcp__{server}__{name}", visible_name(server, name), visible_name(server, name).upper()):
        assert effect(server, name, allow=[rule], tools=[other]) == "allow"
        assert effect(server, name, deny=[rule], mode="autonomous") == "deny"
        assert effect(server, other.name, allow=[rule], tools=[other]) == "ask"
        assert effect(server, other.name, deny=[rule], mode="autonomous") == "allow"


def test_a_clash_that_comes_or_goes_never_changes_a_decision() -> None:
    for rule in name_forms("s", "a.b") - {visible_name("s", "a.b")}:
        assert effect("s", "a.b", allow=[rule]) == "allow"
        assert effect("s", "a.b", allow=[rule], tools=[tool("s", "a_b"), tool("s", "a/b")]) == "allow"
        assert effect("s", "a_b", allow=[rule], tools=[tool("s", "a.b")]) == "ask"
        assert effect("s", "a.b", deny=[rule], mode="autonomous") == "deny"


def test_a_tool_named_like_anothers_hashed_name_gets_no_grant_by_it() -> None:
    stolen = hashed_name("s", "a.b", 8)
    tools = [tool("s", "a.b"), tool("s", stolen.removeprefix("mcp__s__"))]
    assert [effect("s", t.name, allow=[stolen], tools=tools) for t in tools] == ["ask", "ask"]


@pytest.mark.parametrize(
    ("rule", "server", "name"),
    [
        ("mcp_github_delete_repo", "github", "delete_repo"),
        ("mcp_git-hub_delete.repo", "git_hub", "delete_repo"),
        ("MCP_GITHUB_DELETE_REPO", "github", "delete_repo"),
        ("github.delete_repo", "github", "delete_repo"),
        ("mcp__github__delete_repo", "github", "delete_repo"),
        ("mcp__github", "github", "delete_repo"),
    ],
)
def test_tool_permissions_take_the_spellings_of_both_pages(rule: str, server: str, name: str) -> None:
    for verdict in ("allow", "ask", "deny"):
        policy = PermissionPolicy(
            tool_permissions={rule: verdict}, mode="strict" if verdict == "allow" else "autonomous"
        )
        assert policy.decide(tool(server, name)).effect == verdict


def test_a_single_underscore_rule_that_can_mean_two_tools_forbids_both_and_allows_neither() -> None:
    tools = [tool("a", "b_c"), tool("a_b", "c")]
    assert [effect(t.server, t.name, mcp_a_b_c="allow", tools=tools) for t in tools] == ["ask", "ask"]
    assert [effect(t.server, t.name, mcp_a_b_c="deny", tools=tools) for t in tools] == ["deny", "deny"]


def test_a_bare_name_in_tool_permissions_asks_and_denies_where_unique_and_never_allows() -> None:
    tools = [tool("a", "send"), tool("b", "send"), tool("b", "wipe")]
    assert effect("b", "wipe", wipe="deny", tools=tools, mode="autonomous") == "deny"
    assert effect("b", "send", send="deny", tools=tools, mode="autonomous") == "allow"
    assert effect("b", "wipe", wipe="allow", tools=tools) == "ask"


@pytest.mark.parametrize(
    ("mode", "plain", "reading", "contradictory"),
    [
        ("autonomous", "allow", "allow", "allow"),
        ("cautious", "ask", "allow", "ask"),
        ("manual", "ask", "ask", "ask"),
        ("strict", "deny", "deny", "deny"),
    ],
)
def test_modes_decide_what_no_rule_matches(mode: str, plain: str, reading: str, contradictory: str) -> None:
    policy = PermissionPolicy(mode=mode)
    assert policy.decide(tool("s", "get_item")).effect == plain
    assert policy.decide(tool("s", "r", readOnlyHint=True)).effect == reading
    assert policy.decide(tool("s", "c", readOnlyHint=True, destructiveHint=True)).effect == contradictory
    assert policy.decide(tool("s", "get_item")).rule is None


def test_no_hint_lifts_a_rule() -> None:
    policy = PermissionPolicy(ask=["mcp__s__a"], deny=["mcp__s__d"], mode="cautious")
    assert policy.decide(tool("s", "a", readOnlyHint=True)).effect == "ask"
    assert policy.decide(tool("s", "d", readOnlyHint=True)).effect == "deny"


def test_the_decision_names_the_rule_as_written() -> None:
    decision = PermissionPolicy(deny=["MCP__S__T"]).decide(tool("s", "t"))
    assert decision == Decision("deny", "MCP__S__T", "permissions.deny (deny): MCP__S__T")


def test_unknown_modes_and_verdicts_are_refused() -> None:
    with pytest.raises(ConfigError, match="sometimes"):
        PermissionPolicy(mode="sometimes")
    with pytest.raises(ConfigError, match="never"):
        PermissionPolicy(tool_permissions={"mcp_s_t": "never"})


def test_settings_make_a_policy() -> None:
    settings = Settings(
        permissions=Permissions(allow=("mcp__s__a",), deny=("mcp__s__d",)),
        tool_permissions={"mcp_s_q": "ask"},
        permission_mode="strict",
    )
    policy = PermissionPolicy.from_settings(settings, servers=["s"])
    assert [policy.decide(tool("s", name)).effect for name in "adqx"] == ["allow", "deny", "ask", "deny"]


_NAMES = st.text(alphabet="abAB_.- éа\u200b", min_size=1, max_size=6)


_SERVERS = st.text(alphabet="abAB_.- é", max_size=5).map(lambda text: f"a{text}")


@given(_SERVERS, _NAMES, st.lists(st.tuples(_NAMES, _NAMES), max_size=4))
def test_denying_a_tool_by_any_of_its_names_denies_it_among_all_others(
    server: str, name: str, others: list[tuple[str, str]]
) -> None:
    tools = [tool(*pair) for pair in others]
    rules = [f"mcp__{server}__{name}", f"mcp_{server}_{name}", *name_forms(server, name)]
    for rule in rules:
        assert effect(server, name, deny=[rule], tools=tools, mode="autonomous") == "deny", rule


@given(st.lists(st.tuples(_NAMES, _NAMES), min_size=1, max_size=5), st.data())
def test_one_allow_rule_for_a_tool_allows_at_most_one_tool(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    server, name = data.draw(st.sampled_from(pairs))
    rule = f"mcp__{server}__{name}"
    tools = [tool(*pair) for pair in pairs]
    policy = PermissionPolicy([rule], mode="strict", tools=tools)
    allowed = {pair for pair in pairs if policy.decide(tool(*pair)).effect == "allow"}
    assert len(allowed) <= 1 or len({server for server, _ in allowed}) == 1
