"""What outlives a server process: the log, the ledger, the counters and the gates, all files in one directory.

Everything is appended with single `O_APPEND` writes, so that several processes of one script can share the directory.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from typing import Any

LOG = "log.jsonl"
LEDGER = "ledger.txt"


class StateDirectory:
    """The files of one script's runs.

    Attributes:
        path: an existing directory. Plain text: `pathlib` takes 13 ms to import, and servers must start fast.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def record(self, event: str, **fields: Any) -> None:
        """Append one line to the log: the event, this process's id, and the wall-clock time in seconds."""
        entry = {"event": event, "pid": os.getpid(), "time": time.time(), **fields}
        _append(self.file(LOG), json.dumps(entry).encode() + b"\n")

    def count(self, name: str) -> int:
        """How often this was asked for `name`, this time included, over all processes."""
        key = name.encode("utf-8", "surrogatepass")
        return _append(self.file(f"count-{zlib.crc32(key):08x}{zlib.adler32(key):08x}"), b".")

    def enter(self, line: str) -> None:
        """Append one line to the ledger and wait until the disk has it."""
        _append(self.file(LEDGER), line.encode("utf-8", "replace") + b"\n", sync=True)

    def file(self, name: str) -> str:
        """A gate: absolute paths stay, others are taken from this directory."""
        return os.path.join(self.path, name)

    def log(self) -> list[dict[str, Any]]:
        """All entries so far, in the order in which they were written; a line that is half written is left out."""
        try:
            lines = _read(self.file(LOG)).split(b"\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1]]

    def ledger(self) -> list[str]:
        """The lines of the ledger."""
        try:
            return _read(self.file(LEDGER)).decode("utf-8").splitlines()
        except FileNotFoundError:
            return []


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _append(path: str, data: bytes, *, sync: bool = False) -> int:
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
