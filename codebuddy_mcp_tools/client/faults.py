"""Foreign failures to ours, at one place: exceptions to faults, and faults to the errors that users see.

Policy: the text names the server, says what went wrong in one line, and what to do where something can be done. What a
server wrote is cleaned and cut, and everything passes the redactor. `raise … from None`: a foreign exception may hold
headers and URLs, and tracing stores `__cause__`.
"""

from __future__ import annotations

from typing import Any

from codebuddy_mcp_tools.client.transport import ChannelError, Redacts, TransportFault
from codebuddy_mcp_tools.errors import (
    BlockedURLError,
    CallTimeoutError,
    CircuitOpenError,
    ConnectError,
    ConnectionLostError,
    MCPToolsError,
    ProtocolError,
)
from codebuddy_mcp_tools.policy.secrets import redact_json
from codebuddy_mcp_tools.policy.text import clean, clean_line
from codebuddy_mcp_tools.types import JSON

_MAX_TEXT = 2000
INVALID_PARAMS = -32602
_ASK_FIRST = "it may have run: find out before you try again"


def fault_of(error: BaseException) -> TransportFault:
    """What a transport's exception means; groups are unwrapped to what really happened."""
    cause = _first_cause(error)
    if isinstance(cause, ChannelError):
        return cause.fault
    if isinstance(cause, BlockedURLError):
        return TransportFault(str(cause), sent=False, retryable=False, blocked=True)
    if isinstance(cause, TimeoutError):
        return TransportFault(str(cause) or "timed out", timed_out=True)
    detail = getattr(cause, "strerror", None) or str(cause)
    return TransportFault(f"{type(cause).__name__}: {clean_line(detail, 300)}" if detail else type(cause).__name__)


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        # Cancellations in a group are what the first failure did to its neighbours.
        error = next((e for e in error.exceptions if isinstance(e, Exception)), error.exceptions[0])
    return error


class ErrorTexts:
    """Makes the errors of one server."""

    def __init__(self, server: str, redactor: Redacts) -> None:
        self._server = server
        self._redactor = redactor

    def of_fault(self, fault: TransportFault) -> str:
        """One line for a status or a log."""
        return self._line(fault.message)

    def connect(self, fault: TransportFault) -> MCPToolsError:
        """No session could be opened."""
        text = self._line(fault.message)
        if fault.blocked:
            return BlockedURLError(text, server=self._server)
        return ConnectError(text, server=self._server, retryable=fault.retryable, retry_after=fault.retry_after)

    def refused_by_breaker(self, error: CircuitOpenError, last_error: str | None) -> CircuitOpenError:
        """Nothing is tried for a while; `last_error` is why."""
        why = f"; last error: {last_error}" if last_error else ""
        text = clean_line(self._redactor.redact(f"{error}{why}"), _MAX_TEXT)
        return CircuitOpenError(text, server=self._server, retry_after=error.retry_after)

    def lost(self, fault: TransportFault, what: str) -> MCPToolsError:
        """The session ended, or did not take the request."""
        if fault.blocked:
            return BlockedURLError(self._line(fault.message), server=self._server)
        outcome = _ASK_FIRST if fault.sent else "it did not run"
        text = self._line(f"connection lost during {what}: {fault.message}; {outcome}")
        return ConnectionLostError(text, server=self._server, sent=fault.sent)

    def refused(self, fault: TransportFault, what: str) -> ProtocolError:
        """The HTTP server answered with a status in place of an answer."""
        wait = f"; try again in {fault.retry_after:.0f} s" if fault.retry_after else ""
        outcome = f"; {_ASK_FIRST}" if fault.sent else ""
        text = self._line(f"{what} failed: {fault.message}{wait}{outcome}")
        data = {"http_status": fault.http_status, "retry_after": fault.retry_after}
        return ProtocolError(text, server=self._server, data=data, ran=fault.sent)

    def expired(self, what: str, timeout: float, stray: int) -> CallTimeoutError:
        """No answer in time."""
        hint = f" ({stray} answers came that fit no request)" if stray else ""
        text = self._line(f"no answer to {what} within {timeout:g} s{hint}; {_ASK_FIRST}")
        return CallTimeoutError(text, server=self._server, timeout=timeout)

    def answered(self, error: JSON, what: str) -> ProtocolError:
        """The server answered with a JSON-RPC error, in whatever form."""
        facts: dict[str, Any] = error if isinstance(error, dict) else {"message": error}
        code, message = facts.get("code"), facts.get("message")
        known_code = code if type(code) is int else None
        said = message if isinstance(message, str) and message.strip() else "no reason given"
        shown = f" ({known_code})" if known_code is not None else ""
        text = self._text(f"{self._server}: {what} failed{shown}: {said}")
        return ProtocolError(
            text, server=self._server, code=known_code, data=redact_json(facts.get("data"), self._redactor.redact)
        )

    def garbled(self, reason: str, what: str) -> ProtocolError:
        """An answer came and cannot be read."""
        text = self._line(f"the server sent an invalid result for {what} (the call has run): {reason}")
        return ProtocolError(text, server=self._server, ran=True)

    def unsendable(self, error: Exception, what: str) -> ProtocolError:
        """Our own request cannot be written as JSON."""
        reason = "a lone surrogate" if isinstance(error, UnicodeError) else clean_line(str(error), 200)
        text = self._line(f"{what} was not sent: the arguments cannot be written as JSON ({reason})")
        return ProtocolError(text, server=self._server, code=INVALID_PARAMS)

    def vanished(self, tool: str) -> ProtocolError:
        """The server has stopped offering a tool."""
        text = self._line(f"tool {tool!r} is no longer offered by this server; it was not called")
        return ProtocolError(text, server=self._server, code=INVALID_PARAMS)

    def closed(self) -> ConnectError:
        """The client was closed by its user."""
        return ConnectError(self._line("the client is closed"), server=self._server, retryable=False)

    def _line(self, text: str) -> str:
        return clean_line(self._redactor.redact(f"{self._server}: {text}"), _MAX_TEXT)

    def _text(self, text: str) -> str:
        kept = clean(self._redactor.redact(text[: 4 * _MAX_TEXT])).text.strip()
        return kept if len(kept) <= _MAX_TEXT else kept[: _MAX_TEXT - 1] + "…"
