"""The steps: one small function for each thing a server can do wrong (or right).

A step acts on an `Exchange`: one received request, or the start of the process, and the way back to the client.
"""

# ruff: noqa: ARG002 - an exchange that cannot do a thing still has the method, and says so
from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codebuddy_mcp_tools.testing.errors import ScriptError
from codebuddy_mcp_tools.testing.script import CONTENT, Step, kind_of

if TYPE_CHECKING:
    from codebuddy_mcp_tools.testing.protocol import Protocol

CHUNK = 1 << 20


class Exchange:
    """One request and the way back. The transports override what they can do; what they cannot is a `ScriptError`.

    Attributes:
        request: the JSON-RPC request or notification; `{}` at the start of the process.
        number: the how-manieth time this tool or method is asked for, counted from 1.
        answered: whether something was done that stands for an answer, so that the ordinary one is left out.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = request
        self.number = 1
        self.answered = False
        self.client_answer: Any = None

    @property
    def arguments(self) -> Any:
        """The arguments of a `tools/call`."""
        return (self.request.get("params") or {}).get("arguments") or {}

    def send(self, message: Mapping[str, Any], *, stream: str | None = None) -> None:
        """Send one JSON-RPC message; `stream="get"` takes the standing stream of an http session."""
        raise self._impossible("send a message")

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        raise self._impossible("write")

    def silence(self) -> None:
        """Never answer."""
        self.answered = True

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer with one HTTP response."""
        raise self._impossible("answer with an HTTP status")

    def sse(self, text: str) -> None:
        """Write text into the event stream of the answer."""
        raise self._impossible("write to an event stream")

    def end(self) -> None:
        """End the event stream in good order."""
        raise self._impossible("end an event stream")

    def cut(self, *, reset: bool) -> None:
        """Close the connection: in the middle of the stream, or with a reset before any answer."""
        raise self._impossible("drop a connection")

    def _impossible(self, what: str) -> ScriptError:
        return ScriptError(f"cannot {what} here ({self.request.get('method', 'at start')})")


class EndOfSteps(Exception):  # noqa: N818 - a signal, not an error
    """Nothing after this step is carried out."""


Action = Callable[["Protocol", Exchange, Any, Step], None]


def run(steps: Sequence[Step], protocol: Protocol, exchange: Exchange) -> None:
    """Carry out steps in order, until one of them ends the exchange."""
    try:
        for step in steps:
            kind = kind_of(step)
            ACTIONS[kind](protocol, exchange, step[kind], step)
    except EndOfSteps:
        return


def _answer(exchange: Exchange, step: Step, body: Mapping[str, Any]) -> None:
    exchange.answered = True
    identity = step["id"] if "id" in step else exchange.request.get("id")
    exchange.send({"jsonrpc": "2.0", "id": identity, **body})


def _content(protocol: Protocol, exchange: Exchange, _value: Any, step: Step) -> None:
    texts: dict[str, Callable[[], str]] = {
        "text": lambda: str(step["text"]) * step.get("repeat", 1),
        "echo": lambda: json.dumps(exchange.arguments),
        "counter": lambda: str(protocol.counted(exchange)),
        "pid": lambda: str(os.getpid()),
        "client_answer": lambda: json.dumps(exchange.client_answer),
    }
    result: dict[str, Any] = {"content": [{"type": "text", "text": texts[key]()} for key in CONTENT if key in step]}
    if "structured" in step:
        result["structuredContent"] = step["structured"]
    if step.get("is_error"):
        result["isError"] = True
    _answer(exchange, step, {"result": result})


def _result(_protocol: Protocol, exchange: Exchange, value: Any, step: Step) -> None:
    _answer(exchange, step, {"result": value})


def _error(_protocol: Protocol, exchange: Exchange, value: Any, step: Step) -> None:
    _answer(exchange, step, {"error": value})


def _raw(_protocol: Protocol, exchange: Exchange, value: str, step: Step) -> None:
    exchange.answered = True
    data = value.replace("$id", json.dumps(exchange.request.get("id"))).encode("latin-1")
    for piece in _repeated(data, step.get("repeat", 1)):
        exchange.raw(piece)


def _repeated(data: bytes, times: int) -> list[bytes]:
    at_once = max(1, CHUNK // max(1, len(data)))
    full, rest = divmod(times, at_once)
    return [data * at_once] * full + ([data * rest] if rest else [])


def _sleep(_protocol: Protocol, _exchange: Exchange, value: float, _step: Step) -> None:
    time.sleep(value)


def _wait_file(protocol: Protocol, _exchange: Exchange, value: str, _step: Step) -> None:
    gate = protocol.state.file(value)
    while not os.path.exists(gate):
        time.sleep(0.005)


def _touch(protocol: Protocol, _exchange: Exchange, value: str, _step: Step) -> None:
    with open(protocol.state.file(value), "ab"):
        return


def _hang(_protocol: Protocol, exchange: Exchange, _value: Any, _step: Step) -> None:
    exchange.silence()
    raise EndOfSteps


def _exit(protocol: Protocol, _exchange: Exchange, value: int, _step: Step) -> None:
    protocol.state.record("exit", code=value)
    os._exit(value)


def _kill(protocol: Protocol, _exchange: Exchange, value: int | str, _step: Step) -> None:
    number = getattr(signal, value) if isinstance(value, str) else value
    protocol.state.record("kill", signal=int(number))
    os.kill(os.getpid(), number)


def _notify(_protocol: Protocol, exchange: Exchange, value: Mapping[str, Any], step: Step) -> None:
    for _ in range(step.get("repeat", 1)):
        exchange.send({"jsonrpc": "2.0", **value}, stream=step.get("stream"))


def _progress(_protocol: Protocol, exchange: Exchange, value: Sequence[Any], _step: Step) -> None:
    token = ((exchange.request.get("params") or {}).get("_meta") or {}).get("progressToken")
    if token is None:
        return
    params = dict(zip(("progress", "total", "message"), value, strict=False))
    exchange.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, **params}})


def _request(protocol: Protocol, exchange: Exchange, value: Mapping[str, Any], step: Step) -> None:
    for _ in range(step.get("repeat", 1)):
        identity, arrived = protocol.expect_answer()
        exchange.send({"jsonrpc": "2.0", "id": identity, **value}, stream=step.get("stream"))
        if step.get("wait", True):
            arrived.wait(step.get("timeout", 30))
            exchange.client_answer = protocol.answer_to(identity)


def _stderr(_protocol: Protocol, _exchange: Exchange, value: str, step: Step) -> None:
    for piece in _repeated(value.encode("utf-8", "replace"), step.get("repeat", 1)):
        sys.stderr.buffer.write(piece)
    sys.stderr.buffer.flush()


def _ledger(protocol: Protocol, exchange: Exchange, value: str, step: Step) -> None:
    line = value.replace("$args", json.dumps(exchange.arguments))
    for _ in range(step.get("repeat", 1)):
        protocol.state.enter(line)


def _tools(protocol: Protocol, _exchange: Exchange, value: list[Mapping[str, Any]], _step: Step) -> None:
    protocol.pages = [value]


def _close_stdin(_protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    os.close(0)


def _close_stdout(_protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    os.close(1)


def _stop_reading(protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    protocol.reading = False


def _spawn(protocol: Protocol, _exchange: Exchange, value: list[str], _step: Step) -> None:
    import subprocess  # noqa: PLC0415 - 6 ms of every start

    argv = [sys.executable if part == "$python" else part for part in value]
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    protocol.children.append(child)
    protocol.state.record("spawn", child=child.pid)


def _ignore_eof(protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    protocol.ignores_eof = True


def _ignore_sigterm(_protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _status(_protocol: Protocol, exchange: Exchange, value: int, step: Step) -> None:
    exchange.answered = True
    exchange.respond(value, step.get("headers", {}), str(step.get("body", "")).encode("latin-1"))


def _redirect(_protocol: Protocol, exchange: Exchange, value: str, step: Step) -> None:
    exchange.answered = True
    exchange.respond(step.get("code", 307), {"Location": value, **step.get("headers", {})}, b"")


def _drop(_protocol: Protocol, exchange: Exchange, _value: Any, _step: Step) -> None:
    exchange.answered = True
    exchange.cut(reset=True)
    raise EndOfSteps


def _sse(_protocol: Protocol, exchange: Exchange, value: str, step: Step) -> None:
    for _ in range(step.get("repeat", 1)):
        exchange.sse(value.replace("$id", json.dumps(exchange.request.get("id"))))


def _sse_cut(_protocol: Protocol, exchange: Exchange, _value: Any, _step: Step) -> None:
    exchange.answered = True
    exchange.sse(": cut\n\n")
    exchange.cut(reset=False)
    raise EndOfSteps


def _end(_protocol: Protocol, exchange: Exchange, _value: Any, _step: Step) -> None:
    exchange.answered = True
    exchange.end()


def _forget_sessions(protocol: Protocol, _exchange: Exchange, _value: Any, _step: Step) -> None:
    protocol.sessions.clear()


ACTIONS: dict[str, Action] = {
    **dict.fromkeys(CONTENT, _content),
    "result": _result, "error": _error, "raw": _raw, "sleep": _sleep, "wait_file": _wait_file, "touch": _touch,
    "hang": _hang, "exit": _exit, "kill": _kill, "notify": _notify, "progress": _progress, "request": _request,
    "stderr": _stderr, "ledger": _ledger, "tools": _tools, "close_stdin": _close_stdin, "close_stdout": _close_stdout,
    "stop_reading": _stop_reading, "spawn": _spawn, "ignore_eof": _ignore_eof, "ignore_sigterm": _ignore_sigterm,
    "status": _status, "redirect": _redirect, "drop": _drop, "sse": _sse, "sse_cut": _sse_cut, "end": _end,
    "forget_sessions": _forget_sessions,
}  # fmt: skip


def block_for_ever() -> None:
    """Wait for a signal."""
    threading.Event().wait()
