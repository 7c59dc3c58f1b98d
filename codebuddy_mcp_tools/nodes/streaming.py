"""What a watcher of a run sees while a turn goes on.

In `stream_mode="custom"`:

    {"type": "mcp_batch_started" | "mcp_batch_finished", "calls": [{"id", "name"}, …]}
    {"type": "mcp_unverified_writes", "writes": […]}       when the run ends with them

and from the tools themselves `mcp_progress` and `mcp_log` (see `tools/progress.py`), which also become output deltas
of the tool's run. Single calls are told in `stream_mode="tools"`, by LangGraph itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.prebuilt.tool_node import ToolCallRequest

from codebuddy_mcp_tools.nodes.callgate import Announce
from codebuddy_mcp_tools.nodes.schedule import Planned
from codebuddy_mcp_tools.tools.progress import progress_sink

Writer = Callable[[Any], None]


def announcer(write: Writer) -> Announce:
    """Announces batches to a stream writer."""

    def announce(kind: str, calls: Sequence[Planned]) -> None:
        write({"type": kind, "calls": [{"id": p.call["id"], "name": p.call["name"]} for p in calls]})

    return announce


def emit(event: Mapping[str, Any]) -> None:
    """Write one event to the custom stream; outside a graph nothing happens."""
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):  # not inside a node: the node is used as a plain runnable
        return
    writer(dict(event))


@contextmanager
def output_deltas(request: ToolCallRequest) -> Iterator[None]:
    """Pass what a server says during one call on as output deltas of its tool run, where the runtime offers them."""
    emit_delta = getattr(request.runtime, "emit_output_delta", None)
    if emit_delta is None:
        yield
        return
    token = progress_sink.set(emit_delta)
    try:
        yield
    finally:
        progress_sink.reset(token)
