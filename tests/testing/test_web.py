from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from codebuddy_mcp_tools.testing import FaultServer, ScriptError

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
HEADERS = {"Accept": "application/json, text/event-stream"}


def message(method: str, identity: int | None = 1, **params: object) -> dict[str, object]:
    plain: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
    return plain if identity is None else {**plain, "id": identity}


@asynccontextmanager
async def session(url: str) -> AsyncIterator[ClientSession]:
    opened = sse_client(url) if url.endswith("/sse") else streamable_http_client(url)
    async with opened as streams, ClientSession(streams[0], streams[1]) as client:
        await client.initialize()
        yield client


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("answer", ["json", "sse"])
async def test_an_ordinary_client_can_talk_to_it(transport: str, answer: str) -> None:
    script = {"tools": [ECHO], "calls": {"echo": [{"echo": True}]}, "http": {"answer": answer}}
    with FaultServer(script) as server:
        async with getattr(server, transport)() as url, session(url) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            assert (await client.call_tool("echo", {"x": "ü"})).content[0].text == '{"x": "\\u00fc"}'
            results = await asyncio.gather(*(client.call_tool("echo", {"n": n}) for n in range(20)))
            assert [json.loads(result.content[0].text)["n"] for result in results] == list(range(20))


async def test_connections_are_kept_for_the_next_request() -> None:
    with FaultServer({"tools": [ECHO]}) as server, server.http() as url:
        async with httpx.AsyncClient(headers=HEADERS) as client:
            await client.post(url, json=message("initialize"))
            await client.get(url.replace("/mcp", "/nothing"))
            pool = client._transport._pool
            assert len(pool.connections) == 1


async def test_status_redirect_and_headers_are_sent_as_written() -> None:
    script = {
        "on": {"ping": [{"status": 429, "headers": {"Retry-After": "7"}, "body": "slow down"}]},
        "paths": {"/moved": [{"redirect": "/mcp", "code": 308}]},
        "http": {"session": False},
    }
    with FaultServer(script) as server, server.http() as url:
        async with httpx.AsyncClient() as client:
            busy = await client.post(url, json=message("ping"))
            moved = await client.get(url.replace("/mcp", "/moved"))
    assert (busy.status_code, busy.headers["Retry-After"], busy.text) == (429, "7", "slow down")
    assert (moved.status_code, moved.headers["Location"]) == (308, "/mcp")


@pytest.mark.parametrize("step", [{"drop": True}, {"sse_cut": True}, {"raw": "HTTP/1.1 200 OK\r\nContent-Le"}])
async def test_an_answer_can_break_off(step: dict[str, object]) -> None:
    steps = [step, {"drop": True}] if "raw" in step else [step]
    with FaultServer({"on": {"ping": steps}, "http": {"session": False}}) as server, server.http() as url:
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.TransportError):
                await client.post(url, json=message("ping"))


async def test_a_stream_can_end_without_an_answer() -> None:
    with FaultServer({"on": {"ping": [{"end": True}]}, "http": {"session": False}}) as server, server.http() as url:
        async with httpx.AsyncClient() as client:
            answer = await client.post(url, json=message("ping"))
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert "jsonrpc" not in answer.text


async def test_a_forgotten_or_unknown_session_is_not_found() -> None:
    script = {"on": {"ping": [[], [{"forget_sessions": True}], []]}}
    with FaultServer(script) as server:
        endpoint = server.http()
        with endpoint as url:
            async with httpx.AsyncClient(headers=HEADERS) as client:
                hello = await client.post(url, json=message("initialize"))
                known = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
                codes = [(await client.post(url, json=message("ping"), headers=known)).status_code for _ in range(3)]
                assert codes == [200, 200, 404]
                assert endpoint.restart() == url
                again = await client.post(url, json=message("ping"), headers=known)
                assert again.status_code == 404
        assert len(server.pids()) == 2


async def test_messages_can_go_to_the_standing_stream() -> None:
    change = {"notify": {"method": "notifications/tools/list_changed"}, "stream": "get"}
    with FaultServer({"tools": [ECHO], "calls": {"echo": [change, {"text": "x"}]}}) as server, server.http() as url:
        async with httpx.AsyncClient(headers=HEADERS) as client:
            hello = await client.post(url, json=message("initialize"))
            known = {"Mcp-Session-Id": hello.headers["Mcp-Session-Id"]}
            async with client.stream("GET", url, headers=known) as standing:
                lines = standing.aiter_lines()
                assert await anext(lines) == ": open"
                await client.post(url, json=message("tools/call", name="echo"), headers=known)
                found = [line async for line in _until_data(lines)]
    assert "list_changed" in found[-1]


async def _until_data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith("data:"):
            return


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9/messages"])
async def test_the_older_transport_can_announce_a_wrong_endpoint(endpoint: str) -> None:
    with FaultServer({"http": {"endpoint": endpoint}}) as server, server.sse() as url:
        async with httpx.AsyncClient() as client, client.stream("GET", url) as stream:
            lines = stream.aiter_lines()
            first = [await anext(lines), await anext(lines)]
    assert ("data: " + endpoint in first) == bool(endpoint)


async def test_a_server_that_cannot_start_says_so() -> None:
    with FaultServer({"on_start": [{"exit": 3}]}) as server, pytest.raises(ScriptError, match="code 3"):
        await server.http().__aenter__()


async def test_nothing_is_left_when_the_block_ends() -> None:
    with FaultServer({}) as server:
        endpoint = server.http()
        endpoint.start()
        assert server.alive() == server.pids() == [endpoint.pid]
        pid = endpoint.pid
    assert endpoint.pid is None
    assert not server.directory.exists()
    assert pid not in server.alive()
