"""What outlives a server process: the log, the ledger, the counters and the gates, all files in one directory.

Everything is appended with single `O_APPEND` writes, so that several processes of one script can share the directory.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

LOG = "log.jsonl"
LEDGER = "ledger.txt"


class StateDirectory:
    """The files of one script's runs.

    Attributes:
        path: an existing directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, event: str, **fields: Any) -> None:
        """Append one line to the log: the event, this process's id, and the wall-clock time in seconds."""
        entry = {"event": event, "pid": os.getpid(), "time": time.time(), **fields}
        _append(self.path / LOG, json.dumps(entry).encode() + b"\n")

    def count(self, name: str) -> int:
        """How often this was asked for `name`, this time included, over all processes."""
        key = name.encode("utf-8", "surrogatepass")
        return _append(self.path / f"count-{zlib.crc32(key):08x}{zlib.adler32(key):08x}", b".")

    def enter(self, line: str) -> None:
        """Append one line to the ledger and wait until the disk has it."""
        _append(self.path / LEDGER, line.encode("utf-8", "replace") + b"\n", sync=True)

    def file(self, name: str) -> Path:
        """A gate: absolute paths stay, others are taken from this directory."""
        return self.path / name

    def log(self) -> list[dict[str, Any]]:
        """All entries so far, in the order in which they were written; a line that is half written is left out."""
        try:
            lines = (self.path / LOG).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    def ledger(self) -> list[str]:
        """The lines of the ledger."""
        try:
            return (self.path / LEDGER).read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []


def _append(path: Path, data: bytes, *, sync: bool = False) -> int:
    """Append with one write; gives the size of the file right after it."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, data)
        size = os.lseek(handle, 0, os.SEEK_CUR)
        if sync:
            os.fsync(handle)
        return size
    finally:
        os.close(handle)
