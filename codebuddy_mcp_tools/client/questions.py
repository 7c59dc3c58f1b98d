"""What a handler is given of a server's question: named, cleaned, and without a URL that a person must not open.

The specification (2025-11-25, elicitation) wants the person to see who asks; a server's words may hold what no terminal
should print, and a URL may be one that a browser runs.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from codebuddy_mcp_tools.policy.text import clean
from codebuddy_mcp_tools.types import JSONObject

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class QuestionRefusedError(Exception):
    """The question is not passed on; the text is the reason that the server is given."""


def question(server: str, method: str, params: JSONObject) -> dict[str, Any]:
    """The parameters of a request as its handler gets them: plus `server`, and for elicitation `schema`.

    Raises:
        QuestionRefusedError: it wants a person to open a URL that is neither https nor on this machine.
    """
    asked: dict[str, Any] = {**params, "server": server}
    if method != "elicitation/create":
        return asked
    message = params.get("message")
    asked["message"] = clean(message).text if isinstance(message, str) else ""
    if params.get("mode") == "url":
        _check_url(params.get("url"))
    else:
        schema = params.get("requestedSchema")
        asked["schema"] = schema if isinstance(schema, dict) else {}
    return asked


def _check_url(url: object) -> None:
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isprintable() and " " not in url else None
    except ValueError:
        parts = None
    host = parts.hostname if parts else None
    if parts is None or not host:
        raise QuestionRefusedError("the URL is not usable")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise QuestionRefusedError("only https URLs are shown to the user")
