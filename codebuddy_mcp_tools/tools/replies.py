"""One call on its way and what it comes to: the values that travel along `CallPath`, and the words for its failures.

Policy: a failure names server, tool, cause and next step. Our own words stand as they are; what a server, its stderr or
its error answers say is a stranger's text and comes in an envelope. Whether a failed call may have run is decided here,
once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig

from codebuddy_mcp_tools.client.origin import header_problem
from codebuddy_mcp_tools.errors import (
    CallTimeoutError,
    ConfigError,
    ConnectionLostError,
    MCPToolsError,
    ProtocolError,
    ServerError,
)
from codebuddy_mcp_tools.policy import Decision, clean_line, envelope
from codebuddy_mcp_tools.types import CallResult, Effect, Outcome, ToolInfo

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.tool import MCPTool

_OUR_HEADERS = frozenset({
    "accept", "connection", "content-length", "content-type", "host", "mcp-protocol-version", "mcp-session-id",
    "transfer-encoding",
})  # fmt: skip
Sender = Callable[[ToolInfo, Mapping[str, Any], Mapping[str, str] | None], Awaitable[CallResult]]


@dataclass(slots=True)
class Reply:
    """What a call comes to: the model's text (or blocks), and plain data for the program."""

    content: str | list[str | dict[str, Any]]
    artifact: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    command: Any = None
    """A LangGraph `Command` or a `ToolMessage` that an interceptor answered with; passed on as it is."""


@dataclass(slots=True)
class Call:
    """One call on its way."""

    tool: MCPTool
    arguments: Mapping[str, Any]
    call_id: str | None
    config: RunnableConfig
    effect: Effect
    info: ToolInfo
    """The tool's newest definition: it may have changed since the tool object was made."""
    decision: Decision | None = None
    duration_ms: float = 0.0
    was_sent: bool = False

    @property
    def named(self) -> str:
        """The tool, for a sentence."""
        return f"tool {clean_line(self.info.name, 80)!r} of server {self.info.server!r}"

    def configured(self, key: str) -> Any:
        """A value of the run's `configurable`."""
        return (self.config.get("configurable") or {}).get(key)

    def headers(self, others: Mapping[str, str] | None = None) -> dict[str, str]:
        """HTTP headers of this call only: the run's `configurable["mcp_headers"][server]`, and `others` over them.

        Raises:
            ConfigError: HTTP cannot carry one of them.
        """
        headers = {**self._per_server("mcp_headers"), **(others or {})}
        ours = [name for name in headers if isinstance(name, str) and name.lower() in _OUR_HEADERS]
        problem = f"header {ours[0]} is set by the connection" if ours else header_problem(headers)
        if problem:
            raise ConfigError(f"{self.named} was not called: {problem}")
        return headers

    def meta(self) -> dict[str, Any] | None:
        """`_meta` of the request, from the run's `configurable["mcp_meta"][server]`.

        Raises:
            ConfigError: it is not a mapping.
        """
        return self._per_server("mcp_meta") or None

    def _per_server(self, key: str) -> dict[str, Any]:
        value = self.configured(key)
        own = value.get(self.info.server) if isinstance(value, Mapping) else value
        if own is None:
            return {}
        if not isinstance(own, Mapping):
            raise ConfigError(
                f"configurable[{key!r}] must hold a mapping for each server, as in {{{self.info.server!r}: {{…}}}}"
            )
        return dict(own)

    def artifact(self, outcome: Outcome) -> dict[str, Any]:
        """What every artifact says of a call that ended so."""
        return {
            "server": self.info.server,
            "tool": self.info.name,
            "duration_ms": round(self.duration_ms, 3),
            "is_error": outcome is not Outcome.OK,
            "effect": self.effect.value,
            "outcome": outcome.value,
        }


Interceptor = Callable[[Call, Sender], Awaitable["CallResult | Reply"]]
"""A step round the sending of a call; made from langchain-mcp-adapters' interceptors in `interop`."""


def refused(call: Call, cause: str, next_step: str = "", outcome: Outcome = Outcome.NOT_RUN) -> Reply:
    """A failure in our own words."""
    head = f"Error: {cause}" if call.named in cause else f"Error: {call.named}: {cause}"
    return Reply(f"{head}\n{next_step}".rstrip(), call.artifact(outcome), is_error=True)


def interrupted(call: Call, before: str) -> Reply:
    """The answer to a write that its run was cut off in, or after, and would now make again.

    Args:
        before: how far it had come.
    """
    return refused(call, f"{call.named} {before}.", _UNKNOWN, Outcome.UNKNOWN)


def failed(call: Call, error: MCPToolsError, cause: str) -> Reply:
    """A failure of the session or the server, with what the model should do about it.

    Args:
        cause: the error's text without secrets.
    """
    outcome, next_step = _next_step(error, call.effect)
    if not isinstance(error, ServerError):
        return refused(call, cause, next_step, outcome)
    head = f"Error: {call.named} failed. {next_step}".rstrip()
    artifact = call.artifact(outcome)
    if isinstance(error, ProtocolError):
        artifact["error"] = {"code": error.code, "data": error.data}
    return Reply(f"{head}\n{envelope(call.info.server, call.info.name, cause)}", artifact, is_error=True)


def broke(call: Call, error: Exception) -> Reply:
    """A fault of ours, or of a handler of the user's."""
    outcome = Outcome.UNKNOWN if call.was_sent else Outcome.NOT_RUN
    ran = "It may have run; check before you repeat it." if call.was_sent else "It was not sent."
    return refused(call, f"an internal error ({type(error).__name__}) broke the call. {ran}", outcome=outcome)


def is_control_flow(error: BaseException) -> bool:
    """Whether an exception is LangGraph's own: an interrupt, a command to a parent graph."""
    errors = sys.modules.get("langgraph.errors")  # not loaded: nobody can have raised one
    return errors is not None and isinstance(error, errors.GraphBubbleUp)


def _is_http_status(data: Any) -> bool:
    return isinstance(data, Mapping) and "http_status" in data


_UNKNOWN = (
    "The outcome is unknown: it may have run. It was not sent again. Check the state with a read before you retry."
)


def _next_step(error: MCPToolsError, effect: Effect) -> tuple[Outcome, str]:
    """How a failed call counts, and the sentence that tells the model what to do."""
    match error:
        case ConnectionLostError(sent=True) | CallTimeoutError():
            return Outcome.UNKNOWN, _UNKNOWN if effect is Effect.WRITE else "No answer came. You may call it again."
        case ProtocolError(ran=True) if _is_http_status(error.data):
            # Somebody on the way answered instead of the server: nobody knows how far the call had come.
            return Outcome.UNKNOWN, _UNKNOWN if effect is Effect.WRITE else "It may have run. You may call it again."
        case ProtocolError(ran=True):
            return Outcome.UNKNOWN if effect is Effect.WRITE else Outcome.TOOL_ERROR, (
                "The server sent an invalid result; the call has run, so do not repeat it to correct arguments."
            )
        case ProtocolError():
            return Outcome.TOOL_ERROR, "The server refused the call; read its message before you try again."
        case ServerError():
            return Outcome.NOT_RUN, "It was not sent. Other servers' tools still work."
        case _:
            return Outcome.NOT_RUN, ""
