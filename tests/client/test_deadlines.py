"""Deadlines of calls: slow servers, dead servers."""

from __future__ import annotations

import asyncio

import pytest

from codebuddy_mcp_tools.errors import (
    CallTimeoutError,
)
from tests.client.conftest import MakeClient
from tests.client.fake import (
    FakeServer,
    silence,
    text,
    until,
)


async def test_a_slow_call_of_a_living_server_counts_nothing(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence)
    client = client_of(server)
    for _ in range(4):
        with pytest.raises(CallTimeoutError, match="may have run") as caught:
            await client.call_tool("t", {}, timeout=0.02)
        assert caught.value.timeout == 0.02
    await until(lambda: server.sent("ping"))
    assert client.breaker.failures == 0
    assert server.attempts == 1


async def test_a_slow_call_of_a_dead_server_counts_and_the_session_is_given_up(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence, ping=silence)
    client = client_of(server, timeouts={"ping": 0.02})
    with pytest.raises(CallTimeoutError):
        await client.call_tool("t", {}, timeout=0.02)
    await until(lambda: server.attempts == 2)
    assert client.breaker.failures == 1
    assert "ping" in (client.snapshot().last_error or "")


async def test_a_session_that_others_still_use_is_not_given_up(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=silence, ping=silence)
    client = client_of(server, timeouts={"ping": 0.02})
    patient = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and server.sent("tools/call"))
    with pytest.raises(CallTimeoutError):
        await client.call_tool("t", {}, timeout=0.02)
    await until(lambda: client.breaker.failures == 1)
    await client._loop.run(_answer_first_call(server))
    assert (await patient).content[0]["text"] == "ok"
    assert server.attempts == 1


async def _answer_first_call(server: FakeServer) -> None:
    text(server.channel, server.sent("tools/call")[0])
