"""What a watcher of a run sees while a turn goes on.

In `stream_mode="custom"`: `{"type": "mcp_batch_started" | "mcp_batch_finished", "calls": [{"id", "name"}, …]}`, and
from the tools themselves `mcp_progress` (see `tools/progress.py`). Progress also becomes output deltas of the
tool's run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.messages import ToolCall
from langgraph.config import get_stream_writer
from langgraph.prebuilt.tool_node import ToolCallRequest

from codebuddy_mcp_tools.tools.progress import progress_sink


def announce(kind: str, calls: Sequence[ToolCall], **more: Any) -> None:
    """Write one event to the custom stream; outside a graph nothing happens."""
    emit({"type": kind, "calls": [{"id": call["id"], "name": call["name"]} for call in calls], **more})


def emit(event: Mapping[str, Any]) -> None:
    """Write one event to the custom stream; outside a graph nothing happens."""
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):  # not inside a node: the node is used as a plain runnable
        return
    writer(dict(event))


@contextmanager
def output_deltas(request: ToolCallRequest) -> Iterator[None]:
    """Pass the progress of one call on as output deltas of its tool run, where the runtime offers them."""
    emit_delta = getattr(request.runtime, "emit_output_delta", None)
    if emit_delta is None:
        yield
        return
    token = progress_sink.set(emit_delta)
    try:
        yield
    finally:
        progress_sink.reset(token)
