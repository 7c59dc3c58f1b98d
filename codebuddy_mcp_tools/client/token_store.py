"""Logins on disk: for each server, by authorization server (issuer), the client registration and the tokens.

Policy: one private file (0600, in a 0700 directory) for each pair of server name and URL, so that a server which takes
over a known name under another URL never gets its predecessor's token. Tokens belong to the issuer that made them and
are not offered to another one. A file that others may read or write is reported and does not count.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import httpx
from filelock import AsyncFileLock

from codebuddy_mcp_tools.policy.store import Distrust, PrivateStore, make_private_directory, read_private

logger = logging.getLogger(__name__)

Record = dict[str, Any]
"""What is kept for one issuer: `client`, `tokens`, `expires_at` (Unix seconds), `metadata`, `resource`."""
_REFRESH_PATIENCE = 30.0


class TokenStore:
    """The login of one server.

    Args:
        directory: where the files are; `None` keeps everything in memory.
        server: the server's name, as configured.
        url: its URL; user-info, query and fragment do not matter.
    """

    def __init__(self, directory: Path | None, server: str, url: str) -> None:
        self.path = None if directory is None else directory / f"{_slug(server)}-{_digest(server, url)}.json"
        self._memory: dict[str, Any] = {"server": server, "url": _bare(url)}

    def exists(self) -> bool:
        """Whether there may be a login; reads nothing."""
        return self.path.exists() if self.path is not None else "current" in self._memory

    def read(self) -> tuple[str, Record]:
        """The current issuer and what is kept for it: `("", {})` when there is no login."""
        content = self._content()
        issuer, records = content.get("current"), content.get("issuers")
        record = records.get(issuer) if isinstance(records, dict) and isinstance(issuer, str) else None
        return (issuer, record) if isinstance(issuer, str) and isinstance(record, dict) else ("", {})

    def change(self, issuer: str, edit: Callable[[Record], None]) -> None:
        """Makes `issuer` the current one and changes its record in place.

        Raises:
            ConfigError: the file cannot be written.
        """

        def apply(content: dict[str, Any]) -> None:
            content.update(server=self._memory["server"], url=self._memory["url"], current=issuer)
            records = content.setdefault("issuers", {})
            edit(records.setdefault(issuer, {}))

        if self.path is None:
            apply(self._memory)
        else:
            PrivateStore(self.path).change(apply)

    def remove(self) -> bool:
        """Forgets the login, all issuers of it; whether there was one."""
        known = self.exists()
        self._memory.pop("current", None)
        self._memory.pop("issuers", None)
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            Path(f"{self.path}.lock").unlink(missing_ok=True)
        return known

    def refreshing(self) -> AbstractAsyncContextManager[object]:
        """Held while tokens are refreshed: a refresh token may work only once, and other processes have it too."""
        if self.path is None:
            return nullcontext()
        make_private_directory(self.path.parent)
        return AsyncFileLock(f"{self.path}.refresh", timeout=_REFRESH_PATIENCE, mode=0o600)

    def _content(self) -> dict[str, Any]:
        if self.path is None:
            return self._memory
        raw = read_private(self.path, secret=True)
        if isinstance(raw, Distrust):
            logger.warning("a stored login does not count: %s", raw.reason)
            return {}
        try:
            content = json.loads(raw or b"{}")
        except (ValueError, RecursionError):
            logger.warning("a stored login does not count: %s is damaged", self.path)
            return {}
        return content if isinstance(content, dict) else {}


def seconds_left(record: Record) -> int | None:
    """How long the access token of a record is good for; `None` when nobody said."""
    expires_at = record.get("expires_at")
    return int(expires_at - time.time()) if isinstance(expires_at, int | float) else None


def _slug(server: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", server)[:40]


def _digest(server: str, url: str) -> str:
    return hashlib.sha256(f"{server}\0{_bare(url)}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _bare(url: str) -> str:
    parsed = httpx.URL(url)
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))
