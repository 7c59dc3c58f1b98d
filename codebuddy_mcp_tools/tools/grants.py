"""What a graph's node tells the tools it runs: which calls a person has approved.

A context variable, because a tool's arguments belong to its server and a run's `configurable` is visible to
everybody. It holds tool call ids of the turn that is running; nothing outlives the `with` block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

granted_calls: ContextVar[frozenset[str]] = ContextVar("codebuddy_mcp_granted_calls", default=frozenset())
"""Ids of the tool calls that a person has approved and that may run although a rule says `ask`."""


@contextmanager
def grant(call_ids: Iterable[str]) -> Iterator[None]:
    """Let these calls through an `ask` while the block runs. A `deny` is never lifted."""
    token = granted_calls.set(granted_calls.get() | frozenset(call_ids))
    try:
        yield
    finally:
        granted_calls.reset(token)
