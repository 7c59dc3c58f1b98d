"""Marks of writes, so that a run that goes on after a crash or a cancellation does not make one of them again.

LangGraph runs the step anew that was under way then. Policy: a write that may have run is not sent; the model is told
so. A call leaves a mark while it is under way, known by its thread, id, tool and arguments. Once it is answered, the
mark is the task's (LangGraph's task id, which comes from the checkpoint before it): the answer may still be lost with
the step. It goes when another task of the thread makes a call, for then the step was kept. Only runs of a thread can
go on, so only they leave marks: empty files with a hash for a name.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codebuddy_mcp_tools.policy import may_replay
from codebuddy_mcp_tools.tools.replies import Call, is_control_flow
from codebuddy_mcp_tools.types import Effect

logger = logging.getLogger(__name__)
FOLDER = "in-flight"
KEPT_SECONDS = 7 * 86_400
"""How long a mark that nobody came back for is kept."""
MAX_THREADS = 1_000


class Before(StrEnum):
    """How far a call had come that would now be made again."""

    UNDER_WAY = "was under way when this run was interrupted"
    ANSWERED = "had been answered when this run was interrupted, and the answer was lost"


@dataclass(frozen=True, slots=True)
class _Marks:
    """The two marks of one call, as file names, and what the second belongs to."""

    under_way: str
    answered: str
    thread: str
    task: str


class InFlight:
    """The marks below one folder. Where there is none to write to, they are kept in memory, and the log says so.

    Args:
        state_dir: what this package keeps; the folder is made in it when it is first needed.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._is_ready = False
        self._lock = threading.Lock()
        self._in_memory: set[str] = set()
        self._answered: OrderedDict[str, dict[str, str]] = OrderedDict()
        """Thread to the marks of its answered calls, each with its task."""

    @asynccontextmanager
    async def during(self, call: Call) -> AsyncIterator[Before | None]:
        """Mark a call while it is under way, and as answered after it. A block that is cancelled leaves the first mark.

        Yields:
            `None` for a call that may be sent.
        """
        marks = _marks_of(call)
        if marks is None:
            yield None
            return
        before = await asyncio.to_thread(self._begin, marks)
        try:
            yield before
        except Exception as error:
            if before is None:
                await asyncio.to_thread(self._end, marks, keep=not is_control_flow(error))
            raise
        if before is None:
            await asyncio.to_thread(self._end, marks, keep=True)

    def _begin(self, marks: _Marks) -> Before | None:
        with self._lock:
            self._prepare()
            self._forget_older(marks)
            if self._is_set(marks.answered):
                return Before.ANSWERED
            if self._set(marks.under_way):
                return None
            self._move(marks)  # from now on it concerns this task only: the model may be told to try again
            return Before.UNDER_WAY

    def _end(self, marks: _Marks, *, keep: bool) -> None:
        with self._lock:
            if keep:
                self._move(marks)
            else:
                self._remove(marks.under_way)

    def _move(self, marks: _Marks) -> None:
        self._set(marks.answered)
        self._remove(marks.under_way)
        self._answered.setdefault(marks.thread, {})[marks.answered] = marks.task
        self._answered.move_to_end(marks.thread)
        while len(self._answered) > MAX_THREADS:
            self._answered.popitem(last=False)

    def _forget_older(self, marks: _Marks) -> None:
        kept = self._answered.get(marks.thread, {})
        for name in [name for name, task in kept.items() if task != marks.task]:
            self._remove(name)
            del kept[name]

    # -- files ---------------------------------------------------------------------------------------------------

    def _is_set(self, name: str) -> bool:
        return name in self._in_memory or (self._folder / name).exists()

    def _set(self, name: str) -> bool:
        """Returns whether it was not set before."""
        if name in self._in_memory:
            return False
        if self._is_ready:
            try:
                (self._folder / name).touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                return False
            except OSError as error:
                self._tell(error)
            else:
                return True
        self._in_memory.add(name)
        return True

    def _remove(self, name: str) -> None:
        self._in_memory.discard(name)
        if not self._is_ready:
            return
        try:
            (self._folder / name).unlink(missing_ok=True)
        except OSError as error:
            self._tell(error)

    def _prepare(self) -> None:
        if self._is_ready:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            oldest = time.time() - KEPT_SECONDS
            for mark in self._folder.iterdir():
                if mark.stat(follow_symlinks=False).st_mtime < oldest:
                    mark.unlink(missing_ok=True)
            self._is_ready = True
        except OSError as error:
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        logger.warning("%s: %s; a run that goes on after a crash may repeat a write", self._folder, reason)


def _marks_of(call: Call) -> _Marks | None:
    if call.effect is not Effect.WRITE or may_replay(call.info):
        return None
    thread, task, call_id = call.configured("thread_id"), call.configured("checkpoint_ns"), call.call_id
    if not (thread and task and call_id):
        return None
    arguments = json.dumps(call.arguments, sort_keys=True, default=str)
    return _Marks(
        under_way=_name(thread, call_id, call.info.server, call.info.name, arguments),
        answered=_name(thread, task, call_id),
        thread=str(thread),
        task=str(task),
    )


def _name(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:40]
