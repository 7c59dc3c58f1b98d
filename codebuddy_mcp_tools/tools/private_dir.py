"""Folders that only we can have made and only we can read, opened so that no symbolic link leads elsewhere.

Policy: below the root that the user chose, every step is opened relative to the folder before it and refuses links,
so that nobody can swap a step between the check and the use. POSIX only: elsewhere opening fails, and callers do
without.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

FILE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | FILE_FLAGS


@contextmanager
def open_private(root: Path, steps: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """The descriptor of `root/steps…`, closed at the end.

    Args: root: may itself be reached through links. steps: plain names below it. create: make what is missing, mode
    0700.

    Raises:
        OSError: a step is missing, is a link, or belongs to or can be written by somebody else.
    """
    if os.open not in os.supports_dir_fd:
        raise OSError(errno.ENOTSUP, "private folders need a POSIX system")
    if create:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = os.open(root, _FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        for step in steps:
            below = _enter(here, step, create=create)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _enter(folder: int, step: str, *, create: bool) -> int:
    if step in {"", ".", ".."} or "/" in step or "\0" in step:
        raise OSError(errno.EINVAL, "not a plain name", step)
    if create:
        with suppress(FileExistsError):
            os.mkdir(step, 0o700, dir_fd=folder)
    below = os.open(step, _FOLDER_FLAGS, dir_fd=folder)
    status = os.fstat(below)
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH:
        os.close(below)
        raise OSError(errno.EPERM, "the folder belongs to, or can be changed by, somebody else", step)
    return below


def open_private_file(folder: int, name: str) -> int:
    """The descriptor of a plain file in an opened folder, for reading.

    Raises:
        OSError: it is missing, a link, no plain file, or somebody else's.
    """
    handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | FILE_FLAGS, dir_fd=folder)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
        os.close(handle)
        raise OSError(errno.EPERM, "not a file of ours", name)
    return handle
