"""`ToolCatalog`: what is bound, in which order and form, also while the servers' lists change."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import ExposureRules
from codebuddy_mcp_tools.types import Exposure, ToolInfo
from tests.tools.catalogs import catalog_of, tool_named, tools_of

LONG = ToolInfo(
    "b", "long", "First sentence. Second sentence.", None, {"type": "object", "properties": {"x": {"type": "string"}}}
)
SERVERS = {"a": ["one", "two"], "b": [LONG]}


def names(tools):
    return [tool.name for tool in tools]


def test_what_is_bound_keeps_the_order_of_the_servers_and_appends_what_was_activated():
    catalog = catalog_of(SERVERS, exposure="full")
    assert names(catalog.visible()) == ["mcp__a__one", "mcp__a__two", "mcp__b__long"]
    deferred = catalog.visible(["mcp__b__long", "gone", "mcp__a__one", "mcp__b__long"], modifiers="Defer(*)")
    assert names(deferred) == ["mcp__b__long", "mcp__a__one"]
    part = catalog.visible(["mcp__a__one"], modifiers=["Defer(one)"])
    assert names(part) == ["mcp__a__two", "mcp__b__long", "mcp__a__one"]


def test_a_server_that_comes_changes_nothing_before_it():
    catalog = catalog_of(SERVERS, exposure="full")
    before = catalog.visible()
    catalog.update([*before, *tools_of({"c": ["three"]})])
    assert all(new is old for new, old in zip(catalog.visible(), before, strict=False))
    assert names(catalog.visible())[3:] == ["mcp__c__three"]


def test_a_stub_has_one_sentence_an_open_schema_and_says_where_the_rest_is():
    stub = catalog_of(SERVERS, exposure="stub").visible()[2]
    assert "First sentence." in stub.description
    assert "Second" not in stub.description
    assert "describe_tool" in stub.description
    assert stub.tool_call_schema["properties"] == {}
    assert stub.tool_call_schema["additionalProperties"] is True


def test_stubs_and_loaded_twins_are_made_once():
    for exposure in ("stub", "full", "deferred"):
        catalog = catalog_of(SERVERS, exposure=exposure)
        first, second = catalog.visible(["mcp__a__one"]), catalog.visible(["mcp__a__one"])
        assert all(one is two for one, two in zip(first, second, strict=True))


@pytest.mark.parametrize("exposure", ["full", "stub", "deferred"])
def test_every_tool_says_whether_it_is_deferred_and_none_that_is_bound_says_so(exposure):
    catalog = catalog_of(SERVERS, exposure=exposure)
    assert {tool.extras["defer_loading"] for tool in catalog} == {exposure == "deferred"}
    assert not any(tool.extras["defer_loading"] for tool in catalog.visible([tool.name for tool in catalog]))
    assert not any(tool.extras["defer_loading"] for tool in catalog.tools())


def test_what_only_the_budget_defers_is_marked_where_the_provider_searches():
    for search, marked in (("own", False), ("provider", True)):
        catalog = catalog_of(SERVERS, exposure="auto", counter=lambda _: 10**6, tool_search=search)
        assert {tool.extras["defer_loading"] for tool in catalog} == {marked}
        assert set(catalog.levels().values()) == {Exposure.DEFERRED}


def test_for_a_providers_search_all_tools_are_bound_in_their_places_and_the_deferred_ones_marked():
    catalog = catalog_of(SERVERS, exposure="deferred", tool_search="provider")
    shown = catalog.visible(modifiers=["NoDefer(two)"], provider_search=True)
    assert [(tool.name, tool.extras["defer_loading"]) for tool in shown] == [
        ("mcp__a__one", True),
        ("mcp__a__two", False),
        ("mcp__b__long", True),
    ]


def test_other_rules_take_effect_at_once():
    catalog = catalog_of(SERVERS, exposure="full")
    before = catalog.generation
    catalog.follow(ExposureRules("deferred"))
    assert catalog.visible() == []
    assert catalog.generation > before


def test_a_changed_definition_replaces_its_stub_and_what_can_be_found():
    catalog = catalog_of({"a": [ToolInfo("a", "t", "Paint a house.")]}, exposure="stub")
    catalog.visible()
    catalog.update(tools_of({"a": [ToolInfo("a", "t", "Brew some tea.")]}))
    assert "Brew" in catalog.visible()[0].description
    assert [hit.name for hit in catalog.search("brew")] == ["mcp__a__t"]
    assert catalog.search("paint house") == []


def test_a_hit_says_which_words_scored_in_which_field():
    [hit] = catalog_of({"a": [ToolInfo("a", "send_mail", "Send a message to somebody.")]}).search("sending messages")
    assert hit.fields["name"] == ("sending",)
    assert "messages" in hit.fields["description"]


@pytest.mark.parametrize("wrong", ["Deferr(x)", "Defer()", "Defer(ToolSearch)", "Defer(describe_tool)"])
def test_modifiers_that_cannot_be_read_are_an_error_that_quotes_them(wrong):
    with pytest.raises(ConfigError) as caught:
        catalog_of(SERVERS).visible(modifiers=[wrong])
    assert wrong in str(caught.value)


def test_the_discovery_tools_are_never_deferred_whatever_the_modifiers():
    catalog = catalog_of(SERVERS)
    assert names(catalog.tools(modifiers=["Defer(*)"])) == ["ToolSearch", "describe_tool"]
    assert tool_named(catalog, "describe_tool").extras["defer_loading"] is False


def test_a_catalogue_can_be_read_from_any_thread_while_its_tools_change():
    sets = [tools_of(SERVERS), tools_of({**SERVERS, "c": [f"tool_{n}" for n in range(40)]}), tools_of({"b": ["one"]})]
    catalog = catalog_of({}, exposure="auto")
    done = threading.Event()

    def read() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            catalog.visible(["mcp__a__one", "mcp__c__tool_3"], modifiers=["Defer(c.*)"], context_window=100)
            catalog.cost(context_window=10**6)
            catalog.tools()
            catalog.describe("one")
            for hit in catalog.search("tool one"):
                assert hit.fields is not None
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for number in range(120):
            catalog.update(sets[number % 3])
        done.set()
        assert all(reader.result() > 0 for reader in readers)
    catalog.update(sets[0])
    assert names(catalog.visible(context_window=10**6)) == ["mcp__a__one", "mcp__a__two", "mcp__b__long"]
