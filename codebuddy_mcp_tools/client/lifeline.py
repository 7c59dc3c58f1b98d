"""Nothing we started outlives us, not even when we are killed.

A server that ignores the end of its input, and every grandchild, survives a host that gets SIGKILL. So beside the
servers runs one small shell per host process, which holds the reading end of a pipe of ours and knows the process
groups. When the pipe ends, we are gone, however that came about, and it ends the groups. It costs 1 MB and about 1 ms,
once; it ends with the last server.

POSIX only, and only where there is a `/bin/sh`; elsewhere a killed host leaves what it left before. A server that moves
its children to another session (`setsid`) takes them out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

_SHELL = "/bin/sh"
# "+ 123" and "- 123" add and remove a process group. The watcher ignores what a terminal sends to all.
_SCRIPT = """
trap '' HUP INT QUIT TERM
groups=' '
while read -r verb group; do
  case $verb in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
[ -z "${groups##* }" ] && [ "$groups" = ' ' ] && exit 0
for group in $groups; do kill -s TERM -- "-$group" 2>/dev/null; done
sleep 2
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
"""


class Lifeline:
    """Ends process groups when this process dies. `watch` may be called from any thread."""

    def __init__(self) -> None:
        self._watcher: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()
        self._lock = threading.Lock()

    def watch(self, group: int) -> None:
        """End this process group when we die."""
        with self._lock:
            self._groups.add(group)
            if not self._tell(f"+ {group}\n"):
                self._start()

    async def release(self, group: int) -> None:
        """The group is gone. With the last one, the watcher ends; waits for that, at most a second."""
        with self._lock:
            if group not in self._groups:
                return
            self._groups.discard(group)
            if self._groups:
                self._tell(f"- {group}\n")
                return
            watcher, self._watcher = self._watcher, None
        if watcher is None or watcher.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            watcher.stdin.write(f"- {group}\n".encode())
        watcher.stdin.close()
        for _ in range(200):
            if watcher.poll() is not None:
                return
            await asyncio.sleep(0.005)
        watcher.kill()
        watcher.wait()

    def renew(self) -> None:
        """In a forked child: let go of the pipe, or the watcher would wait for the child's end as well."""
        watcher, self._watcher = self._watcher, None
        self._groups, self._lock = set(), threading.Lock()
        if watcher is not None and watcher.stdin is not None:
            watcher.stdin.close()
            _left_by_parent.append(watcher)

    def _tell(self, line: str) -> bool:
        if self._watcher is None or self._watcher.stdin is None:
            return False
        try:
            self._watcher.stdin.write(line.encode())
        except OSError:
            self._watcher.stdin.close()
            self._watcher.poll()
            self._watcher = None
            return False
        return True

    def _start(self) -> None:
        if os.name != "posix" or not Path(_SHELL).exists():
            return
        try:
            self._watcher = subprocess.Popen(
                [_SHELL, "-c", _SCRIPT, "codebuddy-mcp-lifeline"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            logger.debug("no lifeline for child processes: %s", error)
            return
        for known in self._groups:
            self._tell(f"+ {known}\n")


lifeline = Lifeline()
"""The one of this process."""
_left_by_parent: list[object] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lifeline.renew)
