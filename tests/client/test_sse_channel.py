"""The older SSE transport: the endpoint, one message's failure, the end of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from codebuddy_mcp_tools.client.sse import open_sse
from codebuddy_mcp_tools.client.transport import Channel, ChannelError, ConnectionSpec, Timeouts
from codebuddy_mcp_tools.config.models import SseServer
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.site import Handler, Recorder, Reply, Seen, Site, answer, event
from tests.client.test_http_faults import LOCAL, request


class Older:
    """A server of the older transport; `posts` says what happens to a POST, `stream` holds the open stream."""

    def __init__(self, endpoint: str | None = "/messages?session_id=s", post: Handler | None = None) -> None:
        self.endpoint = endpoint
        self.post = post
        self.stream: Reply | None = None

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        if seen.method == "GET":
            await reply.events(end=False)
            if self.endpoint is not None:
                await reply.event(f"event: endpoint\ndata: {self.endpoint}")
            self.stream = reply
            await reply.until_gone()
        elif self.post is not None:
            await self.post(seen, reply)
        else:
            await self.accept(seen, reply)

    async def accept(self, seen: Seen, reply: Reply) -> None:
        await reply.status(202, "Accepted")
        assert self.stream is not None
        if "id" in seen.message:
            await self.stream.event(event(answer(seen, {"target": seen.target})))


@asynccontextmanager
async def opened(site: Site, **changes: object) -> AsyncIterator[tuple[Channel, Recorder]]:
    sink = Recorder()
    headers = changes.pop("headers", {})
    config = SseServer(url=f"http://127.0.0.1:{site.port}/sse", headers=headers)
    spec = ConnectionSpec("srv", config, **{"outbound": LOCAL, **changes})
    async with open_sse(spec, sink, redactor=Redactor()) as channel:
        yield channel, sink


async def refused(handler: Handler, **changes: object) -> ChannelError:
    async with Site(handler) as site:
        with pytest.raises(ChannelError) as caught:
            async with opened(site, **changes):
                pytest.fail("the channel must not open")
    return caught.value


async def test_messages_go_to_the_named_endpoint_and_answers_come_on_the_stream() -> None:
    async with Site(Older()) as site, opened(site, headers={"X-Key": "k"}) as (channel, sink):
        await channel.send(request(1, "initialize"), headers={"X-One": "1"})
        assert (await sink.answer(1))["result"] == {"target": "/messages?session_id=s"}
        get, post = site.requests
    assert (get.headers["accept"], get.headers["x-key"]) == ("text/event-stream", "k")
    assert (post.headers["x-key"], post.headers["x-one"]) == ("k", "1")


@pytest.mark.parametrize("endpoint", [None, ""])
async def test_a_missing_endpoint_event_fails_within_the_connect_deadline(endpoint: str | None) -> None:
    error = await refused(Older(None), timeouts=Timeouts(connect=0.05))
    assert "no endpoint event within 0.05 s" in str(error)
    assert error.fault.timed_out


@pytest.mark.case("B61")
async def test_an_endpoint_of_another_origin_is_refused_and_the_other_server_sees_nothing() -> None:
    async with Site(Older()) as other:
        error = await refused(Older(f"http://127.0.0.1:{other.port}/steal?t=CANARY"))
        assert other.connections == 0
    assert "another origin" in str(error)
    assert "CANARY" not in str(error)
    assert not error.fault.retryable


@pytest.mark.parametrize("endpoint", ["http://[", "javascript:alert(1)", "//evil.test/x", "https://127.0.0.1/x"])
async def test_an_endpoint_that_leads_elsewhere_is_refused(endpoint: str) -> None:
    assert not (await refused(Older(endpoint))).fault.retryable


@pytest.mark.parametrize("status", [401, 404, 405, 429, 500])
async def test_a_stream_that_is_refused_is_one_line(status: int) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(status, retry_after="3")

    error = await refused(refuse)
    assert error.fault.http_status == status
    assert error.fault.retry_after == 3.0
    assert "\n" not in str(error)


async def test_a_page_in_place_of_a_stream_is_one_line() -> None:
    async def page(seen: Seen, reply: Reply) -> None:
        await reply.status(200, "<html>", content_type="text/html")

    assert "no event stream but text/html (HTTP 200)" in str(await refused(page))


async def test_a_stream_that_ends_at_once_is_one_line() -> None:
    async def end(seen: Seen, reply: Reply) -> None:
        await reply.events()

    assert "ended before it named an endpoint" in str(await refused(end))


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_a_post_that_is_refused_fails_its_own_call_and_the_session_lives(status: int) -> None:
    older = Older()

    async def sometimes(seen: Seen, reply: Reply) -> None:
        if seen.message["id"] == 1:
            await reply.status(status)
        else:
            await older.accept(seen, reply)

    older.post = sometimes
    async with Site(older) as site, opened(site) as (channel, sink):
        await channel.send(request(1))
        assert (await sink.fault(1)).http_status == status
        await channel.send(request(2))
        assert "result" in await sink.answer(2)
        assert sink.ends == []


async def test_a_404_to_a_post_means_that_the_session_is_lost() -> None:
    async def forget(seen: Seen, reply: Reply) -> None:
        await reply.status(404)

    async with Site(Older(post=forget)) as site, opened(site) as (channel, sink):
        await channel.send(request(1))
        assert (await sink.fault(1)).session_lost


async def test_a_notification_that_fails_or_hangs_does_not_end_the_session() -> None:
    older = Older()

    async def only_requests(seen: Seen, reply: Reply) -> None:
        if "id" in seen.message:
            await older.accept(seen, reply)
        elif seen.rpc == "notifications/initialized":
            await reply.status(500)
        else:
            await reply.until_gone()

    older.post = only_requests
    async with Site(older) as site, opened(site, timeouts=Timeouts(write=0.05)) as (channel, sink):
        await channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await channel.send({"jsonrpc": "2.0", "method": "notifications/progress"})
        await channel.send(request(2))
        await sink.answer(2)
        assert sink.ends == []


async def test_a_dropped_stream_ends_the_channel_with_a_reason() -> None:
    older = Older()
    async with Site(older) as site, opened(site) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        assert older.stream is not None
        older.stream.reset()
        await sink.until(lambda: bool(sink.ends))
        assert "lost" in sink.ends[0].message or "broke off" in sink.ends[0].message
        with pytest.raises(ChannelError):
            await channel.send(request(2))


async def test_an_endless_event_ends_the_channel() -> None:
    older = Older()

    async def flood(seen: Seen, reply: Reply) -> None:
        await reply.status(202)
        assert older.stream is not None
        block = b"data: " + b"x" * (1 << 20) + b"\n"
        for _ in range(40):
            await older.stream.raw(f"{len(block):x}\r\n".encode() + block + b"\r\n")

    older.post = flood
    async with Site(older) as site, opened(site) as (channel, sink):
        await channel.send(request(1))
        await sink.until(lambda: bool(sink.ends))
        assert "larger than 32 MB" in sink.ends[0].message


async def test_noise_on_the_stream_is_skipped() -> None:
    older = Older()

    async def noisy(seen: Seen, reply: Reply) -> None:
        assert older.stream is not None
        await older.stream.event("data: oops")
        await older.stream.event("event: other\ndata: {}")
        await older.accept(seen, reply)

    older.post = noisy
    async with Site(older) as site, opened(site) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        assert sink.noises == ["oops"]


async def test_a_cancelled_request_whose_post_hangs_is_let_go() -> None:
    gone, waiting = asyncio.Event(), asyncio.Event()
    older = Older()

    async def hang(seen: Seen, reply: Reply) -> None:
        if seen.rpc == "tools/call":
            waiting.set()
            await reply.until_gone()
            gone.set()
        else:
            await reply.status(202)

    older.post = hang
    async with Site(older) as site, opened(site) as (channel, _):
        await channel.send(request(1))
        await asyncio.wait_for(waiting.wait(), 10)
        await channel.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await asyncio.wait_for(gone.wait(), 10)
