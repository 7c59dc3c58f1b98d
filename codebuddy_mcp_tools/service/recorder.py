"""The audit log's way to its file: one thread writes, in order, so that no loop waits for a disk."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from codebuddy_mcp_tools.policy import AuditLog


class Recorder:
    """Takes audit records and has them written behind.

    Args:
        log: where they go; one without a path takes nothing.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._writer: ThreadPoolExecutor | None = None
        self._owner = 0

    def write(self, event: str, **fields: Any) -> None:
        """Record one event. Never raises and never waits."""
        if self._log.path is not None:
            self._thread().submit(self._log.write, event, **fields)

    def flushed(self) -> Future[None]:
        """Resolved when everything recorded so far is in the file."""
        if self._writer is None or self._owner != os.getpid():
            done: Future[None] = Future()
            done.set_result(None)
            return done
        return self._writer.submit(lambda: None)

    def _thread(self) -> ThreadPoolExecutor:
        if self._writer is None or self._owner != os.getpid():  # a forked child has no threads of its parent
            self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="codebuddy-mcp-audit")
            self._owner = os.getpid()
        return self._writer
