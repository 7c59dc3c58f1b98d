"""The script over stdin and stdout: one JSON-RPC message a line."""

# ruff: noqa: ARG002 - `stream` matters to some of the exchanges only
from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from codebuddy_mcp_tools.testing.protocol import Protocol
from codebuddy_mcp_tools.testing.script import Step
from codebuddy_mcp_tools.testing.steps import Exchange, block_for_ever


class StdioExchange(Exchange):
    """A message that came on stdin; the answer goes to stdout, whole lines only."""

    _lock = threading.Lock()

    def send(self, message: Mapping[str, Any], *, stream: str | None = None) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        with self._lock:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(1, rest) :]


class StartOfStdio(StdioExchange):
    """The start of the process: what is written goes to stdout, and hanging means never to read."""

    def silence(self) -> None:
        block_for_ever()


def serve(protocol: Protocol) -> None:
    """Play the script until stdin ends."""
    guard(protocol, partial(protocol.start, StartOfStdio({})))
    for line in _lines():
        message = _parse(protocol, line)
        if message is not None:
            guard(protocol, partial(_take, protocol, StdioExchange(message)))
        if not protocol.reading:
            block_for_ever()
    protocol.state.record("eof")
    if protocol.ignores_eof:
        block_for_ever()


def _take(protocol: Protocol, exchange: StdioExchange) -> None:
    steps = protocol.accept(exchange)
    if protocol.blocks(steps):
        threading.Thread(target=_play, args=(protocol, exchange, steps), daemon=True).start()
    else:
        protocol.play(exchange, steps)


def _play(protocol: Protocol, exchange: StdioExchange, steps: Sequence[Step]) -> None:
    guard(protocol, partial(protocol.play, exchange, steps))


def _lines() -> Iterator[bytes]:
    buffer = bytearray()
    while True:
        try:
            chunk = os.read(0, 1 << 16)
        except OSError:  # a step closed our stdin: live on, deaf
            block_for_ever()
        if not chunk:
            return
        buffer += chunk
        *lines, rest = buffer.split(b"\n")
        buffer = bytearray(rest)
        yield from (bytes(line) for line in lines)


def _parse(protocol: Protocol, line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if isinstance(message, dict):
        return message
    if line.strip():
        protocol.state.record("garbage", raw=line.decode("latin-1"))
    return None


def guard(protocol: Protocol, action: Callable[[], None]) -> None:
    """Run `action`; a client that went away ends the process quietly, a wrong script ends it with code 70."""
    try:
        action()
    except OSError as error:
        protocol.state.record("client_gone", error=str(error))
        if not protocol.ignores_eof:
            os._exit(0)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the script's author who must see it
        protocol.state.record("script_error", error=f"{type(error).__name__}: {error}")
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(70)
