"""What HTTP can do wrong, as one `TransportFault` each: the only place that knows httpx's exceptions and status codes.

The texts are for people: what happened and, where it is known, what to do. Of a URL they hold only scheme, host and
path, and of a server's own words only a short, cleaned piece.
"""

from __future__ import annotations

import json
import math
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx

from codebuddy_mcp_tools.client.transport import TransportFault
from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.secrets import display_url
from codebuddy_mcp_tools.policy.text import clean_line

_LONGEST_WAIT = 86_400.0
_WORDS = 160
_LOST_SESSION = re.compile(
    r"no valid session|invalid session|unknown session|session(?: id)? (?:was )?(?:not found|expired|terminated|closed)"
    r"|server not initialized|mcp-session-id",
    re.IGNORECASE,
)
"""How servers of the official SDKs word a 400 for a session that a restart has made them forget."""

_HINTS = {
    401: "the server wants other credentials",
    403: "these credentials are not allowed to",
    404: "there is no MCP endpoint at this URL",
    405: "this URL does not take MCP messages; an older server may need type sse",
    406: "this URL does not answer MCP messages",
}


def fault_of_error(error: Exception, url: httpx.URL | str) -> TransportFault:
    """The fault for an exception that sending a request, or reading its answer, has raised."""
    where = display_url(str(_requested(error) or url))
    match error:
        case BlockedURLError():
            return TransportFault(str(error), sent=False, connect=True, retryable=False, blocked=True)
        case httpx.ConnectTimeout():
            text = f"{where} did not accept a connection in time"
            return TransportFault(text, sent=False, connect=True, timed_out=True)
        case httpx.PoolTimeout():
            return TransportFault(f"all connections to {where} are busy", sent=False)
        case httpx.ConnectError() | httpx.ProxyError():
            reason, retryable = _connect_reason(error)
            return TransportFault(f"cannot connect to {where}: {reason}", sent=False, connect=True, retryable=retryable)
        case httpx.InvalidURL():  # our own URL has been checked, so it is the server's
            return TransportFault("redirect not followed: its target is not a URL", retryable=False)
        case httpx.LocalProtocolError() | UnicodeError():
            # The text of these would quote the header.
            text = "the request cannot be written as HTTP; check url and headers"
            return TransportFault(text, sent=False, retryable=False)
        case httpx.WriteTimeout():
            return TransportFault(f"{where} does not read what it is sent", timed_out=True)
        case httpx.RemoteProtocolError():
            return TransportFault(f"{where} does not speak HTTP, or broke off its answer")
        case httpx.DecodingError():
            return TransportFault(str(error))
        case _:
            return TransportFault(f"the connection to {where} was lost before the answer")


def _requested(error: Exception) -> httpx.URL | None:
    """The URL that failed, which is another one than ours while a login is refreshed."""
    try:
        return error.request.url if isinstance(error, httpx.RequestError) else None
    except RuntimeError:  # httpx: no request is set
        return None


def _connect_reason(error: Exception) -> tuple[str, bool]:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted ({clean_line(cause.verify_message, _WORDS)})", False
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS as expected", False
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            return os.strerror(cause.errno).lower(), True
    return clean_line(str(error), _WORDS) or type(error).__name__, True


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and everything behind it, exception groups unwrapped; specific ones last."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < 20:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        waiting.extend(cause for cause in (current.__cause__, current.__context__) if cause is not None)


def fault_of_status(
    status: int, headers: httpx.Headers, body: bytes, *, url: httpx.URL | str, in_session: bool, hint: str | None = None
) -> TransportFault:
    """The fault for an answer with an error status.

    Args:
        body: the start of the body; only a JSON-RPC error message in it is shown.
        in_session: whether the request carried a session id.
        hint: replaces what is usually said about the status.
    """
    words = _server_words(body)
    if in_session and (status == 404 or (status == 400 and _LOST_SESSION.search(words))):
        return TransportFault("the server has forgotten the session", sent=False, http_status=status, session_lost=True)
    text = f"HTTP {status}{_phrase(status)}"
    if explanation := hint or _HINTS.get(status):
        text += f": {explanation}"
    if status in (404, 405):
        text += f" ({display_url(str(url))})"
    if words:
        text += f' (the server says "{words}")'
    return TransportFault(
        text,
        # A refusal comes before the work; only an answer of 5xx, or one that may come from a proxy, leaves it open.
        sent=status not in (401, 403, 404, 405, 406, 413, 415, 429),
        http_status=status,
        retry_after=retry_after(headers),
        retryable=status in (408, 409, 425, 429) or status >= 500,
    )


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _server_words(body: bytes) -> str:
    """The message of a JSON-RPC error in an error page, if it is one."""
    error = error_of(parse_object(body))
    message = error.get("message") if error else None
    return clean_line(message, _WORDS).replace('"', "'") if isinstance(message, str) else ""


def parse_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in `body`, or `None`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def error_of(message: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The `error` object of a JSON-RPC error answer, or `None`."""
    error = message.get("error") if message else None
    return error if isinstance(error, dict) else None


def retry_after(headers: httpx.Headers, now: datetime | None = None) -> float | None:
    """`Retry-After` (RFC 9110, 10.2.3) in seconds: a number or a date; at most a day, `None` when not readable."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None
