"""Connections go to checked addresses only, and a pooled one serves the host it was made for."""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
from collections.abc import Sequence

import httpcore
import httpx
import pytest
import trustme

from codebuddy_mcp_tools.client import guard
from codebuddy_mcp_tools.client.body import BodyRefusedError
from codebuddy_mcp_tools.client.events import EventParser
from codebuddy_mcp_tools.client.guard import GuardedTransport, PinnedBackend, guarded_client
from codebuddy_mcp_tools.client.http import open_http
from codebuddy_mcp_tools.client.http_faults import fault_of_error
from codebuddy_mcp_tools.client.transport import ChannelError
from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.site import Recorder, Reply, Seen, Site
from tests.client.test_http_faults import request, spec

PUBLIC = "93.184.216.34"
LOCAL = OutboundRules(allow_loopback=True)


class Network(httpcore.AsyncMockBackend):
    """Dials nothing and remembers what it was asked to dial."""

    def __init__(self, answers: dict[str, bool]) -> None:
        super().__init__([])
        self.answers = answers
        self.dialled: list[tuple[str, float | None]] = []

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *rest: object, **more: object):
        self.dialled.append((host, timeout))
        if not self.answers.get(host, False):
            raise httpcore.ConnectError("no")
        return await super().connect_tcp(host, port)


class Names:
    """A resolver with one list of answers for each call in turn; the last one repeats."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.case("B62")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://metadata.google.internal/",
        "http://[fd00:ec2::254]/",
        "http://169.254.169.254./",
        "http://127.1/",
        "http://0/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://10.0.0.1/",
        "http://user:pass@example.com/",
    ],
)
async def test_a_refused_url_is_refused_before_a_look_up_or_a_socket(url: str) -> None:
    names = Names([PUBLIC])
    async with guarded_client(OutboundRules(), transport=GuardedTransport(OutboundRules(), resolver=names)) as client:
        with pytest.raises((BlockedURLError, httpx.UnsupportedProtocol)):
            await client.get(url)
    assert names.asked == []


@pytest.mark.case("B62")
async def test_an_answer_that_changes_between_two_connections_is_checked_again() -> None:
    network, names = Network({PUBLIC: True}), Names([PUBLIC], ["127.0.0.1"])
    backend = PinnedBackend(OutboundRules(), names, network)
    await backend.connect_tcp("mcp.test", 443)
    with pytest.raises(BlockedURLError):
        await backend.connect_tcp("mcp.test", 443)
    assert [host for host, _ in network.dialled] == [PUBLIC]


async def test_the_name_is_resolved_once_for_one_connection() -> None:
    network, names = Network({PUBLIC: True}), Names([PUBLIC], ["127.0.0.1"])
    await PinnedBackend(OutboundRules(), names, network).connect_tcp("mcp.test", 443)
    assert names.asked == ["mcp.test"]


@pytest.mark.parametrize("bad", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1", "::ffff:127.0.0.1"])
async def test_one_refused_answer_among_good_ones_refuses_the_connection(bad: str) -> None:
    network = Network({PUBLIC: True})
    with pytest.raises(BlockedURLError):
        await PinnedBackend(OutboundRules(), Names([PUBLIC, bad]), network).connect_tcp("mcp.test", 443)
    assert network.dialled == []


async def test_the_next_address_is_tried_when_one_refuses_and_each_has_its_share_of_the_time() -> None:
    network = Network({"93.184.216.36": True})
    names = Names([PUBLIC, "93.184.216.35", "93.184.216.36"])
    await PinnedBackend(OutboundRules(), names, network).connect_tcp("mcp.test", 443, timeout=9.0)
    hosts, shares = zip(*network.dialled, strict=True)
    assert hosts == (PUBLIC, "93.184.216.35", "93.184.216.36")
    assert shares[0] <= 3.0
    assert shares[2] > 5.0


async def test_a_look_up_that_hangs_ends_with_the_connect_deadline() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(httpcore.ConnectTimeout):
        await PinnedBackend(OutboundRules(), hang, Network({})).connect_tcp("mcp.test", 443, timeout=0.01)


async def test_a_channel_to_a_refused_address_does_not_open() -> None:
    with pytest.raises(ChannelError) as caught:
        async with open_http(spec("http://169.254.169.254/mcp"), Recorder(), redactor=Redactor()):
            pytest.fail("the channel must not open")
    assert caught.value.fault.blocked
    assert not caught.value.fault.sent


async def test_a_name_that_leads_to_a_refused_address_fails_the_request_as_blocked() -> None:
    sink, names = Recorder(), Names(["10.0.0.7"])
    rules = OutboundRules(allow_loopback=True)
    async with open_http(
        spec("http://mcp.test/mcp", outbound=rules), sink, redactor=Redactor(), resolver=names
    ) as channel:
        await channel.send(request(0, "initialize"))
        fault = await sink.fault(0)
    assert fault.blocked
    assert not fault.sent
    assert not fault.retryable


async def hello(seen: Seen, reply: Reply) -> None:
    await reply.status(200, seen.headers["host"])


async def test_a_warm_connection_of_one_host_never_answers_for_another() -> None:
    authority, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("mcp.test").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with Site(hello, ssl=server) as site:
        transport = GuardedTransport(LOCAL, resolver=Names(["127.0.0.1"]), ssl_context=lambda: trusting)
        async with guarded_client(LOCAL, transport=transport) as client:
            assert (await client.get(f"https://mcp.test:{site.port}/")).text == f"mcp.test:{site.port}"
            other = f"https://other.test:{site.port}/"
            with pytest.raises(httpx.ConnectError) as caught:
                await client.get(other)
            fault = fault_of_error(caught.value, other)
            assert "certificate is not accepted" in fault.message
            assert not fault.retryable
            assert not fault.sent
        assert [seen.headers["host"] for seen in site.requests] == [f"mcp.test:{site.port}"]


async def test_a_plain_server_under_https_is_one_line() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with guarded_client(LOCAL) as client:
            with pytest.raises(httpx.TransportError) as caught:
                await client.get(url)
    assert fault_of_error(caught.value, url).message == f"cannot connect to {url}: it does not speak TLS as expected"


async def test_no_ssl_context_is_made_for_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: object) -> ssl.SSLContext:
        pytest.fail("a context was made")

    monkeypatch.setattr(guard, "shared_ssl_context", never)
    monkeypatch.setattr(ssl, "create_default_context", never)
    async with Site(hello) as site, guarded_client(LOCAL) as client:
        assert (await client.get(site.url)).status_code == 200


def test_all_clients_share_one_ssl_context() -> None:
    assert guard.shared_ssl_context() is guard.shared_ssl_context()


@pytest.mark.parametrize("trusted", [False, True])
async def test_proxies_of_the_environment_are_used_only_when_asked_for(
    trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site(hello) as site, Site(hello) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://u:p@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        rules = OutboundRules(allow_loopback=True, trust_env=trusted)
        async with guarded_client(rules) as client:
            await client.get(site.url)
        assert (site.connections, proxy.connections) == ((0, 1) if trusted else (1, 0))
        if trusted:
            assert proxy.requests[0].target == site.url
            assert proxy.requests[0].headers["proxy-authorization"].startswith("Basic ")


async def test_netrc_is_never_read(home: object, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    netrc = os.path.join(str(tmp_path), "netrc")
    with open(netrc, "w", encoding="utf-8") as file:  # noqa: ASYNC230
        file.write("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    async with Site(hello) as site, guarded_client(LOCAL) as client:
        await client.get(site.url)
        assert "authorization" not in site.requests[0].headers


async def body_of(data: bytes, *, cap: int = 1 << 20, **headers: str) -> bytes:
    async def send(seen: Seen, reply: Reply) -> None:
        await reply.status(200, data, **headers)

    async with Site(send) as site:
        transport = GuardedTransport(LOCAL, max_body=cap)
        async with guarded_client(LOCAL, transport=transport) as client:
            return (await client.get(site.url)).content


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 1 << 20])
async def test_gzip_bodies_are_decoded_whole(size: int) -> None:
    text = os.urandom(size // 2) + b"a" * (size - size // 2)
    assert await body_of(gzip.compress(text), content_encoding="gzip") == text
    two = gzip.compress(text[: size // 3]) + gzip.compress(text[size // 3 :])
    assert await body_of(two, content_encoding="x-gzip") == text


@pytest.mark.parametrize("data", [gzip.compress(b"x" * 100)[:-4], b"not gzip at all", gzip.compress(b"x") + b"tail"])
async def test_a_damaged_gzip_body_is_refused(data: bytes) -> None:
    with pytest.raises(BodyRefusedError):
        await body_of(data, content_encoding="gzip")


async def test_a_body_over_the_limit_is_refused_decoded_or_not() -> None:
    with pytest.raises(BodyRefusedError):
        await body_of(b"x" * 1025, cap=1024)
    with pytest.raises(BodyRefusedError):
        await body_of(gzip.compress(b"x" * 1025), cap=1024, content_encoding="gzip")
    assert len(await body_of(b"x" * 1024, cap=1024)) == 1024


def events(*chunks: bytes) -> list[tuple[str, bytes, str | None, int | None]]:
    parser = EventParser()
    return [(e.name, e.data, e.id, e.retry) for chunk in chunks for e in parser.feed(chunk)]


def test_event_streams_are_read_as_the_standard_says() -> None:
    text = (
        b"\xef\xbb\xbf: comment\n\ndata: one\ndata:two\nid: 7\n\nevent: ping\r\ndata\r\n\r\nretry: 10\rdata:  x\r\r"
        b"retry: soon\nid: a\0b\nfoo: bar\n\ndata: cut off"
    )
    expected = [("message", b"one\ntwo", "7", None), ("ping", b"", None, None), ("message", b" x", None, 10)]
    assert events(text) == expected
    assert events(*(text[n : n + 1] for n in range(len(text)))) == expected
    assert events(*(text[n : n + 3] for n in range(0, len(text), 3))) == expected
