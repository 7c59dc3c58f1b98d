"""Tool lists: every page, within bounds, and good entries in spite of bad ones."""

from __future__ import annotations

from typing import Any

import pytest

from codebuddy_mcp_tools.client.listing import MAX_ENTRIES, MAX_PAGES
from codebuddy_mcp_tools.types import ToolListing
from tests.client.conftest import MakeClient
from tests.client.fake import FakeChannel, FakeServer, drop, silence, tool


def pages(*pages: list[Any], last: str | None = None) -> Any:
    """Answer `tools/list` page by page; the cursor is the page's number. `last` is what the last page names as next."""

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        number = int((message.get("params") or {}).get("cursor", 0))
        following = str(number + 1) if number + 1 < len(pages) else last
        channel.reply(message, {"tools": pages[number], **({"nextCursor": following} if following else {})})

    return answer


def names(listing: ToolListing) -> list[str]:
    return [tool.name for tool in listing.tools]


@pytest.mark.case("B46")
async def test_all_pages_are_read_in_the_servers_order(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=pages([tool("c")], [tool("a")], [tool("b")]))
    client = client_of(server)
    assert names(await client.list_tools()) == ["c", "a", "b"]
    await client._loop.run(drop(server))
    assert names(await client.list_tools(refresh=True)) == ["c", "a", "b"]
    assert "params" not in server.sent("tools/list")[0]


async def test_a_list_that_goes_round_in_circles_ends(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=pages([tool("a")], [tool("b")], last="1"))
    found = await client_of(server).list_tools()
    assert names(found) == ["a", "b"]
    assert any("round in circles" in problem for problem in found.problems)
    assert len(server.sent("tools/list")) <= 4


async def test_a_list_without_end_ends(client_of: MakeClient) -> None:
    def endless(channel: FakeChannel, message: dict[str, Any]) -> None:
        number = int((message.get("params") or {}).get("cursor", 0))
        channel.reply(message, {"tools": [tool(f"t{number}")], "nextCursor": str(number + 1)})

    server = FakeServer(tools__list=endless)
    found = await client_of(server).list_tools()
    assert len(found.tools) == MAX_PAGES == len(server.sent("tools/list"))
    assert found.problems == (f"more than {MAX_PAGES} pages of tools: the rest is left out",)


async def test_too_many_tools_are_cut_off(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=pages([tool(f"t{n}") for n in range(MAX_ENTRIES + 1)]))
    found = await client_of(server).list_tools()
    assert len(found.tools) == MAX_ENTRIES
    assert found.problems == (f"more than {MAX_ENTRIES} tools: the rest is left out",)


@pytest.mark.parametrize("page", [None, "tools", [], {"tools": None}, {"tools": {}}])
async def test_a_page_that_is_no_list_is_a_problem_and_no_exception(client_of: MakeClient, page: Any) -> None:
    found = await client_of(FakeServer(tools__list=lambda c, m: c.reply(m, page))).list_tools()
    assert found.tools == ()
    assert found.problems == ("a page of the list of tools holds no list of tools",)


async def test_a_silent_list_ends_with_its_own_deadline(client_of: MakeClient) -> None:
    client = client_of(FakeServer(tools__list=silence), timeouts={"list": 0.05})
    with pytest.raises(Exception, match=r"tools/list within"):
        await client.list_tools()


@pytest.mark.case("X3")
async def test_a_bad_tool_costs_only_itself_and_is_named(client_of: MakeClient) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"properties": deep}
    entries = [
        tool("good"),
        {"name": "bad"},
        {"name": "null", "inputSchema": None},
        {"name": "list", "inputSchema": []},
        {"name": "", "inputSchema": {}},
        {"inputSchema": {}},
        "words",
        {"name": "deep", "inputSchema": deep},
        {"name": "huge", "inputSchema": {"description": "x" * 600_000}},
        {"name": "esc\x1b[31m", "inputSchema": 7},
        tool("also good"),
    ]
    found = await client_of(FakeServer(tools__list=pages(entries))).list_tools()
    assert names(found) == ["good", "also good"]
    assert found.problems == (
        "tool 'bad' is left out: it has no inputSchema",
        "tool 'null' is left out: it has no inputSchema",
        "tool 'list' is left out: its inputSchema is no JSON object",
        "entry 5 of the tool list has no name and is left out",
        "entry 6 of the tool list has no name and is left out",
        "entry 7 of the tool list has no name and is left out",
        "tool 'deep' is left out: its definition is nested more than 100 levels deep",
        "tool 'huge' is left out: its definition is larger than 500000 characters",
        "tool 'esc' is left out: its inputSchema is no JSON object",
    )


@pytest.mark.case("B12")
async def test_of_a_name_listed_twice_the_first_counts(client_of: MakeClient) -> None:
    entries = [tool("x", description="first"), tool("x", description="second")]
    found = await client_of(FakeServer(tools__list=pages(entries))).list_tools()
    assert [t.description for t in found.tools] == ["first"]
    assert found.problems == ("tool 'x' is listed twice: the first one counts",)


async def test_a_tool_keeps_everything_its_server_said(client_of: MakeClient) -> None:
    entry = tool(
        "x", title="X", annotations={"readOnlyHint": "yes"}, _meta={"a": 1}, outputSchema={"type": "object"}, vendor=[1]
    )
    (found,) = (await client_of(FakeServer(tools__list=pages([entry]))).list_tools()).tools
    assert (found.server, found.name, found.title, found.annotations) == ("s", "x", "X", {"readOnlyHint": "yes"})
    assert (found.meta, found.output_schema, found.definition) == ({"a": 1}, {"type": "object"}, entry)


async def test_fields_of_a_wrong_kind_are_left_empty(client_of: MakeClient) -> None:
    entry = tool("x", title=7, description=None, annotations=[], _meta="m", outputSchema=True)
    (found,) = (await client_of(FakeServer(tools__list=pages([entry]))).list_tools()).tools
    assert (found.title, found.description, found.annotations, found.meta, found.output_schema) == (
        None,
        "",
        {},
        {},
        None,
    )
