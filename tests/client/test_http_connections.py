"""Kept connections and the sockets under them."""

from __future__ import annotations

import asyncio
import ssl

import httpcore
import httpx
import pytest
import trustme

from codebuddy_mcp_tools.client.connections import MAX_IDLE
from codebuddy_mcp_tools.client.guard import GuardedTransport, guarded_client
from codebuddy_mcp_tools.client.sockets import AsyncioBackend
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from tests.client.site import Reply, Seen, Site

LOCAL = OutboundRules(allow_loopback=True)


async def hello(seen: Seen, reply: Reply) -> None:
    await reply.status(200, seen.target)


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with Site(hello) as site, guarded_client(LOCAL) as client:
        for number in range(5):
            assert (await client.get(f"{site.url}/{number}")).text == f"/mcp/{number}"
        assert site.connections == 1


async def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async def once(seen: Seen, reply: Reply) -> None:
        await reply.status(200, seen.target)
        reply.close()

    async with Site(once) as site, guarded_client(LOCAL) as client:
        for number in range(3):
            assert (await client.get(f"{site.url}/{number}")).text == f"/mcp/{number}"
            await asyncio.sleep(0)
        assert site.connections == 3


async def test_what_a_server_says_unasked_on_an_idle_connection_is_nobodys_answer() -> None:
    answered, said = asyncio.Event(), asyncio.Event()

    async def chatty(seen: Seen, reply: Reply) -> None:
        await reply.status(200, seen.target)
        if seen.target == "/mcp/first":
            await answered.wait()
            await reply.status(408, "idle for too long")
            said.set()

    async with Site(chatty) as site, guarded_client(LOCAL) as client:
        await client.get(f"{site.url}/first")
        answered.set()
        await said.wait()
        for _ in range(3):
            await asyncio.sleep(0)  # let what was said arrive
        answer = await client.get(f"{site.url}/second")
        assert (answer.status_code, answer.text) == (200, "/mcp/second")
        assert site.connections == 2


async def test_only_so_many_idle_connections_are_kept() -> None:
    barrier = asyncio.Barrier(MAX_IDLE + 8)

    async def together(seen: Seen, reply: Reply) -> None:
        if seen.target == "/mcp":
            async with barrier:
                await reply.status(200)
        else:
            await reply.status(200)

    async with Site(together) as site, guarded_client(LOCAL) as client:
        await asyncio.gather(*(client.get(site.url) for _ in range(MAX_IDLE + 8)))
        assert site.connections == MAX_IDLE + 8
        await asyncio.gather(*(client.get(f"{site.url}/more") for _ in range(MAX_IDLE)))
        assert site.connections == MAX_IDLE + 8


async def test_a_request_that_is_cancelled_gives_up_its_connection() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def hang(seen: Seen, reply: Reply) -> None:
        if seen.target == "/mcp/hang":
            arrived.set()
            await reply.until_gone()
            gone.set()
        else:
            await reply.status(200)

    async with Site(hang) as site, guarded_client(LOCAL) as client:
        request = asyncio.create_task(client.get(f"{site.url}/hang"))
        await arrived.wait()
        request.cancel()
        await asyncio.wait_for(gone.wait(), 10)
        assert (await client.get(site.url)).status_code == 200


async def test_a_server_that_stops_reading_ends_the_write_in_time() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        done.set()
        await release.wait()
        writer.close()

    done, release = asyncio.Event(), asyncio.Event()
    async with await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with guarded_client(LOCAL, timeout=httpx.Timeout(5.0, write=0.05)) as client:
            with pytest.raises(httpx.WriteTimeout):
                await client.post(url, content=b"x" * (64 << 20))
        release.set()


async def test_a_large_body_arrives_whole_although_it_is_read_slowly() -> None:
    body = bytes(range(256)) * 16_384

    async def large(seen: Seen, reply: Reply) -> None:
        await reply.status(200, body)

    async with Site(large) as site, guarded_client(LOCAL) as client, client.stream("GET", site.url) as response:
        received = bytearray()
        async for chunk in response.aiter_raw():
            received += chunk
            await asyncio.sleep(0)
        assert received == body


@pytest.mark.parametrize("size", [10, 4 << 20])
async def test_tls_connections_carry_and_close(size: int) -> None:
    authority, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def large(seen: Seen, reply: Reply) -> None:
        await reply.status(200, seen.body * 2)

    async with Site(large, ssl=server) as site:
        transport = GuardedTransport(LOCAL, ssl_context=lambda: trusting)
        async with guarded_client(LOCAL, transport=transport) as client:
            for _ in range(2):
                answer = await client.post(f"https://127.0.0.1:{site.port}/", content=b"x" * size)
                assert len(answer.content) == 2 * size
        assert site.connections == 1


async def test_a_socket_stream_keeps_httpcores_promises() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await writer.drain()
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        stream = await AsyncioBackend().connect_tcp("127.0.0.1", port, 5.0)
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
        assert not stream.get_extra_info("is_readable")
        await stream.write(b"")
        await stream.write(b"hello", 5.0)
        assert await stream.read(3, 5.0) == b"hel"
        assert stream.get_extra_info("is_readable")
        assert await stream.read(100, 5.0) == b"lo"
        with pytest.raises(httpcore.ReadTimeout):
            await stream.read(1, 0.01)
        await stream.aclose()
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"more")
    with pytest.raises(httpcore.ConnectError):
        await AsyncioBackend().connect_tcp("127.0.0.1", port, 5.0)
