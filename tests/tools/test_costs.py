"""The token bill: per tool, per server and in all, by one estimate."""

from __future__ import annotations

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.tools.definitions import bound_text, estimate_tokens
from codebuddy_mcp_tools.types import Exposure, ToolInfo
from tests.tools.catalogs import catalog_of, tools_of

BIG = ToolInfo("a", "big", "Much to say. " * 40, None, {"type": "object", "properties": {"x": {"type": "string"}}})
SERVERS = {"a": [BIG, "small"], "b": ["other"]}


def test_the_estimate_is_a_quarter_of_the_characters_rounded_up():
    assert [estimate_tokens("x" * n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert estimate_tokens("名" * 8) == 2


def test_a_tools_tokens_are_those_of_its_name_description_and_schema():
    catalog = catalog_of(SERVERS, exposure="full")
    [big] = [cost for cost in catalog.cost().tools if cost.name == "mcp__a__big"]
    assert big.full == estimate_tokens(bound_text(tools_of(SERVERS)[0]))
    assert big.stub < big.full / 2


def test_servers_add_up_to_the_total_in_every_exposure():
    for exposure in ("full", "stub", "deferred"):
        cost = catalog_of(SERVERS, exposure=exposure).cost()
        by_server = list(cost.servers.values())
        assert [sum(column) for column in zip(*by_server, strict=True)] == [cost.full, cost.stub, cost.shown]
        assert cost.shown == {"full": cost.full, "stub": cost.stub, "deferred": 0}[exposure]
        assert (cost.discovery > 0) is (exposure != "full")


def test_what_the_search_costs_is_counted_on_top_and_grows_with_what_it_lists():
    few, many = catalog_of(SERVERS), catalog_of({"a": [f"tool_{n}" for n in range(200)]})
    assert few.cost().discovery < many.cost().discovery < 21_000 / 4 + 500
    assert catalog_of(SERVERS, tool_search="provider").cost().discovery == 0
    in_execute = [catalog_of(servers, exposure="full", call_style="execute").cost() for servers in (SERVERS, {})]
    assert in_execute[0].discovery == in_execute[1].discovery > 0
    assert in_execute[0].shown == 0


def test_a_counter_is_used_in_place_of_the_estimate_and_asked_once_for_each_tool():
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return 7

    catalog = catalog_of(SERVERS, exposure="full", counter=count)
    assert {(cost.full, cost.stub) for cost in catalog.cost().tools} == {(7, 7)}
    asked = len(counted)
    catalog.cost(context_window=5)
    catalog.visible(modifiers=["Defer(a.*)"])
    assert len(counted) == asked == 2 * 3


def test_the_budget_of_auto_is_a_tenth_of_the_window_by_the_same_counter():
    for tokens, level in ((33, Exposure.FULL), (34, Exposure.DEFERRED)):
        catalog = catalog_of(SERVERS, exposure="auto", counter=lambda _, tokens=tokens: tokens)
        assert set(catalog.levels(context_window=1000).values()) == {level}


def test_what_is_deferred_anyway_does_not_count_against_the_budget():
    catalog = catalog_of({"a": ["x"], "b": ["y", "z"]}, exposure="auto", counter=lambda _: 40)
    assert set(catalog.levels(context_window=1000).values()) == {Exposure.DEFERRED}
    levels = catalog.levels(context_window=1000, modifiers=["Defer(a.*)"])
    assert list(levels.values()) == [Exposure.DEFERRED, Exposure.FULL, Exposure.FULL]


async def test_the_status_of_a_server_says_what_its_tools_cost_as_they_are_shown(tmp_path):
    tools = [{"name": "t", "description": "d" * 400, "inputSchema": {"type": "object"}}]
    with FaultServer({"tools": tools}) as fake:
        servers = {"now": fake.stdio_config(), "later": fake.stdio_config(defer_loading=True)}
        async with ToolProvider(servers, settings=Settings(), state_dir=tmp_path, count_tokens=len) as provider:
            await provider.get_tools_async()
            cost = provider.catalog.cost()
            assert {s.name: s.context_tokens for s in provider.status()} == {"now": cost.servers["now"][0], "later": 0}
            assert cost.servers["now"][0] > 400
