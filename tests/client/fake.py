"""A server in memory: a channel that a test answers by hand, and clocks that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from codebuddy_mcp_tools.client import Channel, ChannelError, ChannelInfo, Sink, TransportFault
from codebuddy_mcp_tools.types import JSONObject, Transport

Answer = Callable[["FakeChannel", dict[str, Any]], Awaitable[None] | None]

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "fake", "version": "1"},
}


async def instant(_seconds: float) -> None:
    """A sleep that lets others run and no more."""
    await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let others run until the condition holds. Its only deadline is the test's."""
    while not condition():  # noqa: ASYNC110 - the condition is on another thread or in another process
        await asyncio.sleep(0.001)


class Clock:
    """Monotonic seconds that stand still until a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Naps:
    """A sleep that notes what it was asked for, and is instant."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await asyncio.sleep(0)


class FakeChannel:
    """One open channel. `sent` is what the client wrote; `push` is what the server writes."""

    def __init__(self, server: FakeServer, sink: Sink) -> None:
        self.server = server
        self.sink = sink
        self.info = ChannelInfo(Transport.STDIO, pid=4711)
        self.sent: list[dict[str, Any]] = []
        self.open = True

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:
        if not self.open:
            raise ChannelError(TransportFault("the fake is closed", sent=False))
        self.sent.append(dict(message))
        outcome = self.server.take(self, dict(message))
        if outcome is not None:
            await outcome

    def push(self, message: dict[str, Any]) -> None:
        """Deliver a message to the client."""
        self.sink.message(message)

    def reply(self, request: Mapping[str, Any], result: Any) -> None:
        """Answer a request."""
        self.push({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def fail(self, request: Mapping[str, Any], code: int, message: str) -> None:
        """Answer a request with an error."""
        self.push({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    def drop(self, reason: str = "the fake went away", **fault: Any) -> None:
        """End the channel as a crash would."""
        self.open = False
        self.sink.closed(TransportFault(reason, **fault))

    def requests(self, method: str) -> list[dict[str, Any]]:
        """What the client sent with this method."""
        return [message for message in self.sent if message.get("method") == method]


class FakeServer:
    """Opens fake channels. `answers` maps methods to what happens; `initialize` and `ping` are answered anyway.

    Attributes:
        channels: all channels so far, newest last.
        failures: faults that the next attempts to open end with.
    """

    def __init__(self, **answers: Answer) -> None:
        self.answers = {name.replace("__", "/"): answer for name, answer in answers.items()}
        self.channels: list[FakeChannel] = []
        self.failures: list[TransportFault] = []
        self.attempts = 0

    @property
    def channel(self) -> FakeChannel:
        """The newest channel."""
        return self.channels[-1]

    @asynccontextmanager
    async def open(self, sink: Sink) -> AsyncIterator[Channel]:
        self.attempts += 1
        if self.failures:
            raise ChannelError(self.failures.pop(0))
        channel = FakeChannel(self, sink)
        self.channels.append(channel)
        try:
            yield channel
        finally:
            channel.open = False

    def take(self, channel: FakeChannel, message: dict[str, Any]) -> Awaitable[None] | None:
        """Answer one message of the client's."""
        method = message.get("method", "")
        if method in self.answers:
            return self.answers[method](channel, message)
        if method == "initialize":
            channel.reply(message, HELLO)
        elif method == "ping":
            channel.reply(message, {})
        return None

    def sent(self, method: str) -> list[dict[str, Any]]:
        """What the client sent with this method, over all channels."""
        return [message for channel in self.channels for message in channel.requests(method)]


def text(channel: FakeChannel, message: dict[str, Any]) -> None:
    """Answer a call with its arguments' `say`, or `ok`."""
    said = (message["params"].get("arguments") or {}).get("say", "ok")
    channel.reply(message, {"content": [{"type": "text", "text": said}]})


def silence(_channel: FakeChannel, _message: dict[str, Any]) -> None:
    """Never answer."""


def listing(*names: str) -> Answer:
    """Answer `tools/list` with these tools, on one page."""

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        channel.reply(message, {"tools": [tool(name) for name in names]})

    return answer


def tool(name: str, **more: Any) -> dict[str, Any]:
    """A tool definition."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


CALLS = {"tools__call": text, "tools__list": listing("t")}


def dropping(times: int = 1, then: Any = text, **fault: Any) -> Any:
    """Lose the channel at the first `times` calls."""
    left = [times]

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        if left[0]:
            left[0] -= 1
            channel.drop(**fault)
        else:
            then(channel, message)

    return answer


def faulty(fault: TransportFault, times: int = 1, then: Any = text) -> Any:
    """Answer the first `times` calls with a fault of the transport's, as http does; the channel lives on."""
    left = [times]

    def answer(channel: FakeChannel, message: dict[str, Any]) -> None:
        if left[0]:
            left[0] -= 1
            channel.push(fault.as_error(message["id"]))
        else:
            then(channel, message)

    return answer


def refused(times: int, **fault: Any) -> list[TransportFault]:
    return [TransportFault(f"refused {n}", sent=False, connect=True, **fault) for n in range(1, times + 1)]


async def drop(server: FakeServer) -> None:
    """Let the newest channel crash; run it on the owner loop."""
    server.channel.drop()
