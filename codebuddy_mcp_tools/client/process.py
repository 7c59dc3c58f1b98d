"""Child processes: started in a group of their own, watched, and ended with everything they started.

Policy: what cannot be started is told in one line that says what to change in the configuration. The way out is
bounded: end of input, a grace period, SIGTERM to the whole group (also when its leader has gone: wrappers leave
children behind), a grace period, SIGKILL. POSIX; `stdio_windows.py` has the other half.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from codebuddy_mcp_tools.client.lifeline import lifeline
from codebuddy_mcp_tools.client.transport import ChannelError, TransportFault
from codebuddy_mcp_tools.policy.text import clean_line

_POLL = 0.02
_EXIT_POLL = 0.2
"""Seconds between looks at a process where the system cannot tell us of its end."""


class ChildProcess:
    """One running server process, leader of its own group. Lives on the owner loop.

    Attributes:
        pid: its process id, and the id of its group.
        exited: resolved when the leader has ended.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._pidfd: int | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._watch()
        _running.add(self)

    @classmethod
    async def start(cls, command: str, args: Sequence[str], *, env: Mapping[str, str], cwd: str | None) -> ChildProcess:
        """Start a process with pipes on all three streams.

        Starting one blocks for the exec and looks at files, so that happens in a thread: twenty servers start side by
        side, and hosts that watch their loops for blocking calls (`langgraph dev`) have nothing to complain of.

        Raises:
            ChannelError: it cannot be started; the fault says what to change.
        """
        begin = functools.partial(_begin, command, args, dict(env), cwd)
        begun = asyncio.get_running_loop().run_in_executor(None, begin)
        try:
            return cls(await asyncio.shield(begun))
        except asyncio.CancelledError:
            begun.add_done_callback(_end_unwanted)
            raise

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; `None` while it runs."""
        return self.popen.returncode

    async def end(self, grace: float) -> None:
        """End the process and its whole group; its input must be closed by now. Takes at most about 3 × `grace`."""
        await asyncio.wait({self.exited}, timeout=grace)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._group_runs():
                break
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
            await self._until(lambda: not self._group_runs(), grace)
        self._unwatch()
        _running.discard(self)
        await lifeline.release(self.pid)

    def _group_runs(self) -> bool:
        if self.popen.poll() is None:
            return True
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return _has_living_member(self.pid)

    @staticmethod
    async def _until(condition: Callable[[], bool], limit: float) -> None:
        for _ in range(max(1, int(limit / _POLL))):
            if condition():
                return
            await asyncio.sleep(_POLL)

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._look)
        except (AttributeError, OSError):  # not Linux, or a kernel without it
            self._poll = self._loop.call_later(_EXIT_POLL, self._look)

    def _look(self) -> None:
        if self.popen.poll() is None:
            if self._pidfd is None:
                self._poll = self._loop.call_later(_EXIT_POLL, self._look)
            return
        self._unwatch()
        if not self.exited.done():
            self.exited.set_result(None)

    def _unwatch(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        if self._poll is not None:
            self._poll.cancel()

    def close_inherited(self) -> None:
        """In a forked child: close our copies of the pipes, or the server would never see the end of its input."""
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _begin(command: str, args: Sequence[str], env: dict[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    """Runs in a thread."""
    try:
        popen = subprocess.Popen(
            [command, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        reason = why_not_started(error, command, args, env=env, cwd=cwd)
        raise ChannelError(TransportFault(reason, sent=False, connect=True, retryable=_may_pass(error))) from None
    lifeline.watch(popen.pid)
    return popen


def _end_unwanted(begun: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """A process that was started for somebody who has gone meanwhile."""
    if begun.cancelled() or begun.exception() is not None:
        return
    popen = begun.result()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        if pipe is not None:
            pipe.close()
    task = asyncio.ensure_future(lifeline.release(popen.pid))
    _releasing.add(task)
    task.add_done_callback(_releasing.discard)


_releasing: set[asyncio.Future[None]] = set()


def why_not_started(
    error: OSError | ValueError, command: str, args: Sequence[str], *, env: Mapping[str, str], cwd: str | None
) -> str:
    """One line that says why a command could not be started, and what to do."""
    shown = clean_line(command, 200)
    if isinstance(error, ValueError):
        return f"the command line of {shown} holds a character that no process can be given ({error})"
    if cwd is not None and not Path(cwd).is_dir():
        return f"the working directory does not exist: {clean_line(cwd, 200)}"
    has_path = os.sep in command
    target = Path(cwd or ".", command) if has_path else None
    if target is not None and target.is_dir():
        return f"the command is a directory, not a program: {shown}"
    if isinstance(error, FileNotFoundError):
        return _not_found(shown, command, args, env, exists=target is not None and target.exists())
    if isinstance(error, PermissionError):
        return f"the command is not executable: {shown} (chmod +x it, or name its interpreter as the command)"
    if error.errno == errno.ENOEXEC:
        return f"the command is no program: {shown} (a script needs a #! line, or its interpreter as the command)"
    return f"the command cannot be started: {shown} ({error.strerror or error})"


def _not_found(shown: str, command: str, args: Sequence[str], env: Mapping[str, str], *, exists: bool) -> str:
    words = command.split()
    if len(words) > 1 and not args:
        first, rest = clean_line(words[0], 80), clean_line(", ".join(f'"{word}"' for word in words[1:]), 200)
        return f'command not found: "{shown}" holds a whole command line; write "command": "{first}", "args": [{rest}]'
    if command == "docker" and tuple(args[:3]) == ("mcp", "gateway", "run"):
        return (
            "command not found: docker; 'docker mcp gateway run' needs Docker with its MCP toolkit: "
            "install Docker Desktop, or the docker-mcp plugin for an existing Docker"
        )
    if exists:  # the file is there, so what is missing is what its first line names
        return f"the command cannot be started: {shown} names an interpreter in its #! line that does not exist"
    where = "" if os.sep in command or env.get("PATH") else "; the server's environment has no PATH"
    return f"command not found: {shown}{where}"


def describe_exit(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _may_pass(error: OSError | ValueError) -> bool:
    return isinstance(error, OSError) and error.errno in {errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY, errno.EMFILE}


def _has_living_member(group: int) -> bool:
    """Whether a process of the group still runs; dead ones that nobody has reaped do not count."""
    if not Path("/proc/self/stat").exists():
        return True
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            state, _parent, its_group, *_ = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if its_group == str(group) and state not in "ZX":
            return True
    return False


_running: set[ChildProcess] = set()
_left_by_parent: list[object] = []


def _after_fork_in_child() -> None:
    for process in tuple(_running):
        process.close_inherited()
        _left_by_parent.append(process)  # its finalizers must not run here
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
