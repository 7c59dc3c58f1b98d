"""`MCPClient` over HTTP: real servers for the good path, and what happens to calls when a server misbehaves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.transport import ConnectionSpec, Timeouts
from codebuddy_mcp_tools.config.models import HttpServer, SseServer
from codebuddy_mcp_tools.errors import CallTimeoutError, ConnectError, ProtocolError, ServerError
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import CircuitState
from tests.client.site import Reply, Seen, Site, answer
from tests.servers.listening import saying_port, shipped

LOCAL = OutboundRules(allow_loopback=True)
ECHO = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "calls": {"echo": [{"echo": True}]}}


@pytest.fixture(scope="module")
def sdk_server() -> Iterator[str]:
    """A server of the official SDK (FastMCP on uvicorn), answering by event streams."""
    with saying_port([sys.executable, "-m", "tests.servers.echo", "--transport", "http"]) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@asynccontextmanager
async def client_of(url: str, **changes: object) -> AsyncIterator[MCPClient]:
    kind = SseServer if url.endswith("/sse") else HttpServer
    config = kind(url=url)
    client = MCPClient(ConnectionSpec("srv", config, **{"outbound": LOCAL, "reconnect_delays": (0.0,), **changes}))
    try:
        yield client
    finally:
        await client.aclose()


async def test_a_server_of_the_official_sdk_lists_and_answers(sdk_server: str) -> None:
    async with client_of(sdk_server) as client:
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
        results = await asyncio.gather(*(client.call_tool("echo", {"text": f"n{n}"}) for n in range(20)))
    assert [result.content[0]["text"] for result in results] == [f"n{n}" for n in range(20)]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_our_own_servers_answer_over_both_transports(transport: str) -> None:
    with shipped("tasks", transport) as url:
        async with client_of(url) as client:
            assert (await client.list_tools()).tools
            assert client.snapshot().server_info is not None


async def test_calls_keep_their_connections() -> None:
    with FaultServer(ECHO) as server, server.http() as url:
        async with client_of(url) as client:
            for number in range(50):
                await client.call_tool("echo", {"n": number})
        opened = sum(entry["event"] == "connection" for entry in server.log())
    assert opened <= 10


class Forgetful:
    """A server with sessions that forgets them, as one that restarts does; counts what it was asked."""

    def __init__(self, forgets: int) -> None:
        self.forgets = forgets
        self.sessions = 0
        self.known: set[str] = set()
        self.calls = 0

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        if seen.method != "POST":
            await reply.status(405)
        elif seen.rpc == "initialize":
            self.sessions += 1
            self.known.add(f"s{self.sessions}")
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}}
            await reply.json(answer(seen, result), mcp_session_id=f"s{self.sessions}")
        elif seen.rpc == "tools/call":
            if self.forgets > 0:
                self.forgets -= 1
                self.known.clear()
            if seen.headers["mcp-session-id"] not in self.known:
                await reply.status(404)
                return
            self.calls += 1
            await reply.json(answer(seen, {"content": [{"type": "text", "text": "done"}]}))
        elif "id" in seen.message:
            await reply.json(answer(seen))
        else:
            await reply.status(202)


async def test_a_server_that_has_forgotten_the_session_gets_a_new_one_once() -> None:
    async with Site(server := Forgetful(forgets=1)) as site, client_of(site.url) as client:
        assert (await client.call_tool("write", {})).content[0]["text"] == "done"
        assert (server.sessions, server.calls) == (2, 1)
        assert client.breaker.state is CircuitState.CLOSED


async def test_a_server_that_always_forgets_is_not_asked_for_ever() -> None:
    async with Site(server := Forgetful(forgets=100)) as site, client_of(site.url) as client:
        with pytest.raises(Exception, match="forgotten the session"):
            await client.call_tool("write", {})
        assert (server.sessions, server.calls) == (2, 0)


async def test_a_busy_server_says_when_to_come_back_and_the_call_is_not_repeated() -> None:
    with FaultServer({**ECHO, "calls": {"echo": [{"status": 429, "headers": {"Retry-After": "7"}}]}}) as server:
        with server.http() as url:
            async with client_of(url) as client:
                with pytest.raises(ProtocolError) as caught:
                    await client.call_tool("echo", {}, replayable=True)
        assert len(server.calls("echo")) == 1
    assert caught.value.data == {"http_status": 429, "retry_after": 7.0}
    assert not caught.value.ran
    assert "7 s" in str(caught.value)


async def test_an_error_status_of_one_call_leaves_parallel_calls_alone() -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("good", "bad")]
    script = {"tools": tools, "calls": {"good": [[{"sleep": 0.2}, {"text": "fine"}]], "bad": [{"status": 500}]}}
    with FaultServer(script) as server, server.http() as url:
        async with client_of(url) as client:
            good = [asyncio.create_task(client.call_tool("good", {})) for _ in range(3)]
            with pytest.raises(ProtocolError) as caught:
                await client.call_tool("bad", {})
            assert [(await call).content[0]["text"] for call in good] == ["fine"] * 3
    assert caught.value.ran


async def test_headers_of_one_call_reach_the_server() -> None:
    async with Site(Forgetful(forgets=0)) as site, client_of(site.url) as client:
        await client.call_tool("x", {}, headers={"X-Tenant": "t-1"})
        await client.call_tool("x", {})
        assert [seen.headers.get("x-tenant") for seen in site.seen("tools/call")] == ["t-1", None]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_a_status_in_place_of_a_session_is_one_line(status: int) -> None:
    async def refuse(seen: Seen, reply: Reply) -> None:
        await reply.status(status, "<html><body>no\n</body></html>", content_type="text/html", retry_after="9")

    async with Site(refuse) as site, client_of(site.url) as client:
        with pytest.raises(ConnectError) as caught:
            await client.connect()
    assert f"HTTP {status}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.retryable is (status in (429, 500, 503))
    assert caught.value.retry_after == 9.0


async def test_a_page_in_place_of_a_session_is_one_line() -> None:
    async def page(seen: Seen, reply: Reply) -> None:
        await reply.status(200, "<html>welcome</html>", content_type="text/html")

    async with Site(page) as site, client_of(site.url) as client:
        with pytest.raises(ConnectError) as caught:
            await client.connect()
    assert "text/html, not JSON-RPC" in str(caught.value)


async def test_a_server_that_went_away_while_idle_is_noticed_at_once_and_found_again() -> None:
    async with Site(Forgetful(forgets=0)) as site, client_of(site.url) as client:
        await client.call_tool("x", {})
        await site.__aexit__(None, None, None)
        with pytest.raises(ServerError) as caught:
            await client.call_tool("x", {})
        assert "connection refused" in str(caught.value)
        async with Site(Forgetful(forgets=0), at=site.port):
            assert (await client.call_tool("x", {})).content


async def test_a_server_that_drips_is_given_up_at_the_deadline_and_told_so() -> None:
    told = asyncio.Event()
    plain = Forgetful(forgets=0)

    async def drip(seen: Seen, reply: Reply) -> None:
        if seen.method == "POST" and seen.rpc == "notifications/cancelled":
            told.set()
        if seen.method == "POST" and seen.rpc == "tools/call" and seen.message["params"]["name"] == "slow":
            await reply.events(end=False)
            while True:
                await reply.event(": drip")
                await asyncio.sleep(0.01)
        await plain(seen, reply)

    async with Site(drip) as site, client_of(site.url) as client:
        with pytest.raises(CallTimeoutError):
            await client.call_tool("slow", {}, timeout=0.2)
        await asyncio.wait_for(told.wait(), 10)
        assert (await client.call_tool("quick", {})).content


@pytest.mark.case("B34")
async def test_a_server_that_never_answers_initialize_fails_after_its_start_timeout() -> None:
    async def silent(seen: Seen, reply: Reply) -> None:
        await reply.until_gone()

    async with Site(silent) as site, client_of(site.url, timeouts=Timeouts(connect=0.1)) as client:
        with pytest.raises(ConnectError) as caught:
            await client.connect()
    assert "no answer to initialize within 0.1 s" in str(caught.value)


@pytest.mark.case("B61")
async def test_a_redirect_to_another_origin_is_a_clear_line_of_the_connection() -> None:
    async def never(seen: Seen, reply: Reply) -> None:
        await reply.status(500)

    async with Site(never) as other:

        async def elsewhere(seen: Seen, reply: Reply) -> None:
            await reply.status(307, location=other.url)

        async with Site(elsewhere) as site, client_of(site.url) as client:
            with pytest.raises(ConnectError) as caught:
                await client.connect()
        assert other.connections == 0
    assert "leaves the origin" in str(caught.value)
    assert not caught.value.retryable
