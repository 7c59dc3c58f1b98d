"""Losing a session: who hears of it, what starts again, what closing means."""

from __future__ import annotations

import asyncio

import pytest

from codebuddy_mcp_tools.client import ClientEvent
from codebuddy_mcp_tools.errors import (
    ConnectError,
    ConnectionLostError,
)
from codebuddy_mcp_tools.types import CircuitState, ClientState
from tests.client.conftest import MakeClient
from tests.client.fake import (
    CALLS,
    FakeServer,
    Naps,
    drop,
    dropping,
    silence,
    until,
)


@pytest.mark.case("B30")
async def test_a_lost_session_fails_its_calls_and_the_next_call_gets_a_new_one(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=dropping(reason="the process exited with code 1"))
    client = client_of(server)
    with pytest.raises(ConnectionLostError, match="exited with code 1") as caught:
        await client.call_tool("t", {})
    assert caught.value.sent
    assert caught.value.server == "s"
    assert client.breaker.failures == 1
    assert (await client.call_tool("t", {"say": "again"})).content[0]["text"] == "again"
    assert client.breaker.failures == 0
    assert len(server.sent("tools/call")) == 2


async def test_an_unexpected_end_reconnects_in_the_background(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []
    server = FakeServer(**CALLS)
    client = client_of(server, on_event=events.append)
    await client.call_tool("t", {})
    await client._loop.run(drop(server))
    await until(lambda: len(server.channels) == 2 and client.state is ClientState.CONNECTED)
    await until(lambda: len(events) == 3)
    assert [event.kind for event in events] == ["connected", "disconnected", "connected"]
    assert client.breaker.failures == 0


async def test_a_session_that_ends_as_soon_as_it_is_there_is_not_restarted_for_ever(client_of: MakeClient) -> None:
    server, naps = FakeServer(), Naps()
    client = client_of(server, sleep=naps)
    await client.connect()
    for number in (1, 2, 3):
        await until(lambda n=number: len(server.channels) == n and client.state is ClientState.CONNECTED)
        await client._loop.run(drop(server))
    await until(lambda: client.state is ClientState.DISCONNECTED)
    assert client.breaker.state is CircuitState.OPEN
    assert server.attempts == 3
    assert naps.asked == [1.0, 2.0]


async def test_closing_fails_what_waits_at_once_and_later_calls_say_so(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence)
    client = client_of(server)
    calls = [asyncio.create_task(client.call_tool("t", {})) for _ in range(20)]
    await until(lambda: len(server.sent("tools/call")) == 20)
    await client.aclose()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results} == {ConnectionLostError}
    with pytest.raises(ConnectError, match="closed"):
        await client.call_tool("t", {})
    assert client.state is ClientState.DISCONNECTED
    assert server.attempts == 1


async def test_closing_twice_from_two_tasks_while_connecting_is_fine(client_of: MakeClient) -> None:
    server = FakeServer(initialize=silence)
    client = client_of(server)
    connecting = asyncio.create_task(client.connect())
    await until(lambda: server.channels)
    await asyncio.gather(client.aclose(), client.aclose())
    with pytest.raises(ConnectError, match="closed"):
        await connecting
    assert not server.channel.open
