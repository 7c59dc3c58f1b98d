"""Log messages of a server while a call to it runs, on their way to whoever watches the run.

A log notification names no call. It is shown with every call that its server is working on, as one plain event,
`{"type": "mcp_log", "server", "tool", "tool_call_id", "level", "logger", "message"}`, in the same places as progress.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from codebuddy_mcp_tools.client import ClientEvent
from codebuddy_mcp_tools.policy import clean_line
from codebuddy_mcp_tools.service import MCPService
from codebuddy_mcp_tools.tools.progress import ProgressEvent, sinks_of_run

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.replies import Call

MAX_LOG_CHARS = 2_000
_MAX_NAME = 100


@contextmanager
def logs_during(call: Call, service: MCPService) -> Iterator[None]:
    """Pass on what the call's server logs while the block runs. Without a listener nothing is done."""
    sinks = sinks_of_run()
    if not sinks:
        yield
        return
    loop, context = asyncio.get_running_loop(), copy_context()  # LangGraph's writer looks up the run in the context

    def deliver(event: ProgressEvent) -> None:
        for sink in sinks:
            sink(event)

    def hear(event: ClientEvent) -> None:
        if event.kind == "log" and event.server == call.info.server and not loop.is_closed():
            loop.call_soon_threadsafe(deliver, _told(call, event.data, service.redactor.redact), context=context)

    end = service.subscribe(hear)
    try:
        yield
    finally:
        end()


def _told(call: Call, data: Any, redact: Callable[[str], str]) -> ProgressEvent:
    facts = data if isinstance(data, Mapping) else {}
    name = facts.get("logger")
    return {
        "type": "mcp_log",
        "server": call.info.server,
        "tool": call.info.name,
        "tool_call_id": call.call_id,
        "level": clean_line(str(facts.get("level", "info")), _MAX_NAME),
        "logger": None if name is None else clean_line(redact(str(name)), _MAX_NAME),
        "message": _text(facts.get("data"), redact),
    }


def _text(value: Any, redact: Callable[[str], str]) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(redact(text), MAX_LOG_CHARS)
