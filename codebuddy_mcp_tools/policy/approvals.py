"""Which servers a person has let in: the stored answers, per workspace.

Policy: every server that a project's own files define waits for an answer, whatever its transport; with
`stdio_always` every stdio server of every file does. Servers given in code need none. An answer is bound to a
fingerprint (see `fingerprint`) and counts for that alone: any change asks again. Without a person, the user's
settings answer: `disabledMcpjsonServers` first, then `enabledMcpjsonServers`, then a stored answer, then
`enableAllProjectMcpServers`. A store that others could have written counts as empty. Nothing here starts, dials or
expands anything.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from codebuddy_mcp_tools.config import PROJECT_SCOPES, ServerConfig, ServerEntry, Settings, StdioServer, placeholders
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.fingerprint import fingerprint, working_directory
from codebuddy_mcp_tools.policy.request import ApprovalRequest
from codebuddy_mcp_tools.policy.risks import risks_of
from codebuddy_mcp_tools.policy.secrets import display_raw_url
from codebuddy_mcp_tools.policy.skeleton import loose
from codebuddy_mcp_tools.policy.store import (
    Distrust,
    PrivateStore,
    make_private_directory,
    read_private,
    replace_private,
)
from codebuddy_mcp_tools.types import Admission, Diagnostic, Scope, Transport

_STORE = "mcp-approvals.json"
_KEY = "mcp-approvals.key"
_KEY_BYTES = 32


class ServerApprovals:
    """The answers for one workspace, kept in the user's state directory.

    Args:
        state_dir: the user's own directory (`~/.codebuddy`), never inside the workspace.
        workspace: the project's folder; answers of one project say nothing about another.
        environ: the host's environment, for finding executables; default `os.environ`.
    """

    def __init__(self, state_dir: Path, workspace: Path | None, *, environ: Mapping[str, str] | None = None) -> None:
        self._store = PrivateStore(state_dir / _STORE)
        self._key_path = state_dir / _KEY
        self._workspace = workspace
        self._place = os.path.realpath(workspace) if workspace else ""
        self._environ = os.environ if environ is None else environ
        self._key: bytes | None = None
        self._unsaved: dict[str, dict[str, Any]] = {}
        self._problems: dict[str, Diagnostic] = {}

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong with the store, one line each."""
        return tuple(self._problems.values())

    def fingerprint(self, entry: ServerEntry) -> str:
        """What an answer about this entry is bound to."""
        return fingerprint(entry, workspace=self._workspace, key=self._user_key(), environ=self._environ)

    def state(self, entry: ServerEntry, settings: Settings) -> Admission:
        """Whether the server may start now."""
        if entry.config is None:
            return Admission.INVALID
        if not entry.config.enabled or entry.name in settings.disabled_mcp_servers:
            return Admission.DISABLED
        if not needs_approval(entry, settings):
            return Admission.ADMITTED
        by_settings = _answered_by_name(entry, settings)
        if by_settings is not None:
            return by_settings
        answer = self._answer(entry)
        if answer is not None:
            return Admission.ADMITTED if answer else Admission.REJECTED
        if settings.enable_all_project_mcp_servers and entry.scope in PROJECT_SCOPES:
            return Admission.ADMITTED
        return Admission.PENDING

    def request(self, entry: ServerEntry) -> ApprovalRequest:
        """The question about this entry, complete.

        Raises:
            ConfigError: the entry cannot be used, so there is nothing to approve.
        """
        config = entry.config
        if config is None:
            raise ConfigError(
                entry.error or f"server {entry.name!r} cannot be used", path=entry.path, pointer=entry.pointer
            )
        shared: dict[str, Any] = {
            "server": entry.name,
            "scope": entry.scope,
            "transport": config.transport,
            "env_names": tuple(config.env),
            "fingerprint": self.fingerprint(entry),
            "workspace": self._workspace,
            "source": entry.path,
            "warnings": risks_of(config, self._workspace),
            "variables": _variables(config),
        }
        if isinstance(config, StdioServer):
            cwd = str(working_directory(config.cwd, self._workspace))
            return ApprovalRequest(command=config.command, args=config.args, cwd=cwd, **shared)
        return ApprovalRequest(url=display_raw_url(config.url), header_names=tuple(config.headers), **shared)

    def record(self, entry: ServerEntry, approved: bool) -> bool:
        """Keeps an answer; it replaces the one before for this server and scope.

        Returns:
            Whether it was kept. When the store cannot be written the answer counts for this process, and `diagnostics`
            says so.
        """
        answer = {
            "fingerprint": self.fingerprint(entry),
            "approved": approved,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        key = _entry_key(entry)

        def edit(data: dict[str, Any]) -> None:
            _section(data, self._place)[key] = answer

        self._unsaved.pop(key, None)
        try:
            self._store.change(edit)
        except ConfigError as error:
            self._unsaved[key] = answer
            problem = str(error).removeprefix(f"{self._store.path} ")
            self._report("write", f"{problem}; the answer about {entry.name!r} counts for this process only")
            return False
        return True

    def reset(self, server: str | None = None) -> None:
        """Forgets the answers about one server, or all of this workspace: they are asked again.

        Raises:
            ConfigError: the store cannot be written.
        """

        def edit(data: dict[str, Any]) -> None:
            section = _section(data, self._place)
            for key in list(section):
                if server is None or key.partition(":")[2] == server:
                    del section[key]

        self._unsaved = {
            key: value for key, value in self._unsaved.items() if server and key.partition(":")[2] != server
        }
        if self._store.path.exists():
            self._store.change(edit)

    def _answer(self, entry: ServerEntry) -> bool | None:
        key = _entry_key(entry)
        stored = self._unsaved.get(key) or _section(self._read(), self._place).get(key)
        if not isinstance(stored, dict) or not isinstance(stored.get("approved"), bool):
            return None
        return stored["approved"] if stored.get("fingerprint") == self.fingerprint(entry) else None

    def _read(self) -> dict[str, Any]:
        data = self._store.read()
        if self._store.problem:
            problem = self._store.problem.removeprefix(f"{self._store.path} ")
            self._report("read", f"{problem}: no server counts as approved; approve again, or repair the file")
        return data

    def _user_key(self) -> bytes:
        """The user's secret, made on first use; for this process only when the directory cannot be written."""
        if self._key is None:
            found = self._stored_key()
            self._key = found if found is not None else self._new_key()
        return self._key

    def _stored_key(self) -> bytes | None:
        raw = read_private(self._key_path, secret=True)
        if isinstance(raw, Distrust):
            self._report(
                "key", f"{raw.reason.removeprefix(f'{self._key_path} ')}: earlier approvals do not count any more"
            )
            return None
        if raw is None:
            return None
        try:
            key = bytes.fromhex(raw.decode("ascii"))
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            self._report("key", "is damaged: earlier approvals do not count any more")
            return None
        return key

    def _new_key(self) -> bytes:
        key = secrets.token_bytes(_KEY_BYTES)
        try:
            make_private_directory(self._key_path.parent)
            with FileLock(f"{self._key_path}.lock", timeout=10, mode=0o600):
                theirs = self._stored_key()  # another process may have been first
                if theirs is not None:
                    return theirs
                replace_private(self._key_path, key.hex().encode("ascii"))
        except (OSError, Timeout) as error:
            self._report("key", f"cannot be written ({error}): approvals count for this process only")
        return key

    def _report(self, what: str, message: str) -> None:
        path = self._key_path if what == "key" else self._store.path
        self._problems[what] = Diagnostic("warning", message, path=path)


def needs_approval(entry: ServerEntry, settings: Settings) -> bool:
    """Whether a person has to answer before this server starts."""
    if entry.scope in PROJECT_SCOPES:
        return True
    is_stdio = entry.config is not None and entry.config.transport is Transport.STDIO
    return settings.stdio_always and is_stdio and entry.scope is not Scope.CODE


def pending_message(servers: Mapping[str, ServerEntry] | list[str]) -> str:
    """One line that names the servers that wait, and says how to let them in."""
    names = ", ".join(sorted(servers))
    return (
        f"not started, waiting for approval: {names} (run `codebuddy-mcp approve NAME`, or set "
        "enabledMcpjsonServers or enableAllProjectMcpServers in your own settings)"
    )


def _answered_by_name(entry: ServerEntry, settings: Settings) -> Admission | None:
    """What the user's settings say of this server by name; they are about a project's servers only."""
    if entry.scope not in PROJECT_SCOPES:
        return None
    if loose(entry.name) in map(loose, settings.disabled_mcpjson_servers):  # generous, like every refusal
        return Admission.REJECTED
    return Admission.ADMITTED if entry.name in settings.enabled_mcpjson_servers else None


def _variables(config: ServerConfig) -> tuple[str, ...]:
    if isinstance(config, StdioServer):
        texts = [config.command, *config.args, *config.env.values()]
    else:
        texts = [config.url, *config.headers.values(), *config.env.values()]
    return tuple(dict.fromkeys(name for text in texts for name in placeholders(text)))


def _entry_key(entry: ServerEntry) -> str:
    return f"{entry.scope.value}:{entry.name}"


def _section(data: dict[str, Any], place: str) -> dict[str, Any]:
    """The answers of one workspace inside the whole store; damaged parts are replaced."""
    current = data
    for key in ("workspaces", place):
        if not isinstance(current.get(key), dict):
            current[key] = {}
        current = current[key]
    return current
