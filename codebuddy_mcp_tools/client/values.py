"""What a client tells about itself and takes from outside: plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from codebuddy_mcp_tools.types import JSON, CircuitState, ClientState, ServerInfo

EventKind = Literal[
    "connected", "disconnected", "tools_changed", "resources_changed", "prompts_changed", "log", "error", "breaker"
]


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """Something happened to a server. Delivered on the owner loop by a worker, one after another, in order.

    Attributes:
        kind: `connected`; `disconnected` (the session ended unasked); `tools_changed` (the list is another one, and
            `cached_tools()` has it), `resources_changed`, `prompts_changed`; `log` (a log message of the server's: its
            words in `data`); `error` (a connection attempt failed); `breaker` (`data` is the new state).
        message: one line for people, without secrets.
    """

    kind: EventKind
    server: str
    message: str = ""
    data: JSON = None


@dataclass(frozen=True, slots=True)
class ClientSnapshot:
    """One client as it is at this moment."""

    state: ClientState
    attempts: int
    """Connection attempts in the cycle that is running or ran last."""
    last_error: str | None
    last_error_at: datetime | None
    connected_since: datetime | None
    server_info: ServerInfo | None
    pid: int | None
    stderr_tail: tuple[str, ...]
    breaker_state: CircuitState
    retry_after: float | None


Handler = Callable[[Mapping[str, Any]], Awaitable[JSON] | JSON]
"""Takes the parameters of a server's request plus `server`, its name; gives the result, both plain JSON."""


@dataclass(frozen=True, slots=True)
class ServerHandlers:
    """Who answers what servers ask for. `None` means that the capability is not announced and requests are refused.

    A handler may take its time: other messages of the same server go on meanwhile. It runs on the owner loop.

    Attributes:
        elicitation: `elicitation/create`: `{"server", "message", "schema"}` or `{"server", "message", "mode": "url",
            "url"}` (and everything else the server sent) to `{"action": "accept" | "decline" | "cancel", "content"?}`.
        sampling: `sampling/createMessage` to a `CreateMessageResult`.
        roots: `roots/list` to `{"roots": [{"uri", "name"?}]}`.
    """

    elicitation: Handler | None = None
    sampling: Handler | None = None
    roots: Handler | None = None

    def capabilities(self) -> dict[str, Any]:
        """The client capabilities that these handlers stand for, as `initialize` announces them."""
        offered: dict[str, Any] = {}
        if self.elicitation is not None:
            offered["elicitation"] = {"form": {}, "url": {}}
        if self.sampling is not None:
            offered["sampling"] = {}
        if self.roots is not None:
            offered["roots"] = {"listChanged": False}
        return offered

    def for_method(self, method: str) -> Handler | None:
        """Who answers requests with this method."""
        return {
            "elicitation/create": self.elicitation,
            "sampling/createMessage": self.sampling,
            "roots/list": self.roots,
        }.get(method)
