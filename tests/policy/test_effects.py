"""Reads and writes: hints count when they are booleans that agree; names count for verification only."""

from __future__ import annotations

from typing import Any

import pytest

from codebuddy_mcp_tools.policy.effects import effect_of, may_replay, may_run_concurrently, split_words
from codebuddy_mcp_tools.types import Effect, ToolInfo


def tool(name: str = "x", server: str = "s", **annotations: Any) -> ToolInfo:
    return ToolInfo(server, name, annotations=annotations)


@pytest.mark.case("B73")
@pytest.mark.parametrize(
    ("annotations", "effect", "concurrent", "replay"),
    [
        ({"readOnlyHint": True}, Effect.READ, True, True),
        ({"readOnlyHint": True, "destructiveHint": False}, Effect.READ, True, True),
        ({"readOnlyHint": True, "destructiveHint": True}, Effect.WRITE, False, False),
        ({"readOnlyHint": True, "destructiveHint": "no"}, Effect.WRITE, False, False),
        ({"readOnlyHint": False}, Effect.WRITE, False, False),
        ({"readOnlyHint": "yes"}, Effect.WRITE, False, False),
        ({"readOnlyHint": "true"}, Effect.WRITE, False, False),
        ({"readOnlyHint": 1}, Effect.WRITE, False, False),
        ({"readOnlyHint": None}, Effect.WRITE, False, False),
        ({"readOnlyHint": [True]}, Effect.WRITE, False, False),
        ({"readOnlyHint": False, "idempotentHint": True}, Effect.WRITE, False, True),
        ({"idempotentHint": True}, Effect.READ, False, True),
        ({"idempotentHint": "true"}, Effect.READ, False, False),
        ({"destructiveHint": True}, Effect.WRITE, False, False),
        ({"destructiveHint": False}, Effect.READ, False, False),
        ({}, Effect.READ, False, False),
    ],
)
def test_hints_of_a_tool_called_get_item(
    annotations: dict[str, Any], effect: Effect, concurrent: bool, replay: bool
) -> None:
    info = tool("get_item", **annotations)
    assert (effect_of(info), may_run_concurrently(info), may_replay(info)) == (effect, concurrent, replay)


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("github", "get_issue"), ("github", "list_issues"), ("github", "search_code"), ("github", "get_commit"),
        ("github", "getFileContents"), ("x", "list-tables"), ("x", "readFile"), ("x", "read_text_file"), ("x",
        "describeTable"),
        ("slack", "slack_get_users"), ("slack", "slack_list_channels"), ("notion", "API-get-user"), ("ha-mcp",
        "ha_get_state"),
        ("home", "ha_get_state"), ("x", "admin/users/list"), ("calendar", "calendar.getEvent"), ("x",
        "find_by_name_and_type"),
        ("x", "get_post"), ("x", "list_open_runs"), ("memory", "read_graph"), ("x", "fetch"), ("x", "search"),
        ("x", "count_rows"),
    ],
)  # fmt: skip
def test_names_that_plainly_read(server: str, name: str) -> None:
    assert effect_of(tool(name, server)) is Effect.READ
    assert not may_run_concurrently(tool(name, server))
    assert not may_replay(tool(name, server))


@pytest.mark.parametrize(
    "name",
    [
        "create_issue", "delete_item", "get_or_create_user", "find_and_replace", "find_and_update", "getAndSet",
        "list_and_delete",
        "mark_as_read", "toggle_list_item", "reset_search", "archive_list", "setGet", "run_query", "execute_read",
        "query",
        "query_database", "check_out_file", "browser_navigate", "do", "x", "", "listen", "getter", "retrievepay",
        "readme_write",
        "ge\u0442_item", "get\u200b_item", "пинг", "名前", "get_and_d\u0435lete", "update", "put_list",
        "fetch_then_push", "posts/delete",
    ],
)  # fmt: skip
def test_everything_else_is_taken_for_a_write(name: str) -> None:
    assert effect_of(tool(name)) is Effect.WRITE


def test_names_are_split_at_case_and_punctuation() -> None:
    assert split_words("getHTTPLog2_of-theDay.now") == ["get", "http", "log", "2", "of", "the", "day", "now"]
