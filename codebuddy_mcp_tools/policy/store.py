"""One JSON object in one private file: what approvals and pins are kept in.

Policy: mode 0600 in a directory of mode 0700, replaced as a whole, changed under a lock that all processes share. A
file that others may write, that is not ours, that is a link, or that is not JSON is *reported and treated as empty*:
a store that decides what may run must not be believed when somebody else could have written it. Reading never raises.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from codebuddy_mcp_tools.errors import ConfigError

_MAX_BYTES = 64 * 1024 * 1024
_LOCK_SECONDS = 10.0


class PrivateStore:
    """A JSON object that several processes read and change.

    Attributes:
        path: the file; it and its directory are made with the first change.
        problem: why the file was last treated as empty, one line; `None` when it was fine or absent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None

    def read(self) -> dict[str, Any]:
        """The object, or `{}` when there is none or it cannot be believed; then `problem` says why."""
        self.problem = None
        raw = read_private(self.path)
        if isinstance(raw, Distrust):
            self.problem = raw.reason
        elif raw is not None:
            try:
                value = json.loads(raw)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                return value
            self.problem = f"{self.path} is damaged"
        return {}

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Reads the newest state, lets `edit` change it in place, and writes it back; no other process comes between.

        Raises:
            ConfigError: the file cannot be written, or another process holds it for ten seconds.
        """
        try:
            make_private_directory(self.path.parent)
            with FileLock(f"{self.path}.lock", timeout=_LOCK_SECONDS, mode=0o600):
                value = self.read()
                edit(value)
                replace_private(self.path, json.dumps(value, indent=1).encode("ascii"))
        except Timeout:
            raise ConfigError(f"{self.path} is locked by another process; try again", path=self.path) from None
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror or error}", path=self.path) from None

    def remove(self) -> None:
        """Deletes the file, when there is one.

        Raises:
            ConfigError: it cannot be deleted.
        """
        try:
            self.path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be deleted: {error.strerror or error}", path=self.path) from None


class Distrust:
    """Why a file cannot be believed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def read_private(path: Path, *, secret: bool = False) -> bytes | Distrust | None:
    """The bytes of a file that only its owner may write, `None` when there is none.

    Args:
        path: the file.
        secret: it must not be readable for others either.
    """
    try:
        # Not blocking: a pipe in the file's place must not make anybody wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Distrust(f"{path} cannot be read ({error.strerror or error})")
    if reason := _distrust(path, os.fstat(descriptor), secret=secret):
        os.close(descriptor)
        return Distrust(reason)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def replace_private(path: Path, content: bytes) -> None:
    """Writes a file of mode 0600 as a whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def make_private_directory(path: Path) -> None:
    """The directory, of mode 0700 when it did not exist."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _distrust(path: Path, info: os.stat_result, *, secret: bool) -> str | None:
    if not stat.S_ISREG(info.st_mode):
        return f"{path} is not a regular file"
    if info.st_size > _MAX_BYTES:
        return f"{path} is larger than {_MAX_BYTES} bytes"
    if os.name != "posix":
        return None
    if info.st_uid not in {os.geteuid(), 0}:
        return f"{path} belongs to another user"
    if info.st_mode & 0o022:
        return f"{path} can be written by others (mode {stat.S_IMODE(info.st_mode):04o}); nothing in it counts"
    if secret and info.st_mode & 0o044:
        return f"{path} can be read by others (mode {stat.S_IMODE(info.st_mode):04o})"
    parent = path.parent.stat()
    if parent.st_mode & 0o002 and not parent.st_mode & stat.S_ISVTX:
        return f"{path.parent} can be written by everybody; nothing in {path.name} counts"
    return None
