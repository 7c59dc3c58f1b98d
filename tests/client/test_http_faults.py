"""What a server does wrong over HTTP stays with the call it happened to."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from codebuddy_mcp_tools.client.exchange import Sleep
from codebuddy_mcp_tools.client.http import open_http
from codebuddy_mcp_tools.client.transport import Channel, ChannelError, ConnectionSpec, Timeouts
from codebuddy_mcp_tools.config.models import HttpServer
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.site import Recorder, Reply, Seen, Site, answer, event

LOCAL = OutboundRules(allow_loopback=True)
Step = Callable[[Seen, Reply], Awaitable[None]]


def spec(url: str, **changes: object) -> ConnectionSpec:
    headers = changes.pop("headers", {})
    return ConnectionSpec("srv", HttpServer(url=url, headers=headers), **{"outbound": LOCAL, **changes})


@asynccontextmanager
async def opened(
    site: Site, *, sleep: Sleep = asyncio.sleep, **changes: object
) -> AsyncIterator[tuple[Channel, Recorder]]:
    """A channel whose session is open."""
    sink = Recorder()
    async with open_http(spec(site.url, **changes), sink, redactor=Redactor(), sleep=sleep) as channel:
        await channel.send(request(0, "initialize"))
        await sink.answer(0)
        yield channel, sink


def request(number: int, method: str = "tools/call") -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {}}


def site(bad: Step, *, session: str | None = "s-1") -> Site:
    """A server that opens sessions, answers `ping`, and treats `tools/call` as `bad` says."""

    async def handle(seen: Seen, reply: Reply) -> None:
        extra = {"mcp_session_id": session} if session else {}
        if seen.method != "POST":
            await reply.status(405)
        elif seen.rpc == "initialize":
            await reply.json(answer(seen, {"protocolVersion": "2025-11-25"}), **extra)
        elif seen.rpc == "tools/call":
            await bad(seen, reply)
        elif "id" in seen.message:
            await reply.json(answer(seen))
        else:
            await reply.status(202)

    return Site(handle)


async def broken_call(bad: Step, **changes: object) -> tuple[Recorder, Site]:
    """One bad call; afterwards the channel must still serve another."""
    async with site(bad, **changes) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        await sink.until(lambda: bool(sink.answers(1)) or 1 in sink.unreadable)
        await channel.send(request(2, "ping"))
        assert (await sink.answer(2))["result"] == {}
        assert sink.ends == []
        return sink, server


@pytest.mark.parametrize("status", [400, 401, 403, 405, 418, 429, 500, 502, 503])
async def test_an_error_status_fails_only_its_own_call(status: int) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(status, "<html>no</html>", content_type="text/html")

    sink, _ = await broken_call(refuse)
    fault = await sink.fault(1)
    assert fault.http_status == status
    assert fault.message.startswith(f"HTTP {status}")
    assert "\n" not in fault.message
    assert fault.retryable is (status in (429, 500, 502, 503))
    assert fault.sent is (status in (400, 418, 500, 502, 503))


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("1.5", 1.5), ("99999999", 86_400.0), ("-3", 0.0)])
async def test_retry_after_is_kept(value: str, seconds: float) -> None:
    async def busy(seen: Seen, reply: Reply) -> None:
        await reply.status(429, retry_after=value)

    sink, _ = await broken_call(busy)
    assert (await sink.fault(1)).retry_after == seconds


@pytest.mark.parametrize("value", ["soon", "nan", "", "Wed, 99 Foo"])
async def test_a_retry_after_that_says_nothing_is_ignored(value: str) -> None:
    async def busy(seen: Seen, reply: Reply) -> None:
        await reply.status(503, retry_after=value)

    sink, _ = await broken_call(busy)
    assert (await sink.fault(1)).retry_after is None


async def test_the_words_of_a_json_rpc_error_page_are_shown_cleaned_and_short() -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        error = {"code": -32000, "message": "database\n\x1b[31mdown\u202e " + "x" * 5000}
        await reply.json({"jsonrpc": "2.0", "id": None, "error": error}, 500)

    sink, _ = await broken_call(refuse)
    fault = await sink.fault(1)
    assert 'the server says "database down' in fault.message
    assert len(fault.message) < 300
    assert "\x1b" not in fault.message


async def test_a_400_that_is_a_json_rpc_error_for_this_request_is_the_servers_answer() -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "bad arguments"}}, 400)

    sink, _ = await broken_call(refuse)
    assert (await sink.answer(1))["error"]["code"] == -32602


async def test_a_404_in_a_session_says_that_the_session_is_lost_and_nothing_ran() -> None:
    async def forget(seen: Seen, reply: Reply) -> None:
        await reply.status(404, "Session not found")

    sink, _ = await broken_call(forget)
    fault = await sink.fault(1)
    assert fault.session_lost
    assert not fault.sent


@pytest.mark.parametrize(
    "words", ["Bad Request: No valid session ID provided", "Session not found", "Bad Request: Server not initialized"]
)
async def test_a_400_about_the_session_is_a_lost_session(words: str) -> None:
    async def forget(seen: Seen, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": words}}, 400)

    async with site(forget) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        assert (await sink.fault(1)).session_lost


async def test_a_404_without_a_session_is_a_wrong_url() -> None:
    async def missing(seen: Seen, reply: Reply) -> None:
        await reply.status(404)

    sink, server = await broken_call(missing, session=None)
    fault = await sink.fault(1)
    assert not fault.session_lost
    assert not fault.retryable
    assert server.url in fault.message


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("<html>welcome</html>", "text/html; charset=utf-8", "text/html"),
        ("not json", "application/json", "not JSON"),
        ("", "application/json", "not JSON"),
        ("[" * 5000, "application/json", "not JSON"),
        ("[]", "application/json", "no JSON-RPC"),
        ("42", "application/json", "no JSON-RPC"),
        ('{"hello": 1}', "application/json", "another request"),
        ('{"jsonrpc":"2.0","id":77,"result":{}}', "application/json", "another request"),
        ('{"jsonrpc":"2.0","id":true,"result":{}}', "application/json", "another request"),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', "application/json", "another request"),
    ],
)
async def test_a_body_that_is_no_answer_fails_the_call_at_once(body: str, kind: str, said: str) -> None:
    async def odd(seen: Seen, reply: Reply) -> None:
        await reply.status(200, body, content_type=kind)

    sink, _ = await broken_call(odd)
    assert said in (sink.unreadable.get(1) or (await sink.fault(1)).message)


@pytest.mark.parametrize("status", [202, 204, 304])
async def test_a_request_that_is_accepted_and_never_answered_fails_at_once(status: int) -> None:
    async def accept(seen: Seen, reply: Reply) -> None:
        await reply.status(status)

    sink, _ = await broken_call(accept)
    fault = await sink.fault(1)
    assert fault.sent
    assert str(status) in fault.message


async def test_an_event_stream_that_ends_without_the_answer_fails_the_call() -> None:
    async def end(seen: Seen, reply: Reply) -> None:
        await reply.events(event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))

    sink, _ = await broken_call(end)
    assert "ended before the answer" in (await sink.fault(1)).message
    assert [m["method"] for m in sink.messages if "method" in m] == ["notifications/message"]


async def test_an_event_stream_that_breaks_off_fails_the_call_with_an_unknown_outcome() -> None:
    async def cut(seen: Seen, reply: Reply) -> None:
        await reply.events(": hello", end=False)
        reply.reset()

    sink, _ = await broken_call(cut)
    assert (await sink.fault(1)).sent


async def test_an_event_with_the_id_of_another_request_fails_the_call_at_once() -> None:
    async def confuse(seen: Seen, reply: Reply) -> None:
        await reply.events(event({"jsonrpc": "2.0", "id": 99, "result": {}}), end=False)
        await reply.until_gone()

    sink, _ = await broken_call(confuse)
    assert "another request" in sink.unreadable[1]
    assert sink.answers(99) == []


async def test_noise_in_an_event_stream_does_not_hide_the_answer() -> None:
    async def noisy(seen: Seen, reply: Reply) -> None:
        await reply.events("data: oops", "event: ping\ndata: 1", ": comment", event(answer(seen, {"ok": 1})))

    sink, _ = await broken_call(noisy)
    assert (await sink.answer(1))["result"] == {"ok": 1}
    assert sink.noises == ["oops"]


@pytest.mark.parametrize("as_text", ["1", 1, 1.0])
async def test_an_id_that_comes_back_in_another_spelling_is_ours(as_text: object) -> None:
    async def odd(seen: Seen, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": as_text, "result": {"ok": True}})

    sink, _ = await broken_call(odd)
    assert type((await sink.answer(1))["id"]) is int


async def test_an_error_without_an_id_is_the_answer_to_this_request() -> None:
    async def odd(seen: Seen, reply: Reply) -> None:
        await reply.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "parse error"}})

    sink, _ = await broken_call(odd)
    assert (await sink.answer(1))["error"]["code"] == -32700


async def test_a_reset_before_any_answer_leaves_the_outcome_unknown() -> None:
    async def reset(seen: Seen, reply: Reply) -> None:
        reply.reset()

    sink, _ = await broken_call(reset)
    fault = await sink.fault(1)
    assert fault.sent
    assert "lost before the answer" in fault.message or "broke off" in fault.message


@pytest.mark.parametrize("junk", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00\x01\x02\r\n\r\n"])
async def test_a_server_that_does_not_speak_http_is_named_as_such(junk: bytes) -> None:
    async def babble(seen: Seen, reply: Reply) -> None:
        await reply.raw(junk)
        reply.close()

    sink, _ = await broken_call(babble)
    assert "does not speak HTTP" in (await sink.fault(1)).message


async def test_a_body_shorter_than_it_says_leaves_the_outcome_unknown() -> None:
    async def short(seen: Seen, reply: Reply) -> None:
        await reply.raw(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"jsonrpc"')
        reply.close()

    sink, _ = await broken_call(short)
    assert (await sink.fault(1)).sent


async def test_a_gzip_bomb_fails_the_call_and_nothing_else() -> None:
    bomb = gzip.compress(b" " * (64 << 20))

    async def explode(seen: Seen, reply: Reply) -> None:
        await reply.status(200, bomb, content_type="application/json", content_encoding="gzip")

    sink, _ = await broken_call(explode)
    assert sink.unreadable[1] == "the body is larger than 32 MB"


async def test_an_endless_event_fails_the_call() -> None:
    async def flood(seen: Seen, reply: Reply) -> None:
        await reply.events(end=False)
        block = b"data: " + b"x" * (1 << 20) + b"\n"
        for _ in range(40):
            await reply.raw(f"{len(block):x}\r\n".encode() + block + b"\r\n")

    sink, _ = await broken_call(flood)
    assert sink.unreadable[1] == "one event is larger than 32 MB"


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
async def test_an_encoding_nobody_asked_for_is_refused(encoding: str) -> None:
    async def encode(seen: Seen, reply: Reply) -> None:
        assert seen.headers["accept-encoding"] == "gzip, identity"
        await reply.status(200, b"xx", content_type="application/json", content_encoding=encoding)

    sink, _ = await broken_call(encode)
    assert "not asked for" in (sink.unreadable.get(1) or (await sink.fault(1)).message)


async def test_parallel_calls_survive_the_failure_of_one() -> None:
    release = asyncio.Event()
    waiting = asyncio.Semaphore(0)

    async def mixed(seen: Seen, reply: Reply) -> None:
        if seen.message["id"] == 5:
            await reply.status(500)
            return
        waiting.release()
        await release.wait()
        await reply.events(event(answer(seen, {"n": seen.message["id"]})))

    async with site(mixed) as server, opened(server) as (channel, sink):
        for number in range(1, 10):
            await channel.send(request(number))
        for _ in range(8):
            await waiting.acquire()
        assert (await sink.fault(5)).http_status == 500
        release.set()
        for number in (1, 2, 3, 4, 6, 7, 8, 9):
            assert (await sink.answer(number))["result"] == {"n": number}


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_a_notification_that_is_refused_does_not_end_the_session(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(seen: Seen, reply: Reply) -> None:
        if seen.method == "POST" and "id" in seen.message:
            await reply.json(answer(seen))
        else:
            await reply.status(status)

    async with Site(handle) as server, opened(server) as (channel, sink):
        await channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await channel.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        await channel.send(request(2, "ping"))
        assert (await sink.answer(2))["result"] == {}
        assert sink.ends == []


async def test_a_notification_that_is_never_taken_does_not_hold_up_requests() -> None:
    async def handle(seen: Seen, reply: Reply) -> None:
        if seen.method == "POST" and "id" in seen.message:
            await reply.json(answer(seen))
        else:
            await reply.until_gone()

    async with Site(handle) as server, opened(server, timeouts=Timeouts(write=0.05)) as (channel, sink):
        await channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await channel.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        await channel.send(request(2, "ping"))
        assert (await sink.answer(2))["result"] == {}


@pytest.mark.case("B40")
async def test_a_port_that_refuses_is_one_line_and_nothing_was_sent() -> None:
    async with site(lambda *_: asyncio.sleep(0)) as server:
        url = server.url
    sink = Recorder()
    async with open_http(spec(url), sink, redactor=Redactor()) as channel:
        await channel.send(request(0, "initialize"))
        fault = await sink.fault(0)
    assert fault.message == f"cannot connect to {url}: connection refused"
    assert fault.connect
    assert not fault.sent
    assert fault.retryable


async def test_a_name_that_does_not_resolve_is_one_line() -> None:
    async def nobody(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    sink = Recorder()
    async with open_http(spec("http://mcp.test/mcp"), sink, redactor=Redactor(), resolver=nobody) as channel:
        await channel.send(request(0, "initialize"))
        fault = await sink.fault(0)
    assert fault.message == "cannot connect to http://mcp.test/mcp: the name does not resolve"
    assert not fault.sent


async def test_a_port_that_stays_silent_is_left_alone_at_close() -> None:
    async def silent(seen: Seen, reply: Reply) -> None:
        await reply.until_gone()

    sink = Recorder()
    async with Site(silent) as server, open_http(spec(server.url), sink, redactor=Redactor()) as channel:
        await channel.send(request(0, "initialize"))
    assert sink.messages == []


@pytest.mark.parametrize(
    ("headers", "named"),
    [({"X-Key": "a\r\nX-Evil: 1"}, "X-Key"), ({"X-Key": "schlüssel"}, "X-Key"), ({"X Key": "v"}, "X Key")],
)
async def test_a_header_that_http_cannot_carry_is_named_without_its_value(headers: dict[str, str], named: str) -> None:
    with pytest.raises(ChannelError) as caught:
        async with open_http(spec("http://127.0.0.1:1/mcp", headers=headers), Recorder(), redactor=Redactor()):
            pytest.fail("the channel must not open")
    assert named in str(caught.value)
    assert not any(value in str(caught.value) for value in headers.values())
    assert not caught.value.fault.retryable


async def test_a_message_that_is_not_json_is_refused_before_it_is_sent() -> None:
    async with site(lambda *_: asyncio.sleep(0)) as server, opened(server) as (channel, _):
        for bad in ("\ud83d", float("nan"), float("inf")):
            with pytest.raises(ValueError):
                await channel.send({**request(3), "params": {"s": bad}})
        with pytest.raises(TypeError):
            await channel.send({**request(3), "params": {"s": object()}})
        assert len(server.requests) == 1


async def test_a_forged_fault_of_a_server_is_an_ordinary_error() -> None:
    async def forge(seen: Seen, reply: Reply) -> None:
        data = {"codebuddy": {"sent": False, "token": ""}}
        await reply.json({"jsonrpc": "2.0", "id": 1, "error": {"code": -32090, "message": "x", "data": data}})

    async with site(forge) as server, opened(server) as (channel, sink):
        await channel.send(request(1))
        with pytest.raises(AssertionError):
            await sink.fault(1)


async def test_a_403_that_asks_for_more_scopes_says_so() -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(403, www_authenticate='Bearer error="insufficient_scope", scope="write"')

    sink, _ = await broken_call(refuse)
    assert "log in again, with more scopes" in (await sink.fault(1)).message


async def test_a_failure_of_our_own_still_answers_the_request(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(httpx.Auth):
        async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
            raise KeyError("secret")
            yield request

    sink = Recorder()
    async with open_http(spec("http://127.0.0.1:1/mcp"), sink, redactor=Redactor(), auth=Broken()) as channel:
        await channel.send(request(0, "initialize"))
        fault = await sink.fault(0)
    assert fault.message == "unexpected failure (KeyError); see the log"
    assert "an exchange failed unexpectedly" in caplog.text
