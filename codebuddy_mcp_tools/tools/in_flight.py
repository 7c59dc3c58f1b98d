"""Marks of writes that are under way, so that a run that goes on after a crash does not make one of them again.

LangGraph runs the step anew that was under way when a process died or a run was cancelled. A step is the same one when
its task id (in `checkpoint_ns`) is: that id comes from the checkpoint before it. Policy: a write whose mark is still
there, under the same task and call id, may have run; it is not sent, and the model is told so. Only runs of a thread
can go on, so only they leave marks: empty files with a hash for a name. Without a folder to write to there are none.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from codebuddy_mcp_tools.policy import may_replay
from codebuddy_mcp_tools.tools.replies import Call
from codebuddy_mcp_tools.types import Effect

logger = logging.getLogger(__name__)
FOLDER = "in-flight"
KEPT_SECONDS = 30 * 86_400
"""How long a mark of an interrupted call is kept."""


class InFlight:
    """The marks below one folder.

    Args:
        state_dir: what this package keeps; the folder is made in it when it is first needed.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER
        self._is_ready = False

    @asynccontextmanager
    async def during(self, call: Call) -> AsyncIterator[bool]:
        """Mark a call while it is under way. The mark stays when the block is cancelled, and when the process dies.

        Yields:
            Whether the call may be sent: `False` when it was interrupted under the same task before.
        """
        mark = self._mark_of(call)
        if mark is None:
            yield True
            return
        if not await asyncio.to_thread(self._set, mark):
            yield False
            return
        try:
            yield True
        except Exception:
            await asyncio.to_thread(self._clear, mark)
            raise
        await asyncio.to_thread(self._clear, mark)

    def _mark_of(self, call: Call) -> Path | None:
        if call.effect is not Effect.WRITE or may_replay(call.info):
            return None
        step = (call.configured("thread_id"), call.configured("checkpoint_ns"), call.call_id)
        if not all(step):
            return None
        return self._folder / hashlib.sha256("\0".join(map(str, step)).encode()).hexdigest()[:40]

    def _set(self, mark: Path) -> bool:
        try:
            self._prepare()
        except OSError as error:
            self._tell(error)
            return True
        try:
            mark.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            return False
        except OSError as error:
            self._tell(error)
        return True

    def _tell(self, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        logger.warning("%s: %s; a run that goes on after a crash may repeat a write", self._folder, reason)

    def _prepare(self) -> None:
        if self._is_ready:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_ready = True
        oldest = time.time() - KEPT_SECONDS
        for mark in self._folder.iterdir():
            if mark.stat(follow_symlinks=False).st_mtime < oldest:
                mark.unlink(missing_ok=True)

    def _clear(self, mark: Path) -> None:
        try:
            mark.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s: %s; remove it by hand", mark, error.strerror or type(error).__name__)
