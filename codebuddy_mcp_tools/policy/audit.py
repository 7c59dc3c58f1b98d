"""What happened, for whoever has to find out later: one JSON object a line, `<workspace>/.codebuddy/logs/mcp.jsonl`.

Every line:

    v         1
    ts        UTC time, ISO 8601, milliseconds
    event     what happened, see below
    pid       the writing process
    server    the server's configured name, where there is one

`event` and its further fields (absent when unknown) are those of `FIELDS`; nothing else can be written:

    call          tool, arguments (names only), effect (read, write), decision (allow, ask, deny), rule, outcome (ok,
                  tool_error, not_run, unknown, cancelled), duration_ms, chars (length of the result), signals (what
                  the result showed, see `signals`)
    approval      approved, fingerprint, scope: somebody answered whether a server may start
    pin           message: a definition is not the accepted one, or was accepted
    signal        tool, signals: what a tool's definition showed
    connected, disconnected, tools_changed, resources_changed, prompts_changed, breaker, error
                  message

Policy: argument values and results are never written; every text is redacted, cleaned and cut. Writing never raises
and never waits for long: what goes wrong is logged once. The file is 0600 and rotates by size (`mcp.jsonl.1` is the
newest old one). It is append-only by habit, not by force: whoever owns the workspace can change it.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.policy.text import clean_line

logger = logging.getLogger(__name__)

_VERSION = 1
_LONGEST_TEXT = 1000
_MOST_ITEMS = 100
_MESSAGE = frozenset({"server", "message"})
FIELDS: Mapping[str, frozenset[str]] = {
    "call": frozenset(
        {
            "server", "tool", "arguments", "effect", "decision", "rule", "outcome", "duration_ms", "chars", "signals",
        }
    ),
    "approval": frozenset({"server", "approved", "fingerprint", "scope"}),
    "signal": frozenset({"server", "tool", "signals"}),
    "pin": _MESSAGE,
    **dict.fromkeys(("connected", "disconnected", "error", "breaker"), _MESSAGE),
    **dict.fromkeys(("tools_changed", "resources_changed", "prompts_changed"), _MESSAGE),
}  # fmt: skip
"""Every event and the fields it may have beside `v`, `ts`, `event` and `pid`."""
# A pipe in the file's place must not make anybody wait for a reader.
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def log_path(workspace: Path | None) -> Path | None:
    """Where the events of a workspace are kept; `None` without one."""
    return workspace / ".codebuddy" / "logs" / "mcp.jsonl" if workspace else None


def _now() -> datetime:
    return datetime.now(UTC)


class AuditLog:
    """Appends events to a file. Safe to use from several threads and processes.

    Args:
        path: the file; `None` writes nothing.
        redactor: takes secrets out of every text.
        max_bytes: a file that has reached this size is rotated before the next line.
        backups: how many old files are kept.
        clock: the time of a line.
    """

    def __init__(
        self,
        path: Path | None,
        redactor: Redactor | None = None,
        max_bytes: int = 5_000_000,
        backups: int = 3,
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.path = path
        self._redactor = redactor or Redactor()
        self._max_bytes = max_bytes
        self._backups = backups
        self._clock = clock
        self._lock = threading.Lock()
        self._complained: set[str] = set()

    def write(self, event: str, **fields: Any) -> None:
        """Appends one line; never raises.

        Fields that are `None` are left out. A mapping given as `arguments` is reduced to its names; events and fields
        that are not in `FIELDS` are refused: they could hold values of a call.
        """
        if self.path is None:
            return
        if event not in FIELDS:
            self._complain(f"the audit event {event!r} is not one of the schema and is not written")
            return
        try:
            line = self._line(event, fields)
            with self._lock:
                self._append(self.path, line)
        except (OSError, Timeout) as error:
            self._complain(f"the audit log {self.path} cannot be written: {error}")
        except (TypeError, ValueError, RecursionError) as error:
            self._complain(f"an audit event {event!r} could not be written: {type(error).__name__}")

    def _line(self, event: str, fields: Mapping[str, Any]) -> bytes:
        record: dict[str, Any] = {
            "v": _VERSION,
            "ts": self._clock().isoformat(timespec="milliseconds"),
            "event": event,
            "pid": os.getpid(),
        }
        for name, value in fields.items():
            if name not in FIELDS[event]:
                self._complain(f"the audit field {name!r} is not one of the event {event!r} and is not written")
            elif value is not None:
                record[name] = self._plain(sorted(map(str, value)) if name == "arguments" else value)
        return json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if value - value == 0 else str(value)
        if isinstance(value, Mapping):
            return {self._text(str(key)): self._plain(item) for key, item in list(value.items())[:_MOST_ITEMS]}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(item) for item in list(value)[:_MOST_ITEMS]]
        return self._text(str(value))

    def _text(self, text: str) -> str:
        return clean_line(self._redactor.redact(text), _LONGEST_TEXT)

    def _append(self, path: Path, line: bytes) -> None:
        directory = path.parent
        if directory.is_symlink() or directory.parent.is_symlink():
            # A project's own folder could lead the log anywhere.
            raise OSError(f"{directory} is a symbolic link")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, _APPEND, 0o600)
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(f"{path} is not a regular file")
            if info.st_size and info.st_size + len(line) > self._max_bytes:
                os.close(descriptor)
                descriptor = -1
                self._rotate(path, len(line))
                descriptor = os.open(path, _APPEND, 0o600)
                info = os.fstat(descriptor)
            if os.name == "posix" and stat.S_IMODE(info.st_mode) & 0o077:
                os.fchmod(descriptor, 0o600)
            os.write(descriptor, line)  # one write: lines of several processes do not mix
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _rotate(self, path: Path, coming: int) -> None:
        with FileLock(f"{path}.lock", timeout=2, mode=0o600):
            if not path.exists() or path.stat().st_size + coming <= self._max_bytes:
                return  # another process was first
            if self._backups < 1:
                path.unlink()
                return
            for number in range(self._backups - 1, 0, -1):
                older = path.with_name(f"{path.name}.{number}")
                if older.exists():
                    older.replace(path.with_name(f"{path.name}.{number + 1}"))
            path.replace(path.with_name(f"{path.name}.1"))

    def _complain(self, message: str) -> None:
        if message not in self._complained and len(self._complained) < 100:
            self._complained.add(message)
            logger.warning("%s", self._redactor.redact(message))
