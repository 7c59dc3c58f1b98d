"""Connection cycles: what is tried again, after which waits, and who shares an attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codebuddy_mcp_tools.errors import (
    BlockedURLError,
    ConnectError,
)
from codebuddy_mcp_tools.types import ClientState
from tests.client.conftest import MakeClient
from tests.client.fake import (
    CALLS,
    HELLO,
    FakeServer,
    Naps,
    refused,
    silence,
    until,
)


async def test_nothing_is_opened_before_it_is_needed(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    client = client_of(server)
    assert client.state is ClientState.DISCONNECTED
    assert server.attempts == 0
    await client.call_tool("t", {})
    assert client.state is ClientState.CONNECTED
    assert server.attempts == 1


async def test_connect_tells_what_the_server_says_of_itself(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    client = client_of(server)
    info = await client.connect()
    assert (info.name, info.version, info.protocol_version) == ("fake", "1", "2025-11-25")
    assert client.offers("tools")
    assert not client.offers("prompts")
    assert server.sent("initialize")[0]["params"]["protocolVersion"] == "2025-11-25"
    assert [m["method"] for m in server.channel.sent] == ["initialize", "notifications/initialized"]


async def test_callers_at_the_same_time_share_one_attempt(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    client = client_of(server)
    await asyncio.gather(*(client.connect() for _ in range(10)), *(client.call_tool("t", {}) for _ in range(10)))
    assert server.attempts == 1


async def test_a_cycle_is_three_attempts_with_doubling_waits(client_of: MakeClient) -> None:
    server, naps = FakeServer(**CALLS), Naps()
    server.failures = refused(3)
    client = client_of(server, sleep=naps)
    with pytest.raises(ConnectError, match="refused 3") as caught:
        await client.connect()
    assert caught.value.retryable
    assert (server.attempts, naps.asked, client.snapshot().attempts) == (3, [1.0, 2.0], 3)
    assert client.state is ClientState.ERROR
    assert "refused 3" in (client.snapshot().last_error or "")
    assert client.snapshot().last_error_at is not None


async def test_the_waits_are_a_setting_and_capped_at_thirty_seconds(client_of: MakeClient) -> None:
    server, naps = FakeServer(**CALLS), Naps()
    server.failures = refused(5)
    client = client_of(server, sleep=naps, reconnect_delays=(2.0, 5.0, 15.0, 60.0, 1.0))
    with pytest.raises(ConnectError):
        await client.connect()
    assert naps.asked == [2.0, 5.0, 15.0, 30.0]


async def test_a_cycle_ends_with_the_first_attempt_that_works(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    server.failures = refused(2)
    client = client_of(server)
    await client.connect()
    assert server.attempts == 3
    assert client.state is ClientState.CONNECTED


async def test_what_cannot_get_better_is_not_tried_again(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    server.failures = refused(3, retryable=False)
    with pytest.raises(ConnectError) as caught:
        await client_of(server).connect()
    assert not caught.value.retryable
    assert server.attempts == 1


async def test_a_server_that_asks_for_patience_gets_it_up_to_a_limit(client_of: MakeClient) -> None:
    server, naps = FakeServer(**CALLS), Naps()
    server.failures = [*refused(1, retry_after=7.0), *refused(1, retry_after=120.0), *refused(1)]
    with pytest.raises(ConnectError) as caught:
        await client_of(server, sleep=naps).connect()
    assert naps.asked == [7.0]
    assert caught.value.retry_after == 120.0


async def test_a_refused_address_is_an_error_of_policy(client_of: MakeClient) -> None:
    server = FakeServer()
    server.failures = refused(3, blocked=True, retryable=False)
    with pytest.raises(BlockedURLError, match="s: refused 1"):
        await client_of(server).connect()


@pytest.mark.case("B34")
async def test_silence_to_initialize_costs_one_start_timeout_and_not_three(client_of: MakeClient) -> None:
    server = FakeServer(initialize=silence)
    client = client_of(server, timeouts={"connect": 0.05})
    with pytest.raises(ConnectError, match=r"no answer to initialize within 0\.05 s"):
        await client.connect()
    assert server.attempts == 1
    assert not server.channel.open


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("hello", "did not answer initialize as an MCP server does"),
        ({}, "protocol revision"),
        ({**HELLO, "protocolVersion": "1999-01-01"}, "'1999-01-01'"),
    ],
)
async def test_who_does_not_speak_our_protocol_is_refused_at_once(
    client_of: MakeClient, answer: Any, reason: str
) -> None:
    server = FakeServer(initialize=lambda c, m: c.reply(m, answer))
    with pytest.raises(ConnectError, match=reason) as caught:
        await client_of(server).connect()
    assert not caught.value.retryable
    assert server.attempts == 1


async def test_an_older_revision_is_spoken(client_of: MakeClient) -> None:
    server = FakeServer(initialize=lambda c, m: c.reply(m, {"protocolVersion": "2024-11-05"}), **CALLS)
    info = await client_of(server).connect()
    assert (info.protocol_version, info.name, info.capabilities) == ("2024-11-05", "", {})


async def test_a_refused_initialize_names_the_servers_reason(client_of: MakeClient) -> None:
    server = FakeServer(initialize=lambda c, m: c.fail(m, -32602, "wants a licence"))
    with pytest.raises(ConnectError, match="refused to initialize: wants a licence"):
        await client_of(server).connect()


async def test_a_waiter_that_goes_away_does_not_end_the_attempt_of_the_others(client_of: MakeClient) -> None:
    server = FakeServer(initialize=silence, **CALLS)
    client = client_of(server)
    leaving, staying = (asyncio.create_task(client.connect()) for _ in range(2))
    await until(lambda: server.channels and server.sent("initialize"))
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await client._loop.run(_reply_to_initialize(server))
    assert (await staying).name == "fake"
    assert server.attempts == 1


async def _reply_to_initialize(server: FakeServer) -> None:
    server.channel.reply(server.sent("initialize")[0], HELLO)
