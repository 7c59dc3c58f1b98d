"""Changing one entry of a configuration file.

Policy: everything outside the entry stays byte for byte as it is, comments, order, unknown keys, encoding and line ends
included. The new text must parse to exactly the old value with that one change, or nothing is written. A file that
could not be read is never rewritten. Writing is atomic (temporary file, then rename), keeps the file's mode, follows a
symbolic link, is done under a lock, and starts again when another program changed the file meanwhile.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from codebuddy_mcp_tools.config import jsonc
from codebuddy_mcp_tools.config.document import join_pointer, plain_json
from codebuddy_mcp_tools.config.files import home_folder, read_bytes
from codebuddy_mcp_tools.config.splice import put_text, remove_text
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON

_ATTEMPTS = 20
_LOCK_SECONDS = 10.0
_NEW_FILE_MODE = 0o600  # an entry may hold a credential

Splice = Callable[[str], str]


def set_value(path: Path, tokens: Sequence[str], value: JSON, *, lock_dir: Path | None = None) -> bool:
    """Write `value` at a place of a file, creating the file and the objects on the way when they are missing.

    Args:
        path: the file.
        tokens: keys from the top of the document (a JSON Pointer's reference tokens), at least one.
        value: plain JSON.
        lock_dir: where the lock files of this package lie; default `~/.codebuddy/locks`.

    Returns:
        Whether the file was changed (`False`: it said so already).

    Raises:
        ConfigError: the file cannot be read, parsed or written, or something that is no object stands in the way. The
            file is as it was.
    """
    _check_writable(value, path)

    def change(document: JSON) -> JSON:
        return _with_value(document, tokens, value, path)

    return _edit(path, lambda text: put_text(text, tokens, value), change, lock_dir)


def remove_value(path: Path, tokens: Sequence[str], *, lock_dir: Path | None = None) -> bool:
    """Take one key out of a file. `False` when it is not there.

    Raises:
        ConfigError: as for `set_value`.
    """

    def change(document: JSON) -> JSON:
        return _without(document, tokens)

    return _edit(path, lambda text: remove_text(text, tokens), change, lock_dir)


def _check_writable(value: JSON, path: Path) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: this is not plain JSON: {error}", path=path) from None


def _with_value(document: JSON, tokens: Sequence[str], value: JSON, path: Path) -> JSON:
    changed = copy.deepcopy(document)
    table = changed
    for depth, token in enumerate(tokens[:-1]):
        if table.get(token) is None:
            table[token] = {}
        table = table[token]
        if not isinstance(table, dict):
            at = join_pointer(*tokens[: depth + 1])
            raise ConfigError(f"{path}: {at} is not an object; nothing was written", path=path, pointer=at)
    table[tokens[-1]] = value
    return changed


def _without(document: JSON, tokens: Sequence[str]) -> JSON:
    changed = copy.deepcopy(document)
    table = changed
    for token in tokens[:-1]:
        table = table.get(token) if isinstance(table, dict) else None
    if isinstance(table, dict):
        table.pop(tokens[-1], None)
    return changed


def _edit(path: Path, splice: Splice, change: Callable[[JSON], JSON], lock_dir: Path | None) -> bool:
    target = Path(os.path.realpath(path))
    with _locked(target, lock_dir):
        for _ in range(_ATTEMPTS):
            before = read_bytes(target)
            after = _edited(before, path, splice, change)
            if after is None:
                return False
            if _replace(target, before, after):
                return True
    raise ConfigError(f"{path}: another program keeps changing it; nothing was written", path=path)


def _edited(before: bytes | None, path: Path, splice: Splice, change: Callable[[JSON], JSON]) -> bytes | None:
    """The file's new bytes, or `None` when nothing changes."""
    decoded = jsonc.decode(before or b"", path)
    blank = plain_json(decoded.text).is_empty
    document: JSON = {} if blank else jsonc.parse(decoded.text, path)
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the top of the file is not an object; nothing was written", path=path)
    wanted = change(document)
    if _canonical(wanted) == _canonical(document):
        return None
    text = decoded.text
    if blank:
        text += ("" if not text or text.endswith("\n") else "\n") + "{}\n"
    new = splice(text)
    if _canonical(jsonc.parse(new, path)) != _canonical(wanted):
        raise ConfigError(f"{path}: this file cannot be edited safely; change it by hand", path=path)
    return decoded.encode(new)


def _canonical(value: JSON) -> str:
    return json.dumps(value)


def _locked(target: Path, lock_dir: Path | None) -> _ConfigLock:
    """A lock beside nothing of the user's: lock files in a project folder would end up in version control."""
    folder = lock_dir if lock_dir is not None else home_folder() / ".codebuddy" / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(os.fsencode(os.path.normcase(target))).hexdigest()[:32]
    return _ConfigLock(folder / f"{name}.lock", timeout=_LOCK_SECONDS)


class _ConfigLock(FileLock):
    def __enter__(self) -> Self:
        try:
            self.acquire()
        except Timeout:
            raise ConfigError(f"another program holds {self.lock_file}; try again") from None
        return self


def _replace(target: Path, before: bytes | None, after: bytes) -> bool:
    """Put `after` in place of `before`; `False` when the file is no longer `before`."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            _keep_mode(Path(name), target)
            if read_bytes(target) != before:
                return False
            os.replace(name, target)
            return True
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written: {error.strerror or error}", path=target) from None


def _keep_mode(temporary: Path, target: Path) -> None:
    try:
        old = target.stat()
    except FileNotFoundError:
        temporary.chmod(_NEW_FILE_MODE)
        return
    temporary.chmod(old.st_mode & 0o7777)
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
