"""Streams that break off: resumption of an answer, and the standing GET stream."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest

from codebuddy_mcp_tools.client.exchange import SessionHeaders
from codebuddy_mcp_tools.client.guard import guarded_client
from codebuddy_mcp_tools.client.listener import Listener
from codebuddy_mcp_tools.client.origin import Origin
from tests.client.site import Handler, Recorder, Reply, Seen, Site, answer, event
from tests.client.test_http_faults import LOCAL, opened, request

NOTE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Pauses(list[float]):
    """A sleep that takes no time and remembers how long it should have been; cancels its task at the `limit`."""

    def __init__(self, limit: int = 1000) -> None:
        super().__init__()
        self.limit = limit

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)
        if len(self) >= self.limit:
            raise asyncio.CancelledError


class Resumable:
    """A server whose call stream breaks off after a priming event; `rest` answers the GETs that follow, in turn."""

    def __init__(self, *rest: str, first: str = "id: e1\nretry: 1\ndata:", reset: bool = False) -> None:
        self.rest = iter(rest)
        self.first = first
        self.reset = reset
        self.call: Seen | None = None

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        if seen.method == "GET":
            await self._resume(reply)
        elif seen.rpc == "tools/call":
            self.call = seen
            await reply.events(self.first, end=not self.reset)
            if self.reset:
                reply.reset()
        else:
            await reply.json(answer(seen), mcp_session_id="s-1") if seen.method == "POST" else await reply.status(200)

    async def _resume(self, reply: Reply) -> None:
        step = next(self.rest, "405")
        assert self.call is not None
        if step.isdigit():
            await reply.status(int(step))
        elif step == "answer":
            await reply.events(event(answer(self.call, {"ok": True}), id="e9"))
        else:
            await reply.events(step)


@pytest.mark.parametrize("reset", [True, False])
async def test_a_stream_that_breaks_off_is_resumed_where_it_stood(reset: bool) -> None:
    async with Site(Resumable("answer", reset=reset)) as site, opened(site, sleep=Pauses()) as (channel, sink):
        await channel.send(request(1))
        assert (await sink.answer(1))["result"] == {"ok": True}
        (get,) = (seen for seen in site.requests if seen.method == "GET")
    assert get.headers["last-event-id"] == "e1"
    assert get.headers["mcp-session-id"] == "s-1"
    assert len(site.seen("tools/call")) == 1


async def test_a_resumed_stream_may_break_off_again_as_long_as_it_moves_on() -> None:
    steps = [f"id: e{n}\ndata:" for n in range(2, 20)]
    async with Site(Resumable(*steps, "answer")) as site, opened(site, sleep=Pauses()) as (channel, sink):
        await channel.send(request(1))
        await sink.answer(1)
        positions = [seen.headers["last-event-id"] for seen in site.requests if seen.method == "GET"]
    assert positions == [f"e{n}" for n in range(1, 20)]


async def test_a_stream_that_never_moves_on_fails_the_call() -> None:
    steps, pauses = itertools.repeat(": nothing", 50), Pauses()
    async with Site(Resumable(*steps)) as site, opened(site, sleep=pauses) as (channel, sink):
        await channel.send(request(1))
        fault = await sink.fault(1)
        assert "ended before the answer" in fault.message
        assert fault.sent
        assert sum(seen.method == "GET" for seen in site.requests) == 4
        assert pauses == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("refusal", ["405", "404", "500"])
async def test_a_stream_that_cannot_be_resumed_fails_the_call(refusal: str) -> None:
    async with Site(Resumable(refusal)) as site, opened(site, sleep=Pauses()) as (channel, sink):
        await channel.send(request(1))
        fault = await sink.fault(1)
        assert fault.http_status == int(refusal)
        assert fault.sent


async def listen(handler: Handler, limit: int = 5) -> tuple[Recorder, list[float], Site]:
    sink, pauses, session = Recorder(), Pauses(limit), SessionHeaders("s-1", "2025-11-25")
    async with Site(handler) as site, guarded_client(LOCAL) as client:
        with contextlib.suppress(asyncio.CancelledError):
            await Listener(Origin(client, site.url), sink, session, sleep=pauses).run()
        return sink, pauses, site


async def test_a_server_that_closes_the_stream_at_once_is_asked_less_and_less_often() -> None:
    async def close(seen: Seen, reply: Reply) -> None:
        await reply.events("retry: 0\ndata:")

    _, pauses, _ = await listen(close, 9)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


async def test_a_stream_that_delivers_is_asked_for_again_after_a_second() -> None:
    async def deliver(seen: Seen, reply: Reply) -> None:
        await reply.events(event(NOTE))

    sink, pauses, _ = await listen(deliver)
    assert pauses == [1.0] * 5
    assert sink.messages == [NOTE] * 5


async def test_a_longer_retry_of_the_server_is_respected_and_the_position_is_told() -> None:
    async def deliver(seen: Seen, reply: Reply) -> None:
        await reply.events(event(NOTE, id="p7", retry=5000))

    _, pauses, site = await listen(deliver, 2)
    assert pauses == [5.0, 5.0]
    assert [seen.headers.get("last-event-id") for seen in site.requests] == [None, "p7"]


@pytest.mark.parametrize("status", [400, 401, 404, 405, 406])
async def test_a_server_without_the_stream_is_asked_once(status: int) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(status)

    sink, pauses, site = await listen(refuse)
    assert (len(site.requests), pauses, sink.ends) == (1, [], [])


async def test_a_404_after_the_stream_has_worked_means_that_the_session_is_lost() -> None:
    seen_before: list[Seen] = []

    async def forget(seen: Seen, reply: Reply) -> None:
        if seen_before:
            await reply.status(404)
        else:
            seen_before.append(seen)
            await reply.events(event(NOTE))

    sink, _, _ = await listen(forget)
    assert [fault.session_lost for fault in sink.ends] == [True]


async def test_trouble_of_the_server_is_tried_again() -> None:
    async def trouble(seen: Seen, reply: Reply) -> None:
        await reply.status(503)

    _, pauses, site = await listen(trouble, 3)
    assert len(site.requests) == 3
    assert pauses == [1.0, 2.0, 4.0]


async def test_answers_and_noise_on_the_stream_reach_nobody() -> None:
    async def odd(seen: Seen, reply: Reply) -> None:
        await reply.events("data: hello", event({"jsonrpc": "2.0", "id": 1, "result": {}}), event(NOTE))

    sink, _, _ = await listen(odd, 1)
    assert sink.messages == [NOTE]
    assert sink.noises == ["hello"]


async def test_an_endless_event_ends_that_stream_only() -> None:
    async def flood(seen: Seen, reply: Reply) -> None:
        await reply.events(end=False)
        block = b"data: " + b"x" * (1 << 20) + b"\n"
        for _ in range(40):
            await reply.raw(f"{len(block):x}\r\n".encode() + block + b"\r\n")

    sink, pauses, _ = await listen(flood, 1)
    assert len(pauses) == 1
    assert sink.ends == []
