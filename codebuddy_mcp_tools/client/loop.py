"""One background thread with one event loop, on which all sessions live.

Policy: a session belongs to the loop that opened it, and callers come and go: several `asyncio.run`, threads, notebook
cells, synchronous `invoke`. So sessions live on a loop of our own, and each call crosses over once (`crossing.py`).
Cancelling the caller cancels the work; the work's context variables are the caller's.

A forked child has no copy of the thread. It gets a fresh loop on first use, and what the parent's loop owned is left
alone in it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from codebuddy_mcp_tools.client.crossing import AsyncCrossing, SyncCrossing

T = TypeVar("T")
logger = logging.getLogger(__name__)

_EXIT_PATIENCE = 10.0
"""Seconds that closing everything at interpreter exit may take."""

Closer = Callable[[], Awaitable[None]]


class OwnerLoop:
    """An event loop in a daemon thread that starts with the first use.

    Use `OwnerLoop.shared()`; a loop of one's own is for tests.
    """

    def __init__(self, name: str = "codebuddy-mcp") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._background: set[asyncio.Task[Any]] = set()
        self._closers: set[Closer] = set()
        self.epoch = object()
        """Another object after a fork: what was opened under the old one belongs to the parent process."""
        _loops.add(self)

    @staticmethod
    def shared() -> OwnerLoop:
        """The loop of this process."""
        return _registry.current()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def running(self) -> bool:
        """Whether the thread has been started in this process, and not closed since."""
        return self._loop is not None and not self._closed

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the owner's."""
        return self._thread is not None and threading.get_ident() == self._thread.ident

    async def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the owner loop, from any loop; on the owner loop itself it is simply awaited.

        Cancelling the caller cancels the coroutine.

        Raises:
            RuntimeError: the loop was closed.
            Whatever the coroutine raises.
        """
        if self.is_current:
            return await coro
        return await AsyncCrossing(self._started(coro), coro).wait()

    def run_sync(self, coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a coroutine on the owner loop from synchronous code, also inside somebody else's running loop.

        Args:
            timeout: seconds; the coroutine is cancelled when they have passed.

        Raises:
            TimeoutError: `timeout` has passed.
            RuntimeError: called on the owner thread itself, which would wait for ever; or the loop was closed.
            Whatever the coroutine raises.
        """
        if self.is_current:
            coro.close()
            raise RuntimeError("synchronous calls are not possible from a callback on the MCP thread; await instead")
        return SyncCrossing(self._started(coro), coro).wait(timeout)

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Start a coroutine on the owner loop and do not wait for it; what it raises is logged."""
        loop = self._started(coro)
        context = contextvars.copy_context()
        if self.is_current:
            self._keep(loop.create_task(coro, context=context))
        else:
            loop.call_soon_threadsafe(lambda: self._keep(loop.create_task(coro, context=context)))

    def add_closer(self, closer: Closer) -> None:
        """Await `closer` when the interpreter ends or the loop is closed."""
        self._closers.add(closer)

    def discard_closer(self, closer: Closer) -> None:
        """Undo `add_closer`."""
        self._closers.discard(closer)

    def close(self, timeout: float = _EXIT_PATIENCE) -> None:
        """Close what lives on the loop, then the loop and its thread, in about `timeout` seconds. Twice is allowed."""
        with self._lock:
            already, self._closed = self._closed, True
            loop, thread = self._loop, self._thread
        if already or loop is None or thread is None or self.is_current:
            return
        try:
            SyncCrossing(loop, self._wind_down()).wait(timeout)
        except TimeoutError:
            logger.warning("MCP sessions did not close within %g s", timeout)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)

    async def _wind_down(self) -> None:
        closing = [asyncio.ensure_future(closer()) for closer in tuple(self._closers)]
        await asyncio.gather(*closing, return_exceptions=True)
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def renew(self) -> None:
        """Start over in a forked child, leaving alone what the parent's thread owned."""
        _left_by_parent.append((self._loop, self._thread, self._background, self._closers))
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._background, self._closers = set(), set()
        self.epoch = object()

    def _started(self, coro: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self.running and self._loop is not None:
            return self._loop
        with self._lock:
            if self._closed:
                coro.close()
                raise RuntimeError("the MCP event loop is closed")
            if self._loop is None:
                self._loop = contextvars.Context().run(_new_event_loop)
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background work failed: %s", error, exc_info=error)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    # Not what a policy of the host's makes: pipes and process ids are watched by the standard loops only.
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    return asyncio.SelectorEventLoop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class _Registry:
    """The shared loop of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.shared: OwnerLoop | None = None

    def current(self) -> OwnerLoop:
        with self.lock:
            if self.shared is None or self.shared.closed:
                self.shared = OwnerLoop()
            return self.shared

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()


_registry = _Registry()
_loops: weakref.WeakSet[OwnerLoop] = weakref.WeakSet()
_left_by_parent: list[object] = []
"""In a forked child: kept alive, because finalizers of the parent's transports must not run here."""


def _after_fork_in_child() -> None:
    _registry.lock = threading.Lock()
    for loop in tuple(_loops):
        loop.renew()


atexit.register(_registry.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
