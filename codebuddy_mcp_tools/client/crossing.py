"""One piece of work on its way from a caller to the owner loop, and its result on the way back.

Policy: one wake-up there, one back; written by hand because `run_coroutine_threadsafe` with `wrap_future` costs twice
as much. The caller's context variables go along, and giving up at one end stops the work at the other.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def apart(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """A task of the running loop in an empty context.

    For what outlives the call that happened to start it (sessions, connections): a task keeps its context, and in a
    graph that holds the whole run, so that neither the graph nor its provider would ever be collected.
    """
    return asyncio.get_running_loop().create_task(work, name=name, context=contextvars.Context())


class _Crossing(ABC, Generic[T]):
    """One piece of work on its way to the owner loop and back. Fields are set on the owner loop only."""

    def __init__(self, owner: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> None:
        self._owner = owner
        self._coro = coro
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[T] | None = None
        self._abandoned = False

    def _send(self) -> None:
        try:
            self._owner.call_soon_threadsafe(self._begin)
        except RuntimeError:
            self._coro.close()
            raise

    def _begin(self) -> None:
        if self._abandoned:
            self._coro.close()
            return
        self._task = self._owner.create_task(self._coro, context=self._context)
        self._task.add_done_callback(self._return)

    @abstractmethod
    def _return(self, task: asyncio.Task[T]) -> None:
        """Take the result back to the caller; runs on the owner loop."""

    def _abandon(self) -> None:
        self._abandoned = True
        if self._task is not None:
            self._task.cancel()


class AsyncCrossing(_Crossing[T]):
    def __init__(self, owner: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> None:
        super().__init__(owner, coro)
        self._caller = asyncio.get_running_loop()
        self._future: asyncio.Future[T] = self._caller.create_future()

    async def wait(self) -> T:
        self._send()
        try:
            return await self._future
        except asyncio.CancelledError:
            # The owner loop may be closed by now: then its tasks were cancelled with it.
            call_if_open(self._owner, self._abandon)
            raise

    def _return(self, task: asyncio.Task[T]) -> None:
        if not call_if_open(self._caller, self._deliver) and not task.cancelled():
            task.exception()  # nobody is left to hear of it; asyncio should not complain

    def _deliver(self) -> None:
        task, future = self._task, self._future
        if task is None or future.done():
            if task is not None and not task.cancelled():
                task.exception()
        elif task.cancelled():
            future.cancel()
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())


class SyncCrossing(_Crossing[T]):
    def __init__(self, owner: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T]) -> None:
        super().__init__(owner, coro)
        self._done = threading.Event()

    def wait(self, timeout: float | None) -> T:
        self._send()
        in_time = False
        try:
            in_time = self._done.wait(timeout)
        finally:  # a KeyboardInterrupt must stop the work as well
            if not in_time:
                call_if_open(self._owner, self._abandon)
        if self._task is None or not in_time:
            raise TimeoutError(f"no result within {timeout} s")
        return self._task.result()

    def _return(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()
        self._done.set()


def call_if_open(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True
