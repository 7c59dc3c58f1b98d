"""Noticing that a configuration file has changed.

Policy: what counts is the content, so that a file that was only touched starts nothing, and one that was written twice
within a clock tick is still seen. A change is reported when two looks in a row agree, because editors write in several
steps. Polling is used because it is the same on every file system, network ones included.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from codebuddy_mcp_tools.config.files import read_bytes
from codebuddy_mcp_tools.errors import ConfigError

log = logging.getLogger(__name__)

Change = Callable[[tuple[Path, ...]], object]


def fingerprint(path: Path) -> str | None:
    """Hash of a file's content; `None` when there is none, a fixed text when it cannot be read."""
    try:
        data = read_bytes(path)
    except ConfigError:
        return "unreadable"
    return None if data is None else hashlib.sha256(data).hexdigest()


class ConfigWatcher:
    """Calls `on_change(paths)` after one or several of `files` got another content.

    Args:
        files: what to look at; files that do not exist yet included.
        on_change: called in the watcher's thread, one call at a time. What it raises is logged.
        interval: seconds between two looks.
    """

    def __init__(self, files: Iterable[Path], on_change: Change, *, interval: float = 1.0) -> None:
        self._on_change = on_change
        self._interval = interval
        self._known = {path: fingerprint(path) for path in files}
        self._unsettled: dict[Path, str | None] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> tuple[Path, ...]:
        """One look at all files: those whose content is new, and was the same at the look before this one."""
        settled: list[Path] = []
        for path, known in self._known.items():
            now = fingerprint(path)
            if now == known:
                self._unsettled.pop(path, None)
            elif path in self._unsettled and self._unsettled[path] == now:
                settled.append(path)
            else:
                self._unsettled[path] = now
        if self._unsettled.keys() - set(settled):
            return ()  # report files that change together as one change
        for path in settled:
            self._known[path] = self._unsettled.pop(path)
        return tuple(settled)

    def start(self) -> None:
        """Look in a thread of its own until `stop`. Starting twice does nothing."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="codebuddy-mcp-config-watch", daemon=True)
            self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """End the thread; returns when no more change will be reported, or at once. Safe inside `on_change`."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        stop = self._stop
        while not stop.wait(self._interval):
            changed = self.look()
            if changed:
                self._report(changed)

    def _report(self, changed: tuple[Path, ...]) -> None:
        try:
            self._on_change(changed)
        except Exception:
            log.exception("could not take over the changed configuration")
