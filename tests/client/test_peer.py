"""JSON-RPC: answers find their requests, nothing that arrived is lost, nothing waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from codebuddy_mcp_tools.client import TransportFault
from codebuddy_mcp_tools.client.peer import Peer
from codebuddy_mcp_tools.client.request_errors import (
    AnswerError,
    AnswerGarbledError,
    RequestExpiredError,
    RequestLostError,
)
from tests.client.fake import FakeChannel, FakeServer, silence, until


class Ears:
    """Notes what a peer passes on."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, str]] = []
        self.notifications: list[str] = []
        self.noise: list[str] = []
        self.closed: list[TransportFault] = []

    def on_request(self, request_id: Any, method: str, params: Any) -> None:
        self.requests.append((request_id, method))

    def on_notification(self, method: str, params: Any) -> None:
        self.notifications.append(method)

    def on_noise(self, text: str) -> None:
        self.noise.append(text)

    def on_closed(self, fault: TransportFault) -> None:
        self.closed.append(fault)


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
async def peer(ears: Ears) -> Peer:
    return Peer(ears)


def attached(peer: Peer, **answers: Any) -> FakeChannel:
    channel = FakeChannel(FakeServer(**answers), peer)
    peer.attach(channel)
    return channel


async def started(task: asyncio.Task[Any], channel: FakeChannel) -> dict[str, Any]:
    await until(lambda: channel.sent)
    return channel.sent[-1]


async def ask(peer: Peer, method: str = "x", timeout: float = 20.0, **options: Any) -> Any:
    return await peer.request(method, {}, timeout=timeout, **options)


async def test_a_result_comes_back(peer: Peer) -> None:
    attached(peer, x=lambda c, m: c.reply(m, {"a": 1}))
    assert await ask(peer) == {"a": 1}
    assert peer.in_flight == 0


@pytest.mark.parametrize("form", ["{}", " {}", "{}.0"])
async def test_an_id_may_come_back_as_a_string_but_only_as_the_same_number(peer: Peer, form: str, ears: Ears) -> None:
    channel = attached(peer, x=lambda c, m: c.push({"id": form.format(m["id"]), "result": 1}))
    if form == "{}":
        assert await ask(peer) == 1
    else:
        with pytest.raises(RequestExpiredError) as caught:
            await ask(peer, timeout=0.02)
        assert caught.value.stray == 1
    assert channel.sent[0]["id"] == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "1.0", "id": 0, "result": 7},
        {"id": 0, "result": 7, "error": None},
        {"id": 0.0, "result": 7},
        {"id": 0, "result": 7, "extra": []},
    ],
)
async def test_the_form_of_an_answer_does_not_matter_if_it_fits(peer: Peer, answer: dict[str, Any]) -> None:
    attached(peer, x=lambda c, m: c.push(answer))
    assert await ask(peer) == 7


async def test_a_boolean_is_no_id(peer: Peer) -> None:
    attached(peer, x=lambda c, m: c.push({"id": False, "result": 7}))
    with pytest.raises(RequestExpiredError):
        await ask(peer, timeout=0.02)


async def test_an_error_comes_back_whatever_its_form(peer: Peer) -> None:
    attached(peer, x=lambda c, m: c.push({"id": m["id"], "error": "no"}))
    with pytest.raises(AnswerError) as caught:
        await ask(peer)
    assert caught.value.error == "no"


async def test_an_answer_with_neither_result_nor_error_is_an_answer(peer: Peer) -> None:
    attached(peer, x=lambda c, m: c.push({"id": m["id"]}))
    with pytest.raises(AnswerGarbledError):
        await ask(peer)


async def test_an_error_without_id_belongs_to_the_only_request_that_is_out(peer: Peer) -> None:
    error = {"code": -32700, "message": "Parse error"}
    attached(peer, x=lambda c, m: c.push({"jsonrpc": "2.0", "id": None, "error": error}))
    with pytest.raises(AnswerError):
        await ask(peer)


async def test_an_error_without_id_is_nobodys_when_two_requests_are_out(peer: Peer) -> None:
    channel = attached(peer, x=silence)
    first, second = (asyncio.create_task(ask(peer)) for _ in range(2))
    await until(lambda: len(channel.sent) == 2)
    channel.push({"id": None, "error": {"code": -32700, "message": "Parse error"}})
    channel.reply({"id": 1}, "second")
    channel.reply({"id": 0}, "first")
    assert (await first, await second) == ("first", "second")


async def test_a_second_answer_is_ignored(peer: Peer) -> None:
    def twice(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.reply(message, 1)
        channel.reply(message, 2)

    attached(peer, x=twice)
    assert await ask(peer) == 1


async def test_a_deadline_tells_the_server_and_leaves_the_channel_usable(peer: Peer) -> None:
    channel = attached(peer, x=silence, y=lambda c, m: c.reply(m, "still here"))
    with pytest.raises(RequestExpiredError):
        await ask(peer, timeout=0.02)
    assert await ask(peer, "y") == "still here"
    await peer.drained()
    (told,) = channel.requests("notifications/cancelled")
    assert told["params"]["requestId"] == 0
    channel.reply({"id": 0}, "late")
    assert await ask(peer, "y") == "still here"


async def test_a_cancelled_caller_tells_the_server(peer: Peer) -> None:
    channel = attached(peer, x=silence)
    task = asyncio.create_task(ask(peer))
    await started(task, channel)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await peer.drained()
    assert [m["params"]["requestId"] for m in channel.requests("notifications/cancelled")] == [0]
    assert peer.in_flight == 0


async def test_a_cancelled_initialize_is_not_told(peer: Peer) -> None:
    channel = attached(peer, initialize=silence)
    with pytest.raises(RequestExpiredError):
        await ask(peer, "initialize", timeout=0.02, tell_cancelled=False)
    await peer.drained()
    assert channel.requests("notifications/cancelled") == []


async def test_the_end_of_the_channel_fails_everything_that_waits(peer: Peer, ears: Ears) -> None:
    channel = attached(peer, x=silence)
    tasks = [asyncio.create_task(ask(peer)) for _ in range(20)]
    await until(lambda: len(channel.sent) == 20)
    channel.drop("gone")
    channel.drop("gone again")
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(r) for r in results} == {RequestLostError}
    assert {r.fault.sent for r in results if isinstance(r, RequestLostError)} == {True}
    assert [fault.message for fault in ears.closed] == ["gone"]


async def test_after_the_end_a_request_is_refused_as_never_sent(peer: Peer) -> None:
    channel = attached(peer)
    channel.drop("gone")
    with pytest.raises(RequestLostError) as caught:
        await ask(peer)
    assert not caught.value.fault.sent
    assert caught.value.fault.message == "gone"


async def test_an_answer_right_before_the_end_is_not_lost(peer: Peer) -> None:
    def last_words(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.reply(message, "done")
        channel.drop("gone")

    attached(peer, x=last_words)
    assert await ask(peer) == "done"


async def test_an_answer_in_the_moment_of_the_deadline_is_not_lost(peer: Peer) -> None:
    channel = attached(peer, x=silence)
    task = asyncio.create_task(ask(peer, timeout=0.02))
    await started(task, channel)
    loop = asyncio.get_running_loop()
    # Both happen in one pass of the loop: the deadline fires and the answer is there.
    loop.call_later(0.02, lambda: channel.reply({"id": 0}, "just in time"))
    await asyncio.wait({task})
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert outcome == "just in time" or isinstance(outcome, RequestExpiredError)


async def test_a_channel_that_does_not_take_a_message_is_bounded_by_the_same_deadline(peer: Peer) -> None:
    async def stuck(channel: FakeChannel, message: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    attached(peer, x=stuck)
    with pytest.raises(RequestExpiredError):
        await ask(peer, timeout=0.02)


async def test_a_garbled_answer_fails_the_request_it_belongs_to(peer: Peer) -> None:
    attached(peer, x=lambda c, m: c.sink.garbled(m["id"], "too long"))
    with pytest.raises(AnswerGarbledError, match="too long"):
        await ask(peer)


async def test_a_garbled_answer_without_id_fails_the_only_request(peer: Peer, ears: Ears) -> None:
    channel = attached(peer, x=lambda c, m: c.sink.garbled(None, "too long"))
    with pytest.raises(AnswerGarbledError):
        await ask(peer)
    channel.sink.garbled(None, "of nobody")
    assert ears.noise == ["of nobody"]


async def test_what_is_no_message_is_noise(peer: Peer, ears: Ears) -> None:
    channel = attached(peer)
    for odd in ({}, {"method": 7}, {"method": ["x"], "id": 1}, {"id": {"a": 1}, "method": "sampling/createMessage"}):
        channel.push(odd)
    assert len(ears.noise) == 3
    assert ears.requests == []


async def test_requests_and_notifications_of_the_server_are_passed_on(peer: Peer, ears: Ears) -> None:
    channel = attached(peer)
    channel.push({"id": "q", "method": "roots/list"})
    channel.push({"method": "notifications/message", "params": [1]})
    assert ears.requests == [("q", "roots/list")]
    assert ears.notifications == ["notifications/message"]


async def test_a_ping_is_answered_at_once(peer: Peer) -> None:
    channel = attached(peer)
    channel.push({"id": "p", "method": "ping"})
    await peer.drained()
    assert channel.sent == [{"jsonrpc": "2.0", "id": "p", "result": {}}]


async def test_a_flood_of_pings_does_not_pile_up(peer: Peer) -> None:
    async def slow(channel: FakeChannel, message: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    channel = attached(peer)
    channel.server.answers[""] = slow
    for number in range(10_000):
        channel.push({"id": number, "method": "ping"})
    assert len(asyncio.all_tasks()) < 100
    peer.close(TransportFault("enough"))
    await peer.drained()


async def test_progress_reaches_its_own_request_before_the_result(peer: Peer) -> None:
    def working(channel: FakeChannel, message: dict[str, Any]) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for params in ({"progress": 1, "total": 2, "message": "half"}, {"progress": 2.5}, {"progress": "x"}, {}):
            channel.push({"method": "notifications/progress", "params": {"progressToken": token, **params}})
        channel.push({"method": "notifications/progress", "params": {"progressToken": 99, "progress": 9}})
        channel.reply(message, "done")

    seen: list[Any] = []
    channel = attached(peer, x=working)
    result = await peer.request(
        "x", {"_meta": {"mine": 1}}, timeout=20, on_progress=lambda *progress: seen.append(progress)
    )
    assert result == "done"
    assert seen == [(1, 2, "half"), (2.5, None, None)]
    assert channel.sent[0]["params"]["_meta"] == {"mine": 1, "progressToken": 0}


async def test_a_listener_for_progress_that_fails_loses_no_result(peer: Peer) -> None:
    def working(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.push({"method": "notifications/progress", "params": {"progressToken": 0, "progress": 1}})
        channel.reply(message, "done")

    def broken(*_: Any) -> None:
        raise LookupError

    attached(peer, x=working)
    assert await ask(peer, on_progress=broken) == "done"


async def test_while_a_person_is_asked_the_deadline_stands_still(peer: Peer) -> None:
    channel = attached(peer, x=silence)
    task = asyncio.create_task(ask(peer, timeout=0.5))
    await started(task, channel)
    with peer.clock_stopped():
        await asyncio.sleep(0.7)
        assert not task.done()
    channel.reply({"id": 0}, "answered")
    assert await task == "answered"


async def test_a_server_cannot_stretch_a_deadline_for_ever(peer: Peer) -> None:
    channel = attached(peer, x=silence)
    task = asyncio.create_task(ask(peer, timeout=0.05))
    await started(task, channel)
    for _ in range(3):
        with peer.clock_stopped():
            await asyncio.sleep(0)
    with peer.clock_stopped(), pytest.raises(RequestExpiredError):
        await task
