"""Progress of a running call, on its way from the owner loop to whoever watches the run.

A server's progress notification becomes one plain event, `{"type": "mcp_progress", "server", "tool", "tool_call_id",
"progress", "total", "message"}`. In a LangGraph run it goes to `stream_mode="custom"`, to the tool's output deltas
where a node has set `progress_sink`, and to the provider's `callbacks.on_progress`. It is delivered on the caller's
loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from codebuddy_mcp_tools.policy import clean_line

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.replies import Call

Progress = Callable[[float, float | None, str | None], None]
ProgressEvent = dict[str, Any]

progress_sink: ContextVar[Callable[[ProgressEvent], None] | None] = ContextVar("codebuddy_mcp_progress", default=None)
"""Where a node wants the progress of the calls it runs; besides the custom stream."""


def progress_of(
    call: Call, on_progress: Callable[..., Awaitable[None]] | None, redact: Callable[[str], str]
) -> Progress | None:
    """What to call with `(progress, total, message)` while the call runs; `None` when nobody listens.

    Without a listener no progress token is sent, and the server need not report.

    Args:
        redact: takes secrets out of what the server says.
    """
    sinks = sinks_of_run()
    if not sinks and on_progress is None:
        return None
    loop, context = asyncio.get_running_loop(), copy_context()  # LangGraph's writer looks up the run in the context
    server, tool = call.info.server, call.info.name

    def deliver(event: ProgressEvent) -> None:
        for sink in sinks:
            sink(event)
        if on_progress is not None:
            loop.create_task(_awaited(on_progress(event["progress"], event["total"], event["message"], server, tool)))

    def report(progress: float, total: float | None, message: str | None) -> None:
        event = {
            "type": "mcp_progress",
            "server": server,
            "tool": tool,
            "tool_call_id": call.call_id,
            "progress": progress,
            "total": total,
            "message": clean_line(redact(message), 500) if message else None,
        }
        if not loop.is_closed():  # the caller may have gone while the server still reports
            loop.call_soon_threadsafe(deliver, event, context=context)

    return report


def sinks_of_run() -> list[Callable[[ProgressEvent], None]]:
    """Where events of the call that is running go: the run's custom stream, and the node's sink."""
    return [sink for sink in (_stream_writer(), progress_sink.get()) if sink is not None]


async def _awaited(outcome: Awaitable[None]) -> None:
    await outcome


def _stream_writer() -> Callable[[ProgressEvent], None] | None:
    """LangGraph's stream writer of the running node; `None` outside a graph."""
    if "langgraph.config" not in sys.modules:  # nobody can be inside a graph then
        return None
    from langgraph.config import get_stream_writer  # noqa: PLC0415

    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):  # not inside a node
        return None
