"""Results that are too long for a conversation, saved whole.

    <state>/projects/<project>/<session>/tool-results/mcp-<server>-<tool>-<timestamp>-<random>.txt

Policy: no name a server chose steers a path: names become slugs, the rest of the file name is ours and random. Files
are 0600 in folders that are 0700. Beside each file stands what the reader needs to know of it. A session has a quota;
what is oldest goes first. What is saved is the server's text, cleaned of invisible characters: still untrusted, see
`reader`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from codebuddy_mcp_tools.tools.private_dir import FILE_FLAGS, open_private
from codebuddy_mcp_tools.tools.saved_file import Provenance, describe_format, file_slug
from codebuddy_mcp_tools.tools.saved_lines import LineCount, cleaned_chunks

FOLDER = "tool-results"
MAX_SESSION_BYTES = 100_000_000
MAX_SESSION_FILES = 200
_PLAIN_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class SavedResult:
    """A result in a file.

    Attributes:
        path: absolute.
        chars, lines: its size; lines longer than 2,000 characters count as several.
        format: what it is, in words.
        is_json: whether `json_path` works on it.
    """

    path: Path
    chars: int
    lines: int
    format: str
    is_json: bool


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a clean-up removed."""

    files: int = 0
    bytes: int = 0


class SpillStore:
    """The saved results of one project.

    Args:
        state_dir: the user's state folder, normally `~/.codebuddy`.
        workspace: the project's folder; results of runs without one are kept together.
        max_session_bytes, max_session_files: the quota of one session.
        clock: the time now, with a zone.
    """

    def __init__(
        self,
        state_dir: str | Path,
        workspace: str | Path | None,
        *,
        max_session_bytes: int = MAX_SESSION_BYTES,
        max_session_files: int = MAX_SESSION_FILES,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._root = Path(state_dir).expanduser()
        self._project = _project_name(workspace)
        self._max_bytes = max_session_bytes
        self._max_files = max_session_files
        self._clock = clock
        self._has_results = False

    @property
    def root(self) -> Path:
        """The state folder."""
        return self._root

    def steps(self, session_id: str) -> tuple[str, ...]:
        """The folders from the state folder to a session's results."""
        return ("projects", self._project, session_folder(session_id), FOLDER)

    def folders(self) -> tuple[tuple[str, ...], ...]:
        """The `steps` of every session of this project that may hold results."""
        try:
            with open_private(self._root, ("projects", self._project)) as folder, os.scandir(folder) as listing:
                names = sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
        except OSError:
            return ()
        return tuple(("projects", self._project, name, FOLDER) for name in names)

    def has_results(self) -> bool:
        """Whether anything of this project is saved; looks at the disk until it is."""
        self._has_results = self._has_results or any(self._results(steps) for steps in self.folders())
        return self._has_results

    def save(self, session_id: str, server: str, tool: str, text: str) -> SavedResult:
        """Writes a result.

        Raises:
            OSError: it cannot be written, or is larger than a session's quota.
        """
        _check_quota(len(text), self._max_bytes)
        stamp = self._clock().astimezone(UTC).strftime("%Y%m%dT%H%M%S")
        name = f"mcp-{file_slug(server)}-{file_slug(tool)}-{stamp}-{secrets.token_hex(8)}"
        form, is_json = describe_format(text)
        steps = self.steps(session_id)
        with open_private(self._root, steps, create=True) as folder:
            os.fchmod(folder, 0o700)
            self._make_room(folder, len(text))
            count = LineCount()
            _write(folder, f"{name}.txt", cleaned_chunks(text), count, self._max_bytes)
            about = Provenance(server=server, tool=tool, chars=count.chars, lines=count.lines, format=form)
            try:
                _write(folder, f"{name}.json", [json.dumps(about.as_json())], LineCount(), self._max_bytes)
            except OSError:
                _remove(folder, f"{name}.txt")
                raise
        self._has_results = True
        path = self._root.joinpath(*steps, f"{name}.txt")
        return SavedResult(path, about.chars, about.lines, form, is_json)

    def clean(self, older_than: timedelta | float | None = None, *, session_id: str | None = None) -> Cleanup:
        """Removes saved results of this project.

        Args:
            older_than: only those written longer ago, seconds when a number; `None`: all.
            session_id: only those of one session; `None`: of every session.
        """
        age = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        before = None if age is None else self._clock().timestamp() - age
        folders = self.folders() if session_id is None else (self.steps(session_id),)
        files = size = 0
        for steps in folders:
            for entry in self._results(steps):
                if before is None or entry.modified < before:
                    files += 1
                    size += entry.size
                    self._forget(steps, entry.name)
        self._has_results = False
        return Cleanup(files, size)

    def _results(self, steps: tuple[str, ...]) -> list[_Entry]:
        """The results in one folder; none when it is not there or not ours."""
        try:
            with open_private(self._root, steps) as folder:
                return _entries(folder)
        except OSError:
            return []

    def _forget(self, steps: tuple[str, ...], name: str) -> None:
        with open_private(self._root, steps) as folder:
            _remove(folder, name)
            _remove(folder, _record_of(name))

    def _make_room(self, folder: int, chars: int) -> None:
        """Removes the oldest results until one more of so many characters fits."""
        entries = sorted(_entries(folder), key=lambda entry: (entry.modified, entry.name))
        used = sum(entry.size for entry in entries)
        while entries and (used + chars > self._max_bytes or len(entries) >= self._max_files):
            oldest = entries.pop(0)
            used -= oldest.size
            _remove(folder, oldest.name)
            _remove(folder, _record_of(oldest.name))


def session_folder(session_id: str) -> str:
    """A session's id as a folder name: itself when it is plain, else a slug with a hash of the whole id."""
    if _PLAIN_SESSION.fullmatch(session_id):
        return session_id
    digest = hashlib.sha256(session_id.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{file_slug(session_id)}.{digest}"


def _project_name(workspace: str | Path | None) -> str:
    if workspace is None:
        return "no-project"
    return hashlib.sha256(os.fsencode(Path(workspace).expanduser().resolve())).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    size: int
    modified: float


def _entries(folder: int) -> list[_Entry]:
    """The results in a folder; what is not one of ours is left alone."""
    found = []
    with os.scandir(folder) as listing:
        for entry in listing:
            if entry.name.startswith("mcp-") and entry.name.endswith(".txt") and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append(_Entry(entry.name, status.st_size, status.st_mtime))
    return found


def _record_of(name: str) -> str:
    return name.removesuffix(".txt") + ".json"


def _write(folder: int, name: str, chunks: Iterable[str], count: LineCount, max_bytes: int) -> None:
    """A new file; removed again when it cannot be finished."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS, 0o600, dir_fd=folder)
    written = 0
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                count.add(chunk)
                written += file.write(chunk.encode("utf-8", "replace"))
                _check_quota(written, max_bytes)
    except OSError:
        _remove(folder, name)
        raise


def _check_quota(size: int, quota: int) -> None:
    if size > quota:
        raise OSError(errno.EDQUOT, f"a result of {size:,} bytes is larger than a session may keep")


def _remove(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
