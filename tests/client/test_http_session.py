"""A streamable HTTP session that goes well: headers, order, streams, cancellation, the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from codebuddy_mcp_tools.client.http import open_http
from codebuddy_mcp_tools.client.transport import ChannelError, Timeouts
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.site import Recorder, Reply, Seen, Site, answer, event
from tests.client.test_http_faults import opened, request, site, spec

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def plain(seen: Seen, reply: Reply) -> None:
    await reply.json(answer(seen))


async def test_session_id_and_protocol_version_go_with_every_later_message() -> None:
    async with site(plain) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        first, second = server.requests
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    assert second.headers["mcp-session-id"] == "s-1"
    assert second.headers["mcp-protocol-version"] == "2025-11-25"
    assert second.headers["accept"] == "application/json, text/event-stream"


@pytest.mark.parametrize("bad", ["a b", "x" * 2000, "schlüssel"])
async def test_a_session_id_that_no_header_can_carry_is_ignored(bad: str) -> None:
    async with site(plain, session=bad) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        assert "mcp-session-id" not in server.requests[1].headers


async def test_headers_of_one_call_go_with_that_call_only() -> None:
    async with site(plain) as server, opened(server, headers={"X-All": "a", "X-Both": "a"}) as (channel, sink):
        await channel.send(request(1), headers={"X-One": "1", "X-Both": "b"})
        await channel.send(request(2))
        await sink.answer(1)
        await sink.answer(2)
        first, second = (seen.headers for seen in server.seen("tools/call"))
    if first.get("x-one") is None:
        first, second = second, first
    assert (first["x-all"], first["x-one"], first["x-both"]) == ("a", "1", "b")
    assert (second["x-all"], second.get("x-one"), second["x-both"]) == ("a", None, "a")


async def test_a_header_of_one_call_that_cannot_be_sent_fails_that_call() -> None:
    async with site(plain) as server, opened(server) as (channel, sink):
        with pytest.raises(ChannelError) as caught:
            await channel.send(request(1), headers={"X-Secret": "canary-1\n"})
        assert "canary" not in str(caught.value)
        await channel.send(request(2))
        await sink.answer(2)


async def test_user_info_of_the_url_becomes_a_header() -> None:
    async with site(plain) as server:
        url = server.url.replace("http://", "http://user:pass%21@")
        sink = Recorder()
        async with open_http(spec(url), sink, redactor=Redactor()) as channel:
            await channel.send(request(0, "initialize"))
            await sink.answer(0)
        assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNzIQ=="


async def test_events_before_the_answer_are_delivered_in_order() -> None:
    notes = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": n}} for n in range(3)]
    question = {"jsonrpc": "2.0", "id": "srv-1", "method": "elicitation/create", "params": {}}

    async def talk(seen: Seen, reply: Reply) -> None:
        await reply.events(*map(event, notes), event(question), event(answer(seen)))

    async with site(talk) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        assert sink.messages[1:5] == [*notes, question]


async def test_a_large_answer_and_odd_line_ends_are_read_whole() -> None:
    async def talk(seen: Seen, reply: Reply) -> None:
        text = "a\u2028b\x85c" + "ü" * 300_000
        data = event(answer(seen, {"text": text})).encode() + b"\r\n\r\n"
        await reply.events(end=False)
        for start in range(0, len(data), 7001):
            block = data[start : start + 7001]
            await reply.raw(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        await reply.end()

    async with site(talk) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        assert (await sink.answer(1))["result"]["text"].startswith("a\u2028b\x85cü")


async def test_calls_whose_answers_are_event_streams_share_their_connections() -> None:
    async def talk(seen: Seen, reply: Reply) -> None:
        await reply.events(event(answer(seen)))

    async with site(talk) as server, opened(server) as (channel, sink):
        for number in range(1, 21):
            await channel.send(request(number))
            await sink.answer(number)
        # Two, because the next call may start while the end of the last stream is still being read.
        assert server.connections <= 2


async def test_an_answer_is_delivered_before_its_stream_ends() -> None:
    ended = asyncio.Event()

    async def talk(seen: Seen, reply: Reply) -> None:
        await reply.events(event(answer(seen)), end=False)
        await ended.wait()

    async with site(talk) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        ended.set()


async def test_initialized_is_delivered_before_any_later_request() -> None:
    async def slow(seen: Seen, reply: Reply) -> None:
        if seen.method != "POST":
            await reply.status(405)
        elif seen.rpc == "notifications/initialized":
            for _ in range(5):
                await asyncio.sleep(0)
            await reply.status(202)
        else:
            await reply.json(answer(seen))

    async with Site(slow) as server, opened(server) as (channel, sink):
        await channel.send(INITIALIZED)
        await channel.send(request(1))
        await sink.answer(1)
        posts = [seen.rpc for seen in server.requests if seen.method == "POST"]
        assert posts == ["initialize", "notifications/initialized", "tools/call"]


async def test_a_cancelled_request_tells_the_server_and_stops_reading() -> None:
    gone = asyncio.Event()
    waiting = asyncio.Event()

    async def hang(seen: Seen, reply: Reply) -> None:
        waiting.set()
        await reply.until_gone()
        gone.set()

    async with site(hang) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await asyncio.wait_for(waiting.wait(), 10)
        await channel.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "timeout"}}
        )
        await asyncio.wait_for(gone.wait(), 10)
        assert len(server.seen("notifications/cancelled")) == 1
        await channel.send(request(2, "ping"))
        await sink.answer(2)
        assert sink.answers(1) == []


async def test_closing_ends_the_session_with_one_delete() -> None:
    async with site(plain) as server:
        async with opened(server):
            pass
        assert [(seen.method, seen.headers.get("mcp-session-id")) for seen in server.requests[1:]] == [
            ("DELETE", "s-1")
        ]


async def test_a_server_without_sessions_gets_no_delete() -> None:
    async with site(plain, session=None) as server:
        async with opened(server):
            pass
        assert [seen.method for seen in server.requests] == ["POST"]


async def test_a_delete_that_is_never_answered_does_not_hold_up_the_close() -> None:
    async def handle(seen: Seen, reply: Reply) -> None:
        if seen.method == "POST":
            await reply.json(answer(seen), mcp_session_id="s-1")
        else:
            await reply.until_gone()

    async with Site(handle) as server, asyncio.timeout(10):
        async with opened(server, timeouts=Timeouts(close=0.1)):
            pass
        assert server.requests[-1].method == "DELETE"


async def test_a_closed_channel_takes_no_message() -> None:
    async with site(plain) as server:
        async with opened(server) as (channel, _):
            pass
        with pytest.raises(ChannelError) as caught:
            await channel.send(request(1))
        assert not caught.value.fault.sent


@pytest.mark.case("B60")
async def test_nothing_that_is_logged_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(401, set_cookie="cookie=COOKIECANARY")

    redactor = Redactor("PASSCANARY", "URLCANARY", "Bearer HDRCANARY")
    with caplog.at_level(logging.DEBUG):
        async with site(refuse, session="SESSIONCANARY") as server:
            url = server.url.replace("http://", "http://user:PASSCANARY@") + "?api_key=URLCANARY"
            sink = Recorder()
            headers = {"X-Key": "Bearer HDRCANARY"}
            async with open_http(spec(url, headers=headers), sink, redactor=redactor) as channel:
                await channel.send(request(0, "initialize"))
                await sink.answer(0)
                await channel.send(request(1))
                fault = await sink.fault(1)
    said = "\n".join([caplog.text, repr(fault), repr(spec(url, headers=headers)), repr(channel)])
    for canary in ("PASSCANARY", "URLCANARY", "HDRCANARY", "SESSIONCANARY", "COOKIECANARY"):
        assert canary not in said
    assert any(record.name.startswith("httpx") for record in caplog.records)
