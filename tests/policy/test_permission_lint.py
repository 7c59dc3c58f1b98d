"""What is said of rules that match nothing, do nothing, or grant less than they seem to."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.policy.permissions import PermissionPolicy
from tests.policy.test_permissions import tool


def test_the_explanation_names_rules_that_match_and_near_misses() -> None:
    policy = PermissionPolicy(["mcp__a__b"], ["mcp__a__b__c"], mode="manual", servers=["a", "a__b"])
    text = policy.explain(tool("a__b", "c"))
    assert text.splitlines()[0] == "a__b.c (mcp__a__b__c): ask"
    assert "permissions.ask (ask) mcp__a__b__c: matches" in text
    assert "permissions.allow (allow) mcp__a__b: does not apply: it can also mean something of the server a" in text


@pytest.mark.parametrize(
    ("lists", "fragment"),
    [
        ({"allow": ["mcp__*"]}, "does nothing in allow"),
        ({"allow": ["*"]}, "does nothing for MCP tools"),
        ({"deny": ["*"]}, "does nothing for MCP tools"),
        ({"deny": ["mcp__git*"]}, "* can only stand for the whole last part"),
        ({"allow": ["mcp__github__get_*"]}, "* can only stand for the whole last part"),
        ({"deny": ["get_issue"]}, "is no rule for MCP tools"),
        ({"deny": ["mcp__"]}, "names no server"),
        ({"deny": ["mcp__github__delet"]}, "matches no tool"),
        ({"deny": ["mcp__gitlab"]}, "matches no tool"),
        ({"allow": ["mcp__web_search"]}, "grants nothing: the servers web-search, web.search"),
        ({"allow": ["mcp__github__delete"], "ask": ["mcp__github__delete"]}, "decides nothing: stricter rules"),
        ({"ask": ["mcp__github__delete"], "deny": ["mcp__github"]}, "decides nothing: stricter rules"),
        ({"tool_permissions": {"delete": "allow"}}, "a bare tool name could be any server's"),
        ({"tool_permissions": {"mcp_github_delet": "deny"}}, "matches no tool"),
    ],
)
def test_lint_tells_rules_that_do_nothing(lists: dict[str, list[str]], fragment: str) -> None:
    tools = [tool("github", "delete"), tool("github", "get_issue"), tool("web-search", "x"), tool("web.search", "x")]
    policy = PermissionPolicy(**lists, servers=["github", "web-search", "web.search", "slow"], tools=tools)
    found = policy.lint(tools)
    assert len(found) == 1
    assert found[0].severity == "warning"
    assert fragment in found[0].message


def test_lint_is_silent_about_rules_that_work_or_wait_for_their_server() -> None:
    tools = [tool("github", "delete"), tool("github", "get"), tool("time", "now")]
    deny = ["mcp__github__delete", "mcp__slow__x", "mcp__slow", "Read", "Bash(git push:*)", "WebFetch(domain:*)"]
    policy = PermissionPolicy(
        ["mcp__github"],
        deny=deny,
        tool_permissions={"mcp_slow_y": "ask"},
        servers=["github", "slow", "time"],
        tools=tools,
    )
    assert policy.lint(tools) == []
    assert PermissionPolicy(ask=["mcp__*"], deny=["mcp__github", "mcp__time"], tools=tools).lint(tools) == []
