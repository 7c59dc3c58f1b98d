"""The honest part: a small, correct MCP server that answers what no step has answered."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codebuddy_mcp_tools.testing.script import BLOCKING, Script, Step, kind_of, nth
from codebuddy_mcp_tools.testing.state import StateDirectory
from codebuddy_mcp_tools.testing.steps import Exchange, run

if TYPE_CHECKING:
    from subprocess import Popen

LATEST = "2025-11-25"


class Protocol:
    """One process that plays a script.

    Attributes:
        pages: the tool list as it is now, page by page.
        reading: `False` once a step said to stop reading stdin.
        sessions: the ids of the http sessions that are known; forgetting one makes the next request to it a 404.
    """

    def __init__(self, script: Script, state: StateDirectory) -> None:
        self.script = script
        self.state = state
        self.pages: Sequence[Sequence[Mapping[str, Any]]] = script.pages
        self.reading = True
        self.ignores_eof = False
        self.sessions: set[str] = set()
        self.children: list[Popen[bytes]] = []
        self._counters: dict[str, int] = {}
        self._expected: dict[Any, threading.Event] = {}
        self._answers: dict[Any, Any] = {}
        self._ids = itertools.count(1)

    def start(self, exchange: Exchange) -> None:
        """Carry out `on_start`."""
        number = self.state.count("start")
        self.state.record("start", number=number)
        run(nth(self.script.on_start, number), self, exchange)

    def accept(self, exchange: Exchange) -> Sequence[Step]:
        """Log a message, count it, and give the steps for it. Called in the order in which messages arrive."""
        message = exchange.request
        self.state.record("message", message=message)
        if "method" not in message:
            self._take_answer(message)
            return ()
        name = self._tool(message)
        key = f"calls.{name}" if name is not None else f"on.{message['method']}"
        exchange.number = self.state.count(key)
        if name is not None and name in self.script.calls:
            return nth(self.script.calls[name], exchange.number)
        return nth(self.script.on.get(message["method"], ()), exchange.number)

    def play(self, exchange: Exchange, steps: Sequence[Step]) -> None:
        """Carry out the steps, then give the ordinary answer unless one of them has."""
        run(steps, self, exchange)
        message = exchange.request
        if not exchange.answered and "method" in message and "id" in message:
            exchange.send({"jsonrpc": "2.0", "id": message["id"], **self.ordinary(message)})

    @staticmethod
    def blocks(steps: Sequence[Step]) -> bool:
        """Whether carrying out these steps takes time."""
        return any(kind_of(step) in BLOCKING for step in steps)

    def counted(self, exchange: Exchange) -> int:
        """How often this process was asked for this tool, this time included."""
        name = str(self._tool(exchange.request))
        self._counters[name] = self._counters.get(name, 0) + 1
        return self._counters[name]

    def expect_answer(self) -> tuple[str, threading.Event]:
        """An id for a request to the client, and the event that is set when its answer is there."""
        identity = f"server-{next(self._ids)}"
        self._expected[identity] = threading.Event()
        return identity, self._expected[identity]

    def answer_to(self, identity: str) -> Any:
        """The client's answer to one of our requests: its `result` or `error`, or `None`."""
        return self._answers.get(identity)

    def _take_answer(self, message: Mapping[str, Any]) -> None:
        identity = message.get("id")
        if identity in self._expected:
            self._answers[identity] = message.get("result", message.get("error"))
            self._expected[identity].set()

    @staticmethod
    def _tool(message: Mapping[str, Any]) -> str | None:
        if message.get("method") != "tools/call":
            return None
        return str((message.get("params") or {}).get("name"))

    def ordinary(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What a correct server answers: `{"result": …}` or `{"error": …}`."""
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                return {"result": self._hello(params)}
            case "ping":
                return {"result": {}}
            case "logging/setLevel":
                return {"result": {}}
            case "tools/list":
                return self._page(params.get("cursor"))
            case "tools/call":
                return self._called(params)
            case method:
                return {"error": {"code": -32601, "message": f"Method not found: {method}"}}

    def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        script = self.script
        capabilities = script.capabilities
        if capabilities is None:
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            for kind in ("prompts", "resources"):
                if f"{kind}/list" in script.on:
                    capabilities = {**capabilities, kind: {"listChanged": True}}
        hello = {
            "protocolVersion": script.protocol_version or params.get("protocolVersion", LATEST),
            "capabilities": capabilities,
            "serverInfo": {"name": script.name, "version": script.version},
        }
        return hello if script.instructions is None else {**hello, "instructions": script.instructions}

    def _page(self, cursor: Any) -> dict[str, Any]:
        number = 0
        if cursor is not None:
            head, _, tail = str(cursor).partition("-")
            number = int(tail) if head == "page" and tail.isdecimal() else len(self.pages)
        if number and number >= len(self.pages):
            return {"error": {"code": -32602, "message": f"Invalid cursor: {cursor}"}}
        result: dict[str, Any] = {"tools": list(self.pages[number]) if self.pages else []}
        if number + 1 < len(self.pages):
            result["nextCursor"] = f"page-{number + 1}"
        return {"result": result}

    def _called(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        listed = (tool.get("name") for page in self.pages for tool in page if isinstance(tool, dict))
        if name in self.script.calls or name in listed:
            return {"result": {"content": [{"type": "text", "text": "ok"}]}}
        return {"error": {"code": -32602, "message": f"Unknown tool: {name}"}}
