"""What servers send unasked: refused, answered, announced; and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from codebuddy_mcp_tools.client import ClientEvent, ServerHandlers
from codebuddy_mcp_tools.client.questions import QuestionRefusedError, question
from codebuddy_mcp_tools.errors import ConnectionLostError
from codebuddy_mcp_tools.testing import FaultServer
from tests.client.conftest import MakeClient
from tests.client.fake import CALLS, FakeChannel, FakeServer, drop, silence, text, until

ASK = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}


def asking(method: str = "elicitation/create", times: int = 1) -> Any:
    """Ask the client something during a call, and answer the call only afterwards."""

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        for number in range(times):
            channel.push({"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": dict(ASK)})

    return answer


def answers(server: FakeServer) -> dict[str, dict[str, Any]]:
    """What the client answered to the server's requests, by id."""
    return {m["id"]: m for m in server.channel.sent if "method" not in m}


# -- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage", "roots/list", "tasks/get"])
async def test_what_nobody_opted_into_is_refused_and_not_announced(client_of: MakeClient, method: str) -> None:
    server = FakeServer(tools__call=asking(method))
    client = client_of(server)
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and answers(server))
    assert answers(server)["q0"]["error"]["code"] == -32601
    assert server.sent("initialize")[0]["params"]["capabilities"] == {}
    call.cancel()
    await asyncio.wait({call})


async def test_a_handler_gets_the_request_and_the_servers_name_and_its_answer_goes_back(client_of: MakeClient) -> None:
    seen: list[Mapping[str, Any]] = []

    async def elicit(request: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(request)
        return {"action": "accept", "content": {"x": 1}}

    script = {"calls": {"t": [{"request": {"method": "elicitation/create", "params": ASK}}, {"client_answer": True}]}}
    with FaultServer(script) as server:
        client = client_of(server, handlers=ServerHandlers(elicitation=elicit))
        result = await client.call_tool("t", {})
    assert result.content[0]["text"] == '{"action": "accept", "content": {"x": 1}}'
    assert seen == [{**ASK, "server": "s", "schema": ASK["requestedSchema"]}]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/auth?x=1", True),
        ("http://localhost:8000/cb", True),
        ("http://example.com/", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("--flag", False),
        ("https://ex ample.com", False),
        ("https://[", False),
        (None, False),
    ],
)
def test_only_urls_that_a_person_may_open_are_passed_on(url: Any, shown: bool) -> None:
    params = {"mode": "url", "url": url, "message": "Log in\x1b[2J\u202e", "server": "somebody else"}
    if shown:
        asked = question("s", "elicitation/create", params)
        assert (asked["server"], asked["message"], asked["url"]) == ("s", "Log in", url)
    else:
        with pytest.raises(QuestionRefusedError):
            question("s", "elicitation/create", params)


async def test_a_question_that_is_not_passed_on_is_refused(client_of: MakeClient) -> None:
    def bad(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.push({"id": "q0", "method": "elicitation/create", "params": {"mode": "url", "url": "file:///x"}})

    server = FakeServer(tools__call=bad)
    client = client_of(server, handlers=ServerHandlers(elicitation=lambda _: {"action": "accept"}))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and answers(server))
    assert answers(server)["q0"]["error"]["code"] == -32602
    call.cancel()
    await asyncio.wait({call})


async def test_capabilities_are_announced_for_the_handlers_that_are_there(client_of: MakeClient) -> None:
    server = FakeServer()
    handlers = ServerHandlers(elicitation=lambda _: {}, sampling=lambda _: {}, roots=lambda _: {"roots": []})
    await client_of(server, handlers=handlers).connect()
    announced = server.sent("initialize")[0]["params"]["capabilities"]
    assert announced == {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": False}}


async def test_a_handler_that_waits_holds_up_no_other_call(client_of: MakeClient) -> None:
    gate = asyncio.Event()

    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        await gate.wait()
        return {"action": "decline"}

    server = FakeServer(tools__call=asking())
    client = client_of(server, handlers=ServerHandlers(elicitation=slow))
    waiting = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and server.sent("tools/call"))
    server.answers["tools/call"] = text
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    await client._loop.run(_set(gate))
    await until(lambda: answers(server))
    assert answers(server)["q0"]["result"] == {"action": "decline"}
    waiting.cancel()
    await asyncio.wait({waiting})


async def _set(gate: asyncio.Event) -> None:
    gate.set()


async def test_a_handler_may_use_the_client_itself(client_of: MakeClient) -> None:
    server = FakeServer(tools__call=asking(), tools__list=CALLS["tools__list"])
    found: list[int] = []

    async def listing_tools(_: Mapping[str, Any]) -> dict[str, Any]:
        found.append(len((await client.list_tools()).tools))
        return {"action": "cancel"}

    client = client_of(server, handlers=ServerHandlers(elicitation=listing_tools))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: found == [1])
    call.cancel()
    await asyncio.wait({call})


async def test_a_burst_reaches_the_handler_only_up_to_a_limit(client_of: MakeClient) -> None:
    running: list[int] = []

    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        running.append(1)
        await asyncio.Event().wait()
        return {}

    server = FakeServer(tools__call=asking(times=100))
    client = client_of(server, handlers=ServerHandlers(elicitation=slow))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and len(answers(server)) == 96)
    assert len(running) == 4
    assert {answer["error"]["message"] for answer in answers(server).values()} == {"too many requests at the same time"}
    call.cancel()
    await asyncio.wait({call})


@pytest.mark.parametrize("handler", [lambda _: {}["missing"], lambda _: object()])
async def test_a_handler_that_fails_costs_only_its_request(
    client_of: MakeClient, handler: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = FakeServer(tools__call=asking())
    client = client_of(server, handlers=ServerHandlers(elicitation=handler))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and answers(server))
    server.answers["tools/call"] = text
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    call.cancel()
    await asyncio.wait({call})


async def test_a_server_may_take_its_question_back(client_of: MakeClient) -> None:
    cancelled = asyncio.Event()

    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    def ask_and_cancel(channel: FakeChannel, message: dict[str, Any]) -> None:
        asking()(channel, message)
        asyncio.get_running_loop().call_soon(
            channel.push, {"method": "notifications/cancelled", "params": {"requestId": "q0"}}
        )

    server = FakeServer(tools__call=ask_and_cancel)
    client = client_of(server, handlers=ServerHandlers(elicitation=slow))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(cancelled.is_set)
    call.cancel()
    await asyncio.wait({call})
    assert answers(server) == {}


async def test_when_the_session_ends_its_questions_end(client_of: MakeClient) -> None:
    cancelled = asyncio.Event()

    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return {}

    server = FakeServer(tools__call=asking())
    client = client_of(server, handlers=ServerHandlers(elicitation=slow))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and server.sent("tools/call"))
    await client._loop.run(drop(server))
    await asyncio.wait({call})
    await until(cancelled.is_set)


async def test_time_that_a_person_takes_does_not_count_against_the_call(client_of: MakeClient) -> None:
    async def person(_: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1.3)
        return {"action": "accept", "content": {}}

    script = {"calls": {"t": [{"request": {"method": "elicitation/create", "params": ASK}}, {"text": "done"}]}}
    with FaultServer(script) as server:
        client = client_of(server, handlers=ServerHandlers(elicitation=person))
        await client.connect()
        result = await client.call_tool("t", {}, timeout=1.0)
    assert result.content[0]["text"] == "done"
    assert client.breaker.failures == 0


# -- notifications ---------------------------------------------------------------------------------------------------


async def test_log_messages_and_changes_of_lists_are_events(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []

    def chatty(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.push({"method": "notifications/message", "params": {"level": "info", "data": "hello"}})
        for _ in range(10):
            channel.push({"method": "notifications/resources/list_changed"})
        channel.push({"method": "notifications/prompts/list_changed"})
        channel.push({"method": "notifications/unknown", "params": {}})
        text(channel, message)

    client = client_of(FakeServer(tools__call=chatty), on_event=events.append)
    await client.call_tool("t", {})
    await until(lambda: len(events) == 4)
    assert [event.kind for event in events] == ["connected", "log", "resources_changed", "prompts_changed"]
    assert events[1].data == {"level": "info", "data": "hello"}


async def test_a_listener_may_be_a_coroutine_that_uses_the_client(client_of: MakeClient) -> None:
    seen: list[str] = []

    async def on_event(event: ClientEvent) -> None:
        await client.list_tools()
        seen.append(event.kind)

    client = client_of(FakeServer(**CALLS), on_event=on_event)
    await client.connect()
    await until(lambda: seen == ["connected"])


async def test_a_flood_of_notifications_is_bounded_and_the_call_comes_through(client_of: MakeClient) -> None:
    events: list[ClientEvent] = []

    def flood(channel: FakeChannel, message: dict[str, Any]) -> None:
        for number in range(20_000):
            channel.push({"method": "notifications/message", "params": {"data": number}})
        text(channel, message)

    client = client_of(FakeServer(tools__call=flood), on_event=events.append)
    assert (await client.call_tool("t", {})).content[0]["text"] == "ok"
    await until(lambda: events and events[-1].data == {"data": 19_999})
    assert len(events) <= 1001


async def test_real_floods_over_a_pipe_do_not_hold_up_a_call(client_of: MakeClient) -> None:
    notice = {"method": "notifications/message", "params": {"level": "info", "data": "x" * 100}}
    script = {"calls": {"t": [{"notify": notice, "repeat": 20_000}, {"text": "done"}]}}
    with FaultServer(script) as server:
        client = client_of(server, on_event=lambda _: None)
        assert (await client.call_tool("t", {})).content[0]["text"] == "done"


async def test_a_handler_or_a_listener_may_close_the_client(client_of: MakeClient) -> None:
    closed: list[str] = []

    async def closing_handler(_: Mapping[str, Any]) -> dict[str, Any]:
        await client.aclose()
        closed.append("handler")
        return {}

    async def closing_listener(event: ClientEvent) -> None:
        if event.kind == "disconnected":
            await other.aclose()
            closed.append("listener")

    server = FakeServer(tools__call=asking())
    client = client_of(server, handlers=ServerHandlers(elicitation=closing_handler))
    with pytest.raises(ConnectionLostError):
        await client.call_tool("t", {})
    await until(lambda: closed == ["handler"])
    other_server = FakeServer()
    other = client_of(other_server, on_event=closing_listener)
    await other.connect()
    await other._loop.run(drop(other_server))
    await until(lambda: closed == ["handler", "listener"])


async def test_closing_while_a_question_is_open_leaves_nothing(client_of: MakeClient) -> None:
    async def slow(_: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    server = FakeServer(tools__call=asking(), ping=silence)
    client = client_of(server, handlers=ServerHandlers(elicitation=slow))
    call = asyncio.create_task(client.call_tool("t", {}))
    await until(lambda: server.channels and server.sent("tools/call"))
    await client.aclose()
    await asyncio.wait({call})
    assert await client._loop.run(_tasks()) == []


async def _tasks() -> list[str]:
    return [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task() and "mcp-" in t.get_name()]
