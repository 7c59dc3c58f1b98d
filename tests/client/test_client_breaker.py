"""What the breaker hears of a client, and what it lets through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codebuddy_mcp_tools.client import ClientEvent
from codebuddy_mcp_tools.errors import (
    CircuitOpenError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
)
from codebuddy_mcp_tools.types import CircuitState
from tests.client.conftest import MakeClient
from tests.client.fake import (
    CALLS,
    Clock,
    FakeChannel,
    FakeServer,
    drop,
    dropping,
    listing,
    refused,
    silence,
    text,
    until,
)


@pytest.mark.case("B32")
async def test_errors_of_a_tool_trip_nothing_and_run_once(client_of: MakeClient) -> None:
    answers = iter(["tool"] * 5 + ["rpc"] * 5 + ["good"])

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        match next(answers):
            case "tool":
                channel.reply(message, {"content": [{"type": "text", "text": "no such issue"}], "isError": True})
            case "rpc":
                channel.fail(message, -32602, "bad arguments")
            case _:
                text(channel, message)

    server = FakeServer(tools__call=answer)
    client = client_of(server)
    for _ in range(5):
        assert (await client.call_tool("t", {}, replayable=True)).is_error
    for _ in range(5):
        with pytest.raises(ProtocolError, match="bad arguments") as caught:
            await client.call_tool("t", {}, replayable=True)
        assert (caught.value.code, caught.value.ran) == (-32602, False)
    assert not (await client.call_tool("t", {})).is_error
    assert (len(server.sent("tools/call")), server.attempts, client.breaker.failures) == (11, 1, 0)
    assert client.breaker.state is CircuitState.CLOSED


async def test_three_failed_cycles_open_it_and_nothing_is_tried_any_more(client_of: MakeClient) -> None:
    server, clock = FakeServer(**CALLS), Clock()
    server.failures = refused(9)
    client = client_of(server, clock=clock)
    for _ in range(3):
        with pytest.raises(ConnectError):
            await client.call_tool("t", {})
    with pytest.raises(CircuitOpenError, match=r"another 300 s.*last error: s: refused 9") as caught:
        await client.call_tool("t", {})
    assert caught.value.retry_after == pytest.approx(300)
    assert server.attempts == 9
    assert client.snapshot().breaker_state is CircuitState.OPEN
    for refusal in (client.connect(), client.list_tools(), client.ping()):
        with pytest.raises(CircuitOpenError):
            await refusal


async def test_a_working_connection_ends_a_row_of_failed_cycles(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    server.failures = refused(6)
    client = client_of(server)
    for _ in range(2):
        with pytest.raises(ConnectError):
            await client.connect()
    assert client.breaker.failures == 2
    await client.connect()
    assert client.breaker.failures == 0


async def test_calls_that_kill_the_server_open_it_although_every_connection_works(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=dropping(times=9), tools__list=listing("t"))
    client = client_of(server, clock=Clock())
    for _ in range(3):
        await client.list_tools(refresh=True)
        with pytest.raises(ConnectionLostError):
            await client.call_tool("t", {})
    assert client.breaker.state is CircuitState.OPEN


async def test_twenty_calls_on_one_dead_session_are_one_failure(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence)
    client = client_of(server)
    calls = [asyncio.create_task(client.call_tool("t", {})) for _ in range(20)]
    await until(lambda: len(server.sent("tools/call")) == 20)
    await client._loop.run(drop(server))
    await asyncio.gather(*calls, return_exceptions=True)
    assert client.breaker.failures == 1


async def test_the_probe_is_one_attempt_on_a_fresh_connection(client_of: MakeClient) -> None:
    server, clock = FakeServer(tools__call=dropping(times=3)), Clock()
    client = client_of(server, clock=clock)
    for _ in range(3):
        with pytest.raises(ConnectionLostError):
            await client.call_tool("t", {})
    assert client.breaker.state is CircuitState.OPEN
    before = server.attempts
    server.failures = refused(1)
    clock.advance(300)
    with pytest.raises(ConnectError):
        await client.call_tool("t", {})
    assert server.attempts == before + 1
    assert client.snapshot().retry_after == pytest.approx(300)
    clock.advance(300)
    await client.call_tool("t", {})
    assert client.breaker.state is CircuitState.CLOSED
    assert server.attempts == before + 2


async def test_a_cancelled_probe_frees_its_place(client_of: MakeClient) -> None:
    server, clock = FakeServer(**CALLS), Clock()
    server.failures = refused(3)
    client = client_of(server, clock=clock, breaker_threshold=1)
    with pytest.raises(ConnectError):
        await client.connect()
    clock.advance(300)
    server.answers["tools/call"] = silence
    probe = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and server.sent("tools/call"))
    with pytest.raises(CircuitOpenError, match="another call"):
        await client.call_tool("t", {})
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    server.answers["tools/call"] = text
    await client.call_tool("t", {})
    assert client.breaker.state is CircuitState.CLOSED


async def test_a_cancelled_call_counts_nothing(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence)
    client = client_of(server)
    for number in range(1, 5):
        call = asyncio.create_task(client.call_tool("t", {}))
        await until(lambda n=number: len(server.sent("tools/call")) == n)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await until(lambda: len(server.sent("notifications/cancelled")) == 4)
    assert client.breaker.failures == 0
    assert server.attempts == 1


async def test_reset_by_hand_lets_calls_through(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []
    server = FakeServer(**CALLS)
    server.failures = refused(3)
    client = client_of(server, breaker_threshold=1, on_event=events.append)
    with pytest.raises(ConnectError):
        await client.connect()
    client.breaker.reset()
    await client.call_tool("t", {})
    await until(lambda: [e.data for e in events if e.kind == "breaker"] == ["open", "closed"])
