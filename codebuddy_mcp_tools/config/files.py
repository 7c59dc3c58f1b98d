"""Where configuration is looked for, and how a file is read without ever stopping the others.

Policy (CodeBuddy Code page): of the files of one scope the first that exists is read, and written; when none exists the
first is created. The local scope lives in `~/.codebuddy.json` under `projects/<workspace>`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from codebuddy_mcp_tools.config import jsonc
from codebuddy_mcp_tools.config.document import Node, find, line_column, scan, split_pointer
from codebuddy_mcp_tools.config.entry_reader import kind_of
from codebuddy_mcp_tools.errors import ConfigError, ConfigSyntaxError
from codebuddy_mcp_tools.types import JSON, Diagnostic

_MISSING = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one user and one workspace. No file is touched here.

    Attributes:
        home: the user's home folder.
        workspace: absolute folder of the project, or `None`: then only the user's files count.
    """

    home: Path
    workspace: Path | None
    editor_home: Path

    @classmethod
    def of(
        cls, workspace: str | Path | None, *, home: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Places:
        """Places for a workspace; `home` and `environ` replace the process's own (tests, other users)."""
        folder = Path(os.path.abspath(Path(workspace).expanduser())) if workspace is not None else None
        at = Path(home) if home is not None else home_folder()
        return cls(at, folder, _editor_home(at, os.environ if environ is None else environ, own_home=home is None))

    @property
    def legacy(self) -> Path:
        """`~/.codebuddy.json`: last of the user's files, and the file of the local scope."""
        return self.home / ".codebuddy.json"

    @property
    def user(self) -> tuple[Path, ...]:
        return (self.home / ".codebuddy" / ".mcp.json", self.home / ".codebuddy" / "mcp.json", self.legacy)

    @property
    def project(self) -> tuple[Path, ...]:
        return (self.workspace / ".mcp.json", self.workspace / "mcp.json") if self.workspace else ()

    @property
    def user_editor(self) -> Path:
        return self.editor_home / "settings.json"

    @property
    def workspace_editor(self) -> Path | None:
        return self.workspace / ".vscode" / "settings.json" if self.workspace else None

    @property
    def user_settings(self) -> Path:
        return self.home / ".codebuddy" / "settings.json"

    @property
    def project_settings(self) -> tuple[Path, ...]:
        """Highest priority first."""
        if self.workspace is None:
            return ()
        folder = self.workspace / ".codebuddy"
        found = (folder / "settings.local.json", folder / "settings.json")
        return tuple(path for path in found if path != self.user_settings)  # the home folder may be the workspace

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file that is looked at, for watching."""
        editor = (self.workspace_editor,) if self.workspace_editor else ()
        found = (*self.user, *self.project, *editor, self.user_editor, *self.project_settings, self.user_settings)
        return tuple(dict.fromkeys(found))

    def workspace_keys(self) -> tuple[str, ...]:
        """How the workspace may be spelled as a key of `projects`, the spelling that is written first."""
        if self.workspace is None:
            return ()
        spellings = [str(self.workspace), os.path.realpath(self.workspace), self.workspace.as_posix()]
        return tuple(dict.fromkeys(spellings))

    def is_workspace(self, key: str) -> bool:
        """Whether a key of `projects` names this workspace (a trailing slash and, on Windows, case do not matter)."""
        return bool(key) and _same(key) in {_same(spelling) for spelling in self.workspace_keys()}


def _same(path: str) -> str:
    return os.path.normcase(os.path.normpath(path))


def home_folder() -> Path:
    """The user's home folder; where the system knows none, a place in which nothing can be read or written."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def _editor_home(home: Path, environ: Mapping[str, str], *, own_home: bool) -> Path:
    """The folder of the user's VS Code settings."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Code" / "User"
    if sys.platform == "win32":
        roaming = environ.get("APPDATA") if own_home else None
        return (Path(roaming) if roaming else home / "AppData" / "Roaming") / "Code" / "User"
    config = environ.get("XDG_CONFIG_HOME") if own_home else None
    return (Path(config) if config else home / ".config") / "Code" / "User"


@dataclass(frozen=True)
class Document:
    """One file as it was read: a value, or a diagnostic that says why not, or neither when it does not exist."""

    path: Path
    exists: bool = False
    value: JSON = None
    text: str = ""
    problem: Diagnostic | None = None

    @property
    def table(self) -> Mapping[str, JSON]:
        """The top-level object, empty when there is none."""
        return self.value if isinstance(self.value, Mapping) else {}

    @cached_property
    def _root(self) -> Node | None:
        return scan(self.text) if self.text else None

    def place(self, pointer: str) -> tuple[int, int] | tuple[None, None]:
        """Line and column of a value; those of what it stands in when it is not there; nothing without a text."""
        parts = split_pointer(pointer)
        while parts and find(self._root, parts) is None:
            parts = parts[:-1]
        node = find(self._root, parts)
        return line_column(self.text, node.start) if node else (None, None)


def read_bytes(path: Path) -> bytes | None:
    """A regular file's bytes, at most `jsonc.MAX_BYTES` of them, or `None` when it does not exist.

    Raises:
        ConfigError: no file (a folder, a pipe: reading that would block), no permission, too large.
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path}: not a regular file", path=path)
            data = file.read(jsonc.MAX_BYTES + 1)
    except _MISSING:
        return None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a folder stands where a file is expected", path=path) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or type(error).__name__}", path=path) from None
    if len(data) > jsonc.MAX_BYTES:
        raise ConfigError(f"{path}: larger than {jsonc.MAX_BYTES:,} bytes, not read", path=path)
    return data


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_document(path: Path) -> Document:
    """Read one configuration file; never raises."""
    try:
        data = read_bytes(path)
        if data is None:
            return Document(path)
        text = jsonc.decode(data, path).text
        value = jsonc.parse(text, path)
    except ConfigError as error:
        return Document(path, exists=True, problem=diagnostic_of(error))
    if isinstance(value, Mapping):
        return Document(path, True, value, text)
    line, column = jsonc.locate(text, "")
    problem = Diagnostic("error", f"expected an object at the top, found {kind_of(value)}", path, "", line, column)
    return Document(path, True, value, text, problem)


def file_problem(path: Path) -> Diagnostic | None:
    """Why a configuration file cannot be used at all; `None` for one that can, and for one that is not there."""
    return read_document(path).problem


def first_existing(paths: tuple[Path, ...]) -> Path | None:
    """The first of `paths` that is there, readable or not."""
    return next((path for path in paths if os.path.lexists(path)), None)


def diagnostic_of(error: ConfigError, server: str | None = None) -> Diagnostic:
    """A diagnostic that says what a configuration error says."""
    line, column = (error.line, error.column) if isinstance(error, ConfigSyntaxError) else (None, None)
    return Diagnostic("error", jsonc.reason_of(error), error.path, error.pointer, line, column, server)
