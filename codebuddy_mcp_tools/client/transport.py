"""What a transport is: the one seam between a session and stdio, http or sse.

Policy: a transport moves JSON-RPC messages as plain dicts and knows nothing of MCP beyond that. It *pushes* what
arrives into the session's `Sink`, synchronously and from the owner loop, so that a message costs no task switch; it
never waits for the session. It bounds every line, body and write itself.

A transport module offers one `open_…` function, an async context manager that yields a `Channel`. Entering it brings
the channel up or raises `ChannelError`; leaving it, from the same task, takes everything down in bounded time:

    @asynccontextmanager
    async def open_x(spec: ConnectionSpec, sink: Sink, …) -> AsyncIterator[Channel]: ...

What goes wrong with *one* request, while the channel lives on (an HTTP status, a refused connection, a body that is no
JSON), is given to the sink as an ordinary JSON-RPC error answer made by `TransportFault.as_error(request_id)`. A fault
carries a token of this process, so that no server can pretend that a request of ours never left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from codebuddy_mcp_tools.config.models import HttpServer, SseServer, StdioServer
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.types import JSONObject, Scope, Transport

RequestId = int | str
"""The id of a request of ours is always an int; a server may choose a string for its own."""

FAULT_CODE = -32090
"""JSON-RPC code of the errors that a transport makes in place of an answer."""
_FAULT_KEY = "codebuddy"
_TOKEN = secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class TransportFault:
    """Why a request has no answer, or why a channel ended. `message` is one line for people, without secrets.

    Attributes:
        message: what went wrong, without the server's name (`"HTTP 503 Service Unavailable"`); a server's own words
            in it are cleaned and short.
        sent: `False` only when the request provably did not reach the server, so that sending it again is safe.
        http_status: the status, when there was one.
        retry_after: seconds that the server asked us to wait.
        connect: no connection could be made.
        session_lost: the server does not know our session any more (a 404 with a session id): a new session helps.
        retryable: whether a later try can help (`False`: a 401, a refused address, a missing command).
        blocked: our own outbound rules refused the address.
        timed_out: a deadline passed; trying again at once would double the wait.
        exit_code: of the child process, negative for a signal.
    """

    message: str
    sent: bool = True
    http_status: int | None = None
    retry_after: float | None = None
    connect: bool = False
    session_lost: bool = False
    retryable: bool = True
    blocked: bool = False
    timed_out: bool = False
    exit_code: int | None = None

    def as_error(self, request_id: RequestId) -> dict[str, Any]:
        """This fault as the JSON-RPC answer to the request with that id."""
        details = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "message"}
        data = {_FAULT_KEY: {**details, "token": _TOKEN}}
        error = {"code": FAULT_CODE, "message": self.message, "data": data}
        return {"jsonrpc": "2.0", "id": request_id, "error": error}

    @classmethod
    def of(cls, error: JSONObject) -> TransportFault | None:
        """The fault in the `error` object of a JSON-RPC answer, or `None` when a server wrote it."""
        data = error.get("data")
        details = data.get(_FAULT_KEY) if isinstance(data, dict) else None
        if not isinstance(details, dict) or details.get("token") != _TOKEN:
            return None
        return cls(message=str(error["message"]), **{k: v for k, v in details.items() if k != "token"})


class ChannelError(Exception):
    """Raised by a transport: the channel could not be opened, or cannot take this message. `fault` says why."""

    def __init__(self, fault: TransportFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Sink(Protocol):
    """Where a transport puts what arrives. Its methods return at once, never raise, and run on the owner loop."""

    def message(self, message: dict[str, Any]) -> None:
        """One JSON object that arrived; anything a JSON object can be."""

    def garbled(self, request_id: RequestId | None, reason: str) -> None:
        """An answer that cannot be read (too long, not JSON); `request_id` as far as it could be told."""

    def noise(self, text: str) -> None:
        """Something that is no JSON-RPC at all, such as a banner on stdout; raw, at most some hundred characters."""

    def closed(self, fault: TransportFault) -> None:
        """The channel ended by itself; nothing arrives after this. Only the first call counts."""


@dataclass(slots=True)
class ChannelInfo:
    """What is known about the other end; any thread may read it."""

    transport: Transport
    pid: int | None = None
    returncode: int | None = None
    stderr_tail: Callable[[], tuple[str, ...]] = field(default=tuple)
    """The last lines of stderr, cleaned and redacted."""


class Channel(Protocol):
    """An open transport."""

    info: ChannelInfo

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:
        """Hand one message over.

        It returns when the message has left, or, over http, when it is on its way: what happens to it then comes back
        through the sink. A message that cannot be written at all (a lone surrogate) is a `ValueError` or `TypeError`.

        Args:
            headers: HTTP headers for this one message, ignored by stdio.

        Raises:
            ChannelError: the channel is closed or does not take it in time; `fault.sent` says whether it may have left.
        """


Opener = Callable[[Sink], AbstractAsyncContextManager[Channel]]
"""Opens one channel of one server; made from a `ConnectionSpec`."""


class Redacts(Protocol):
    """What this room needs of `policy.secrets.Redactor`."""

    def redact(self, text: str) -> str:
        """The text without any known secret."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Deadlines in seconds. Every await of the client room ends with one of these."""

    connect: float = 30.0
    """From the start of the process or the first connection to the answer to `initialize` (`MCP_TIMEOUT`)."""
    list: float = 30.0
    """All pages of one list."""
    call: float = 60.0
    """One tool call, prompt or resource (`MCP_TOOL_TIMEOUT`)."""
    close: float = 5.0
    write: float = 10.0
    """How long a server may leave one message of ours unread."""
    ping: float = 5.0


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """All that a client needs to know about its server; `config` is expanded and may hold secrets."""

    name: str
    config: StdioServer | SseServer | HttpServer = field(repr=False)
    scope: Scope = Scope.CODE
    timeouts: Timeouts = field(default_factory=Timeouts)
    reconnect_delays: tuple[float, ...] = (1.0, 2.0, 4.0)
    """One attempt for each; the n-th is the wait in seconds after the n-th attempt (the last one is not waited for)."""
    breaker_threshold: int = 3
    breaker_cooldown: float = 300.0
    cache_ttl: float = 300.0
    """How long a tool list counts as fresh, in seconds."""
    outbound: OutboundRules = field(default_factory=OutboundRules)
    """Which addresses may be dialled."""
    tokens_dir: Path | None = None
    """Where OAuth tokens are kept; `None` keeps them in memory."""

    @property
    def transport(self) -> Transport:
        return self.config.transport
