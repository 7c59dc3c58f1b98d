from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.exposure import ExposureRules, Modifiers, parse_modifiers
from codebuddy_mcp_tools.types import Exposure, ToolInfo


@dataclass(frozen=True)
class OneTool:
    defer_loading: bool | None = None


@dataclass(frozen=True)
class Server:
    defer_loading: bool | None = None
    always_load: bool | None = None
    tools: dict[str, OneTool] = field(default_factory=dict)


GITHUB = ToolInfo("github", "create_issue")


def level(rules: ExposureRules, tool: ToolInfo = GITHUB, config: Server | None = None, over: bool = False) -> Exposure:
    return rules.level(tool, config, over_budget=over)


def test_auto_is_full_within_the_budget_and_deferred_beyond_it():
    assert level(ExposureRules()) is Exposure.FULL
    assert level(ExposureRules(), over=True) is Exposure.DEFERRED


@pytest.mark.parametrize("default", ["full", "stub", "deferred"])
def test_a_chosen_default_does_not_look_at_the_budget(default):
    assert {level(ExposureRules(default), over=over) for over in (True, False)} == {Exposure(default)}


@pytest.mark.parametrize(
    ("server", "tool", "expected"),
    [
        (True, None, Exposure.DEFERRED),
        (True, False, Exposure.FULL),
        (None, None, Exposure.FULL),
        (False, None, Exposure.FULL),
        (None, True, Exposure.DEFERRED),
        (False, True, Exposure.DEFERRED),
    ],
)
def test_the_inheritance_table_of_defer_loading(server, tool, expected):
    assert level(ExposureRules(), config=Server(server, tools={"create_issue": OneTool(tool)})) is expected


def test_defer_loading_beats_always_load_and_always_load_beats_the_default():
    assert level(ExposureRules("stub"), config=Server(always_load=True)) is Exposure.FULL
    assert level(ExposureRules("full"), config=Server(True, always_load=True)) is Exposure.DEFERRED


def test_a_server_may_ask_to_be_always_loaded_and_the_user_may_refuse():
    tool = ToolInfo("github", "create_issue", meta={"anthropic/alwaysLoad": True})
    assert level(ExposureRules("deferred"), tool) is Exposure.FULL
    assert level(ExposureRules("deferred"), tool, Server(always_load=False)) is Exposure.DEFERRED
    vague = ToolInfo("github", "create_issue", meta={"anthropic/alwaysLoad": "yes"})
    assert level(ExposureRules("deferred"), vague) is Exposure.DEFERRED


@pytest.mark.parametrize(
    "pattern",
    [
        "mcp__github__*",
        "mcp__github",
        "mcp__*",
        "mcp__GitHub__create-issue",
        "mcp_github_create_issue",
        "github.create_issue",
        "create_issue",
        "mcp__git*__create_*",
        "*",
    ],
)
def test_defer_takes_every_spelling_of_a_tool(pattern):
    assert level(ExposureRules("full", [f"Defer({pattern})"])) is Exposure.DEFERRED


@pytest.mark.parametrize("pattern", ["mcp__git", "mcp__github__create", "issue", "gitlab.create_issue", "mcp__git_ub"])
def test_a_pattern_matches_whole_names_only(pattern):
    assert level(ExposureRules("full", [f"Defer({pattern})"])) is Exposure.FULL


def test_no_defer_always_wins_whatever_was_said_later():
    rules = ExposureRules("deferred", "NoDefer(mcp__github__create_issue)")
    rules = rules.extended(["default, Defer(mcp__github__*)"])
    assert level(rules, config=Server(True), over=True) is Exposure.FULL
    assert level(rules, ToolInfo("github", "other")) is Exposure.DEFERRED


def test_modifiers_of_one_run_do_not_change_the_providers_rules():
    rules = ExposureRules("full")
    assert level(rules.extended("Defer(mcp__github)")) is Exposure.DEFERRED
    assert level(rules) is Exposure.FULL


def test_several_patterns_and_default_in_one_text():
    parsed = parse_modifiers("default,Defer(mcp__a__*, mcp__b__x),NoDefer(c.d)")
    assert parsed == Modifiers(("mcp__a__*", "mcp__b__x"), ("c.d",))


@pytest.mark.parametrize(
    "text",
    [
        "Deferr(mcp__a)",
        "Defer()",
        "Defer(mcp__a",
        "Defer mcp__a",
        "mcp__a",
        "Defer(mcp__a))",
        "Defer(Defer(x))",
        "Defer(a,)",
        "default Bash",
        "NoDefer( )",
        "Defer(...)",
    ],
)
def test_a_bad_modifier_is_an_error_that_quotes_it(text):
    with pytest.raises(ConfigError) as caught:
        parse_modifiers(text)
    assert text in str(caught.value) or any(word in str(caught.value) for word in text.split(","))


@pytest.mark.parametrize("name", ["ToolSearch", "describe_tool", "execute_tool"])
def test_the_tools_that_find_others_cannot_be_deferred(name):
    with pytest.raises(ConfigError, match=name):
        ExposureRules("auto", [f"Defer({name})"])


def test_an_unknown_default_is_an_error_that_quotes_it():
    with pytest.raises(ConfigError, match="lazy"):
        ExposureRules("lazy")


def test_modifiers_that_match_no_tool_are_told_unless_their_server_has_no_tools_yet():
    rules = ExposureRules("auto", "Defer(mcp__githb__*, mcp__github__*), NoDefer(create_isue, github.create_issue)")
    told = [str(diagnostic) for diagnostic in rules.lint([GITHUB], ["github"])]
    assert told == ["Defer(mcp__githb__*) matches no tool", "NoDefer(create_isue) matches no tool"]
    waiting = ExposureRules("auto", ["Defer(mcp__slow__*)", "Defer(slow.x)", "Defer(mcp__slow)"])
    assert waiting.lint([GITHUB], ["github", "slow"]) == []
    assert len(waiting.lint([GITHUB], ["github"])) == 3


@given(st.text(max_size=60))
def test_any_text_either_parses_or_is_a_config_error(text):
    with contextlib.suppress(ConfigError):
        rules = ExposureRules("auto", text)
        rules.level(GITHUB, None, over_budget=False)
        rules.lint([GITHUB], ["github", "other"])


@given(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.from_regex(r"[A-Za-z._-]{1,12}", fullmatch=True))
def test_a_tools_own_full_name_always_matches_it(server, name):
    rules = ExposureRules("full", [f"Defer(mcp__{server}__{name})"])
    assert level(rules, ToolInfo(server, name)) is Exposure.DEFERRED
