"""A client over http and sse: what a remote server can do wrong, and the one bounded outcome that each has."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient, Timeouts
from codebuddy_mcp_tools.config.models import HttpServer, SseServer
from codebuddy_mcp_tools.errors import CallTimeoutError, ConnectError, ConnectionLostError, ProtocolError
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import CircuitState, ClientState
from tests.client.fake import instant, tool, until


def script(*plan: Any, **more: Any) -> dict[str, Any]:
    return {"tools": [tool("t"), tool("ok")], "calls": {"t": list(plan)}, **more}


def client_at(url: str, kind: str = "http", **options: Any) -> MCPClient:
    config = HttpServer(url=url) if kind == "http" else SseServer(url=url)
    limits = Timeouts(connect=options.pop("connect", 10.0), call=10.0, close=2.0, ping=2.0)
    rules = OutboundRules(allow_loopback=True)
    spec = ConnectionSpec("s", config, timeouts=limits, outbound=rules, **options)
    return MCPClient(spec, sleep=instant)


async def said(client: MCPClient, name: str = "t") -> str:
    return str((await client.call_tool(name, {})).content[0]["text"])


@pytest.fixture(params=["http", "sse"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_lists_and_calls_come_through(kind: str) -> None:
    with FaultServer(script([{"echo": True}])) as server:
        async with getattr(server, kind)() as url:
            client = client_at(url, kind)
            assert [t.name for t in (await client.list_tools()).tools] == ["t", "ok"]
            assert (await client.call_tool("t", {"a": None})).content[0]["text"] == '{"a": null}'
            assert client.state is ClientState.CONNECTED
            await client.aclose()


async def test_calls_at_the_same_time_do_not_wait_for_one_another(kind: str) -> None:
    with FaultServer(script([{"wait_file": "gate"}, {"text": "late"}])) as server:
        async with getattr(server, kind)() as url:
            client = client_at(url, kind)
            late = asyncio.create_task(said(client))
            await server.seen("tools/call")
            assert await said(client, "ok") == "ok"
            server.gate("gate").touch()
            assert await late == "late"
            await client.aclose()


async def test_a_server_restarted_between_two_calls_is_met_again(kind: str) -> None:
    with FaultServer(script([{"pid": True}])) as server:
        endpoint = getattr(server, kind)()
        async with endpoint as url:
            client = client_at(url, kind)
            first = await said(client)
            await asyncio.to_thread(endpoint.restart)
            await until(lambda: len(server.pids()) == 2)
            second = await said(client)
            assert first != second
            assert len(server.calls("t")) == 2
            await client.aclose()


async def test_a_forgotten_session_is_opened_again_and_the_call_runs_once() -> None:
    with FaultServer(script([{"ledger": "ran"}, {"text": "ran"}], on={"ping": [{"forget_sessions": True}]})) as server:
        async with server.http() as url:
            client = client_at(url)
            await client.ping()
            assert await said(client) == "ran"
            assert server.ledger() == ["ran"]
            assert len(server.messages("initialize")) == 2
            assert client.breaker.failures == 0
            await client.aclose()


@pytest.mark.parametrize(
    ("step", "reason", "ran", "failures"),
    [
        ({"status": 400}, "HTTP 400", True, 0),
        ({"status": 401}, "HTTP 401", False, 0),
        ({"status": 403}, "HTTP 403", False, 0),
        ({"status": 429, "headers": {"Retry-After": "7"}}, r"HTTP 429.*try again in 7 s", False, 0),
        ({"status": 500}, "HTTP 500", True, 0),
        ({"status": 503}, "HTTP 503", True, 1),
    ],
)
async def test_a_status_costs_one_call_and_says_why(
    step: dict[str, Any], reason: str, ran: bool, failures: int
) -> None:
    with FaultServer(script([step])) as server:
        async with server.http() as url:
            client = client_at(url)
            await client.connect()
            with pytest.raises(ProtocolError, match=reason) as caught:
                await client.call_tool("t", {}, replayable=True)
            assert caught.value.ran is ran
            assert len(server.calls("t")) == 1
            assert client.breaker.failures == failures
            assert await said(client, "ok") == "ok"
            assert len(server.messages("initialize")) == 1
            await client.aclose()


@pytest.mark.parametrize(
    "steps",
    [
        [{"drop": True}],
        [{"sse_cut": True}],
        [{"end": True}],
        [{"status": 200, "headers": {"Content-Type": "text/html"}, "body": "<html>Log in</html>"}],
        [{"status": 200, "headers": {"Content-Type": "application/json"}, "body": "not json"}],
        [{"status": 202}],
    ],
    ids=["reset", "cut stream", "ended stream", "html", "bad json", "202"],
)
async def test_an_answer_that_is_none_costs_one_call_and_is_not_repeated(steps: list[Any]) -> None:
    with FaultServer(script([{"ledger": "ran"}, *steps])) as server:
        async with server.http() as url:
            client = client_at(url)
            await client.connect()
            with pytest.raises((ConnectionLostError, ProtocolError)) as caught:
                await client.call_tool("t", {})
            assert getattr(caught.value, "sent", True)
            assert getattr(caught.value, "ran", True)
            assert server.ledger() == ["ran"]
            assert await said(client, "ok") == "ok"
            await client.aclose()


async def test_a_silent_answer_ends_with_the_deadline_and_the_session_goes_on(kind: str) -> None:
    with FaultServer(script([{"hang": True}])) as server:
        async with getattr(server, kind)() as url:
            client = client_at(url, kind)
            with pytest.raises(CallTimeoutError):
                await client.call_tool("t", {}, timeout=0.3)
            await server.seen("notifications/cancelled")
            assert await said(client, "ok") == "ok"
            assert len(server.messages("initialize")) == 1
            await client.aclose()


# -- connecting ------------------------------------------------------------------------------------------------------


@contextmanager
def port(*, listening: bool) -> Iterator[int]:
    """A port that refuses, or one that accepts and stays silent."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if listening:
            listener.listen()
        yield listener.getsockname()[1]


async def test_a_port_that_refuses_is_told_after_the_cycle(kind: str) -> None:
    with port(listening=False) as number:
        client = client_at(f"http://127.0.0.1:{number}/mcp", kind)
        with pytest.raises(ConnectError, match=r"cannot connect to http://127\.0\.0\.1"):
            await client.list_tools()
        assert client.snapshot().attempts == 3
        await client.aclose()


async def test_a_port_that_accepts_and_stays_silent_ends_with_the_start_timeout(kind: str) -> None:
    with port(listening=True) as number:
        client = client_at(f"http://127.0.0.1:{number}/mcp", kind, connect=0.4)
        with pytest.raises(ConnectError, match=r"within 0\.4 s"):
            await client.connect()
        assert client.snapshot().attempts == 1
        await client.aclose()


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500])
async def test_a_status_at_the_start_is_the_reason(kind: str, status: int) -> None:
    method = "initialize" if kind == "http" else "GET"
    with FaultServer({"on": {method: [{"status": status, "body": "secret words"}]}}) as server:
        async with getattr(server, kind)() as url:
            client = client_at(url, kind)
            with pytest.raises(ConnectError, match=f"HTTP {status}") as caught:
                await client.connect()
            assert caught.value.retryable is (status == 500)
            await client.aclose()


async def test_a_server_that_went_away_for_good_opens_the_breaker(kind: str) -> None:
    with FaultServer(script([{"text": "x"}])) as server:
        endpoint = getattr(server, kind)()
        async with endpoint as url:
            client = client_at(url, kind)
            await said(client)
            await asyncio.to_thread(endpoint.stop)
            for _ in range(6):
                with pytest.raises(Exception, match=r"^(s: |server 's')"):
                    await client.call_tool("t", {})
            assert client.breaker.state is CircuitState.OPEN
            await client.aclose()
