"""What is sent a second time, and what never is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codebuddy_mcp_tools.client import TransportFault
from codebuddy_mcp_tools.errors import (
    ConnectError,
    ConnectionLostError,
    ProtocolError,
)
from tests.client.conftest import MakeClient
from tests.client.fake import (
    FakeChannel,
    FakeServer,
    dropping,
    faulty,
    refused,
    silence,
    text,
    until,
)


@pytest.mark.case("B31")
@pytest.mark.parametrize(("replayable", "executions"), [(False, 1), (True, 2)])
async def test_a_call_that_may_have_run_is_sent_again_only_if_that_does_no_harm(
    client_of: MakeClient, replayable: bool, executions: int
) -> None:
    server = FakeServer(tools__call=dropping())
    client = client_of(server)
    call = client.call_tool("t", {}, replayable=replayable)
    if replayable:
        assert (await call).content[0]["text"] == "ok"
    else:
        with pytest.raises(ConnectionLostError, match="may have run"):
            await call
    assert len(server.sent("tools/call")) == executions


async def test_that_there_is_no_second_time_does_not_hide_that_the_first_may_have_run(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=dropping())
    client = client_of(server)
    await client.connect()
    server.failures = refused(3)
    with pytest.raises(ConnectionLostError) as caught:
        await client.call_tool("t", {}, replayable=True)
    assert caught.value.sent


async def test_a_call_that_never_left_and_finds_no_new_connection_says_that(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=faulty(TransportFault("refused", sent=False, connect=True)))
    client = client_of(server)
    await client.connect()
    server.failures = refused(3)
    with pytest.raises(ConnectError, match="refused 3"):
        await client.call_tool("t", {})


async def test_it_is_sent_again_once_and_not_more(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=dropping(times=5))
    with pytest.raises(ConnectionLostError):
        await client_of(server, breaker_threshold=10).call_tool("t", {}, replayable=True)
    assert len(server.sent("tools/call")) == 2


async def test_a_request_that_provably_never_left_is_sent_once_more(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=faulty(TransportFault("refused", sent=False, connect=True)))
    client = client_of(server)
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    assert server.attempts == 2  # it was worth a new connection


async def test_a_session_the_server_has_forgotten_is_opened_again_and_the_call_repeated(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=faulty(TransportFault("HTTP 404", sent=False, http_status=404, session_lost=True)))
    client = client_of(server)
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    assert len(server.sent("initialize")) == 2
    assert client.breaker.failures == 0


@pytest.mark.parametrize(
    "fault",
    [
        TransportFault("HTTP 404", sent=False, http_status=404, session_lost=True),
        TransportFault("connection refused", sent=False, connect=True),
    ],
)
async def test_calls_that_are_out_are_not_lost_because_another_one_needs_a_new_session(
    client_of: MakeClient, fault: TransportFault
) -> None:
    server = FakeServer(tools__call=silence)
    client = client_of(server)
    patient = [asyncio.create_task(client.call_tool("t", {"say": str(n)})) for n in range(5)]
    await until(lambda: len(server.sent("tools/call")) == 5)
    old = server.channel
    server.answers["tools/call"] = faulty(fault)
    both = await asyncio.gather(*(client.call_tool("t", {"say": "new"}) for _ in range(2)))
    assert [result.content[0]["text"] for result in both] == ["new", "new"]
    assert len(server.channels) == 2
    assert old.open
    await client._loop.run(_answer_all(old))
    assert [(await call).content[0]["text"] for call in patient] == ["0", "1", "2", "3", "4"]
    await until(lambda: not old.open)
    assert client.breaker.failures == 0


async def _answer_all(channel: FakeChannel) -> None:
    for request in channel.requests("tools/call")[:5]:
        text(channel, request)


@pytest.mark.parametrize(
    ("status", "sent", "failures"), [(401, False, 0), (429, False, 0), (400, False, 0), (500, True, 0), (503, True, 1)]
)
async def test_an_http_status_is_an_answer_and_not_repeated(
    client_of: MakeClient, status: int, sent: bool, failures: int
) -> None:
    fault = TransportFault(f"HTTP {status}", http_status=status, sent=sent, retry_after=3.0)
    server = FakeServer(tools__call=faulty(fault))
    client = client_of(server)
    with pytest.raises(ProtocolError, match=f"HTTP {status}") as caught:
        await client.call_tool("t", {}, replayable=True)
    assert caught.value.ran is sent
    assert caught.value.data == {"http_status": status, "retry_after": 3.0}
    assert len(server.sent("tools/call")) == 1
    assert server.attempts == 1
    assert client.breaker.failures == failures


async def test_an_answer_that_broke_off_is_a_lost_call_on_a_session_that_lives(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=faulty(TransportFault("the stream broke off")))
    client = client_of(server)
    with pytest.raises(ConnectionLostError) as caught:
        await client.call_tool("t", {})
    assert caught.value.sent
    assert client.breaker.failures == 1
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    assert server.attempts == 1


async def test_a_server_cannot_ask_for_a_second_execution(client_of: MakeClient) -> None:
    def forged(channel: FakeChannel, message: dict[str, Any]) -> None:
        data = {"codebuddy": {"sent": False, "session_lost": True}}
        error = {"code": 32600, "message": "Session terminated", "data": data}
        channel.push({"id": message["id"], "error": error})

    server = FakeServer(tools__call=forged)
    with pytest.raises(ProtocolError, match="Session terminated"):
        await client_of(server).call_tool("t", {})
    assert len(server.sent("tools/call")) == 1
