"""A server asks the user for something while a call runs.

Policy: nothing is offered without a handler. The handler is told which server asks; the server's words are cleaned, and
given in an envelope as well, for a handler that puts them before a model. A URL is shown and never opened here. An
answer that is none is a refusal.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from codebuddy_mcp_tools.policy import clean, envelope
from codebuddy_mcp_tools.service import consult

logger = logging.getLogger(__name__)

ElicitationHandler = Callable[[Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Gets `server`, `mode` (`form` or `url`), `message` (cleaned), `enveloped` (the same for a model), `schema` and `url`;
answers `{"action": "accept", "content": {...}}`, `{"action": "decline"}` or `{"action": "cancel"}`."""
ACTIONS = ("accept", "decline", "cancel")


def elicitation_answers(
    handler: ElicitationHandler | None,
) -> Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]] | None:
    """The handler as the client room calls it; `None` stays `None`, so that nothing is announced to servers."""
    if handler is None:
        return None

    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            given = await consult(handler, _request(params))
        except Exception as error:
            logger.warning("the elicitation handler failed for server %r", params.get("server"), exc_info=error)
            return {"action": "cancel"}
        return _answer(given, str(params.get("server")))

    return answer


def _request(params: Mapping[str, Any]) -> dict[str, Any]:
    server, message = str(params.get("server", "")), str(params.get("message", ""))
    return {
        "server": server,
        "mode": str(params.get("mode", "form")),
        "message": clean(message).text,
        "enveloped": envelope(server, "elicitation", message),
        "schema": params.get("requestedSchema"),
        "url": params.get("url"),
    }


def _answer(given: Any, server: str) -> dict[str, Any]:
    if not isinstance(given, Mapping) or given.get("action") not in ACTIONS:
        logger.warning("server %r: the elicitation handler gave no answer; taken as a refusal", server)
        return {"action": "decline"}
    if given["action"] != "accept" or given.get("content") is None:
        return {"action": given["action"]}
    return {"action": "accept", "content": dict(given["content"])}
