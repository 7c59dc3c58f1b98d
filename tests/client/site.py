"""An HTTP server on loopback whose every byte a test decides, and a sink that remembers."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from codebuddy_mcp_tools.client.transport import RequestId, TransportFault

PATIENCE = 10.0


@dataclass
class Seen:
    """One request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def rpc(self) -> str | None:
        return self.message.get("method") if self.body else None


class Reply:
    """Writes the answer to one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def status(self, code: int, body: bytes | str = b"", **headers: str) -> None:
        body = body.encode() if isinstance(body, str) else body
        fields = {
            "content-length": str(len(body)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self.raw(f"HTTP/1.1 {code} Some Reason\r\n{head}\r\n".encode() + body)

    async def json(self, value: object, code: int = 200, **headers: str) -> None:
        await self.status(code, json.dumps(value), content_type="application/json", **headers)

    async def events(self, *events: str, end: bool = True, **headers: str) -> None:
        extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            + extra.encode()
            + b"\r\n"
        )
        for event in events:
            await self.event(event)
        if end:
            await self.end()

    async def event(self, text: str) -> None:
        data = f"{text}\n\n".encode()
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    def reset(self) -> None:
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()

    async def until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        await self._reader.read(1)


Handler = Callable[[Seen, Reply], Awaitable[None]]


@dataclass
class Site:
    """`async with Site(handler) as site`."""

    handler: Handler
    ssl: ssl.SSLContext | None = None
    at: int = 0
    requests: list[Seen] = field(default_factory=list)
    connections: int = 0
    _tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.at, ssl=self.ssl)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks, writers = tuple(self._tasks), tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # in which asyncio closes the sockets

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def seen(self, rpc: str) -> list[Seen]:
        return [request for request in self.requests if request.method == "POST" and request.rpc == rpc]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(lambda _: self._tasks.pop(task, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                await self.handler(request, Reply(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Seen(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def answer(request: Seen, result: object | None = None) -> dict[str, Any]:
    """A JSON-RPC answer to a request."""
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": {} if result is None else result}


def event(message: object, **fields: object) -> str:
    """One server-sent event that holds a message."""
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{head}data: {json.dumps(message)}"


class Recorder:
    """A sink that keeps what it is given, and lets a test wait for it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.unreadable: dict[RequestId | None, str] = {}
        self.noises: list[str] = []
        self.ends: list[TransportFault] = []
        self._changed = asyncio.Event()

    def message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        self._changed.set()

    def garbled(self, request_id: RequestId | None, reason: str) -> None:
        self.unreadable[request_id] = reason
        self._changed.set()

    def noise(self, text: str) -> None:
        self.noises.append(text)
        self._changed.set()

    def closed(self, fault: TransportFault) -> None:
        self.ends.append(fault)
        self._changed.set()

    def answers(self, request_id: RequestId) -> list[dict[str, Any]]:
        return [message for message in self.messages if message.get("id") == request_id and "method" not in message]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def answer(self, request_id: RequestId) -> dict[str, Any]:
        await self.until(lambda: bool(self.answers(request_id)))
        return self.answers(request_id)[0]

    async def fault(self, request_id: RequestId) -> TransportFault:
        """The fault that stands in place of an answer."""
        fault = TransportFault.of((await self.answer(request_id))["error"])
        assert fault is not None
        return fault

    async def complaint(self, request_id: RequestId) -> str:
        await self.until(lambda: request_id in self.unreadable)
        return self.unreadable[request_id]
