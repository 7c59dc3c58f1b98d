"""When a tool list is asked for again, and by whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codebuddy_mcp_tools.client import ClientEvent
from codebuddy_mcp_tools.errors import ConnectError, ConnectionLostError, ProtocolError
from codebuddy_mcp_tools.types import ToolListing
from tests.client.conftest import MakeClient
from tests.client.fake import CALLS, Clock, FakeChannel, FakeServer, drop, listing, refused, silence, text, tool, until


def names(listing: ToolListing) -> list[str]:
    return [tool.name for tool in listing.tools]


async def test_a_list_is_fresh_for_its_time_to_live(client_of: MakeClient) -> None:
    server, clock = FakeServer(tools__list=listing("a")), Clock()
    client = client_of(server, clock=clock, cache_ttl=300.0)
    first = await client.list_tools()
    clock.advance(299)
    assert await client.list_tools() is first
    clock.advance(2)
    assert await client.list_tools() is first
    assert len(server.sent("tools/list")) == 2


async def test_callers_at_the_same_time_share_one_walk(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=listing("a"))
    client = client_of(server)
    found = await asyncio.gather(*(client.list_tools() for _ in range(20)))
    assert {id(one) for one in found} == {id(found[0])}
    assert len(server.sent("tools/list")) == 1


async def test_refresh_asks_although_the_list_is_fresh(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=listing("a"))
    client = client_of(server)
    first = await client.list_tools()
    server.answers["tools/list"] = listing("a", "b")
    second = await client.list_tools(refresh=True)
    assert names(second) == ["a", "b"]
    assert (first.version, second.version) == (1, 2)
    assert client.cached_tools() is second


async def test_a_refresh_during_a_walk_asks_once_more(client_of: MakeClient) -> None:
    waiting: list[dict[str, Any]] = []
    server = FakeServer(tools__list=lambda c, m: waiting.append(m))
    client = client_of(server)
    first = asyncio.create_task(client.list_tools())
    await until(lambda: len(waiting) == 1)
    second = asyncio.create_task(client.list_tools(refresh=True))
    third = asyncio.create_task(client.list_tools(refresh=True))
    await asyncio.sleep(0)  # both are on their way to the owner loop now, and what is sent there arrives in order
    await client._loop.run(_reply(server, waiting[0], "old"))
    assert names(await first) == ["old"]
    await until(lambda: len(waiting) == 2)
    await client._loop.run(_reply(server, waiting[1], "new"))
    assert names(await second) == names(await third) == ["new"]
    assert len(waiting) == 2


async def _reply(server: FakeServer, request: dict[str, Any], *names: str) -> None:
    server.channel.reply(request, {"tools": [tool(name) for name in names]})


async def test_list_changed_makes_the_list_stale_at_once_and_is_told_once(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []
    server = FakeServer(tools__list=listing("a"), tools__call=_renaming)
    client = client_of(server, on_event=events.append)
    await client.list_tools()
    await client.call_tool("a", {})
    assert names(await client.list_tools()) == ["b"]
    await until(lambda: "tools_changed" in [event.kind for event in events])
    assert [event.kind for event in events] == ["connected", "tools_changed"]


def _renaming(channel: FakeChannel, message: dict[str, Any]) -> None:
    channel.server.answers["tools/list"] = listing("b")
    for _ in range(50):
        channel.push({"method": "notifications/tools/list_changed"})
    text(channel, message)


async def test_nobody_needs_to_ask_after_list_changed(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=listing("a"), tools__call=_renaming)
    client = client_of(server)
    await client.list_tools()
    await client.call_tool("a", {})
    await until(lambda: names(client.cached_tools()) == ["b"])  # type: ignore[arg-type]
    assert len(server.sent("tools/list")) <= 3


async def test_a_change_announced_while_the_list_is_read_is_not_missed(client_of: MakeClient) -> None:
    def racing(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.server.answers["tools/list"] = listing("new")
        channel.push({"method": "notifications/tools/list_changed"})
        channel.reply(message, {"tools": [tool("old")]})

    server = FakeServer(tools__list=racing)
    assert names(await client_of(server).list_tools()) == ["new"]


async def test_a_server_that_changes_with_every_list_does_not_keep_us_listing(client_of: MakeClient) -> None:
    def restless(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.push({"method": "notifications/tools/list_changed"})
        channel.reply(message, {"tools": [tool(f"t{len(channel.server.sent('tools/list'))}")]})

    server = FakeServer(tools__list=restless)
    gate = asyncio.Event()

    async def wait_for_ever(_seconds: float) -> None:
        await gate.wait()

    await client_of(server, sleep=wait_for_ever).list_tools()
    assert len(server.sent("tools/list")) == 3


async def test_a_new_session_asks_again_by_itself(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []
    server = FakeServer(**{**CALLS, "tools__list": listing("a")})
    client = client_of(server, on_event=events.append)
    await client.list_tools()
    server.answers["tools/list"] = listing("a", "b")
    await client._loop.run(drop(server))
    await until(lambda: names(client.cached_tools()) == ["a", "b"])  # type: ignore[arg-type]
    await until(lambda: "tools_changed" in [event.kind for event in events])


async def test_the_list_of_a_server_that_is_down_stays(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    client = client_of(server)
    first = await client.list_tools()
    server.failures = refused(6)
    await client._loop.run(drop(server))
    await until(lambda: not server.failures[3:])
    with pytest.raises(ConnectError):
        await client.list_tools(refresh=True)
    assert client.cached_tools() is first


async def test_a_tool_that_has_vanished_is_not_called(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=listing("a", "b"), tools__call=text)
    client = client_of(server)
    await client.list_tools()
    server.answers["tools/list"] = listing("b")
    await client.list_tools(refresh=True)
    with pytest.raises(ProtocolError, match="tool 'a' is no longer offered") as caught:
        await client.call_tool("a", {})
    assert not caught.value.ran
    await client.call_tool("b", {})
    await client.call_tool("hidden", {})
    assert [m["params"]["name"] for m in server.sent("tools/call")] == ["b", "hidden"]


async def test_a_failed_walk_is_shared_and_the_next_one_is_new(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=lambda c, m: c.fail(m, -32603, "not now"))
    client = client_of(server)
    results = await asyncio.gather(*(client.list_tools() for _ in range(3)), return_exceptions=True)
    assert {str(result) for result in results} == {"s: tools/list failed (-32603): not now"}
    server.answers["tools/list"] = listing("a")
    assert names(await client.list_tools()) == ["a"]


async def test_closing_ends_a_walk(client_of: MakeClient) -> None:
    server = FakeServer(tools__list=silence)
    client = client_of(server)
    walking = asyncio.create_task(client.list_tools())
    await until(lambda: server.channels and server.sent("tools/list"))
    await client.aclose()
    with pytest.raises((ConnectError, ConnectionLostError)):
        await walking
