"""The owner loop: who may call, what travels across, and what a fork leaves behind."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

from codebuddy_mcp_tools.client import OwnerLoop

LABEL: contextvars.ContextVar[str] = contextvars.ContextVar("label", default="none")


@pytest.fixture
def owner() -> Iterator[OwnerLoop]:
    loop = OwnerLoop("test-owner")
    yield loop
    loop.close()


async def thread_name() -> str:
    return threading.current_thread().name


async def test_work_runs_on_the_owner_thread(owner: OwnerLoop) -> None:
    assert await owner.run(thread_name()) == "test-owner"


async def test_work_that_is_there_already_is_simply_awaited(owner: OwnerLoop) -> None:
    async def twice() -> tuple[bool, bool]:
        outer = asyncio.current_task()

        async def inner() -> bool:
            return asyncio.current_task() is outer

        return owner.is_current, await owner.run(inner())

    assert await owner.run(twice()) == (True, True)


def test_several_event_loops_one_after_another_share_it(owner: OwnerLoop) -> None:
    async def where() -> int:
        async def ident() -> int:
            return threading.get_ident()

        return await owner.run(ident())

    assert asyncio.run(where()) == asyncio.run(where())


def test_threads_call_at_the_same_time(owner: OwnerLoop) -> None:
    both = asyncio.Event()
    arrived = []

    async def meet(name: str) -> str:
        arrived.append(name)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return name

    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(owner.run_sync(meet(n)))) for n in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == ["a", "b"]


async def test_synchronous_code_inside_a_running_loop_may_wait(owner: OwnerLoop) -> None:
    assert owner.run_sync(thread_name()) == "test-owner"


async def test_waiting_synchronously_on_the_owner_thread_is_an_error_and_not_a_deadlock(owner: OwnerLoop) -> None:
    async def wait_for_itself() -> None:
        owner.run_sync(thread_name())

    with pytest.raises(RuntimeError, match="await instead"):
        await owner.run(wait_for_itself())


async def test_context_variables_of_the_caller_are_seen_there(owner: OwnerLoop) -> None:
    async def read() -> str:
        return LABEL.get()

    LABEL.set("mine")
    assert await owner.run(read()) == "mine"
    assert owner.run_sync(read()) == "mine"


async def test_exceptions_come_back_as_they_are(owner: OwnerLoop) -> None:
    async def fail() -> None:
        raise LookupError("there")

    with pytest.raises(LookupError, match="there"):
        await owner.run(fail())
    with pytest.raises(LookupError, match="there"):
        owner.run_sync(fail())


async def test_cancelling_the_caller_cancels_the_work(owner: OwnerLoop) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    task = asyncio.create_task(owner.run(work()))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(cancelled.wait, 10)


async def test_work_that_cancels_itself_cancels_the_caller(owner: OwnerLoop) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    task = asyncio.create_task(owner.run(give_up()))
    await asyncio.wait({task})
    assert task.cancelled()


def test_a_synchronous_wait_has_a_deadline_and_stops_the_work(owner: OwnerLoop) -> None:
    cancelled = threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        owner.run_sync(work(), timeout=0.05)
    assert cancelled.wait(10)


def test_a_caller_whose_loop_is_gone_does_not_disturb_the_owner(owner: OwnerLoop) -> None:
    gate = owner.run_sync(_event())

    async def leave() -> None:
        task = asyncio.ensure_future(owner.run(_wait(gate)))
        await asyncio.sleep(0)
        del task

    caller = asyncio.new_event_loop()
    caller.run_until_complete(leave())
    for task in asyncio.all_tasks(caller):
        task.cancel()
    caller.run_until_complete(asyncio.sleep(0))
    caller.close()
    owner.run_sync(_set(gate))
    assert owner.run_sync(thread_name()) == "test-owner"


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_closing_awaits_the_closers_and_cancels_the_rest() -> None:
    owner, seen = OwnerLoop(), []

    async def closer() -> None:
        await asyncio.sleep(0)
        seen.append("closed")

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    owner.add_closer(closer)
    owner.spawn(endless())
    owner.run_sync(asyncio.sleep(0))
    owner.close()
    owner.close()
    assert seen == ["closed", "cancelled"]
    with pytest.raises(RuntimeError, match="closed"):
        owner.run_sync(thread_name())


def test_the_shared_loop_is_one_for_the_process() -> None:
    assert OwnerLoop.shared() is OwnerLoop.shared()


async def test_what_spawned_work_raises_is_logged(owner: OwnerLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise LookupError("nobody waits")

    owner.spawn(fail())
    await owner.run(asyncio.sleep(0))
    await owner.run(asyncio.sleep(0))
    assert "nobody waits" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    script = """
        import os, sys, threading
        from codebuddy_mcp_tools.client import OwnerLoop

        async def ident():
            return os.getpid()

        loop = OwnerLoop.shared()
        parent = loop.run_sync(ident())
        before = loop.epoch
        pid = os.fork()
        if pid == 0:
            ok = loop.run_sync(ident(), timeout=10) == os.getpid() and loop.epoch is not before
            loop.close()
            os._exit(0 if ok else 1)
        _, status = os.waitpid(pid, 0)
        assert loop.run_sync(ident()) == parent
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
