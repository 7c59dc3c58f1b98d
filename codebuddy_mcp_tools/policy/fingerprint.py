"""What an approval binds: everything that decides which code runs or where data goes.

Policy (DESIGN section 2, "what approval binds"): SHA-256 over a canonical JSON of workspace, scope, name, transport,
command and its resolved executable, the argument list, working directory, raw URL, and every environment variable and
header with a keyed hash of its *raw, unexpanded* value. So a changed literal value asks again (an unchanged list of
names with another `PATH`, `PYTHONPATH` or `NODE_OPTIONS` runs other code), a rotated `${TOKEN}` does not, and the
store holds no secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.config import ServerConfig, ServerEntry, StdioServer
from codebuddy_mcp_tools.types import Transport

_VERSION = 1


def fingerprint(entry: ServerEntry, *, workspace: Path | None, key: bytes, environ: Mapping[str, str]) -> str:
    """64 hex digits that change with everything an approval is about, and with nothing else.

    Order of keys, description, limits and tool settings are not part of it.

    Args:
        entry: an entry whose `config` can be used.
        workspace: the project's folder.
        key: the user's secret for the hashes of values.
        environ: the host's environment, for finding the executable.
    """
    bound = {
        "v": _VERSION,
        "workspace": os.path.realpath(workspace) if workspace else None,
        "scope": entry.scope.value,
        "name": entry.name,
        **(_bound(entry.config, workspace, key, environ) if entry.config is not None else {}),
    }
    return hashlib.sha256(_canonical(bound)).hexdigest()


def _bound(config: ServerConfig, workspace: Path | None, key: bytes, environ: Mapping[str, str]) -> dict[str, Any]:
    bound: dict[str, Any] = {"transport": _transport(config).value, "env": _hashed(config.env, key)}
    if isinstance(config, StdioServer):
        return bound | {
            "command": config.command,
            "executable": executable_of(config, workspace, environ),
            "args": list(config.args),
            "cwd": str(working_directory(config.cwd, workspace)),
        }
    bound |= {"url": config.url, "headers": _hashed(config.headers, key)}
    if config.oauth is not None:
        bound["oauth"] = _mac(key, config.oauth.model_dump_json(exclude_none=True))
    return bound


def executable_of(config: StdioServer, workspace: Path | None, environ: Mapping[str, str]) -> str | None:
    """The real file a command starts, links followed; `None` when it is not found or holds a variable.

    Looked up as the child would be: in the entry's own `PATH` when it sets one.
    """
    command = config.command
    if "${" in command:
        return None
    base = working_directory(config.cwd, workspace)
    if os.sep in command or (os.altsep and os.altsep in command):
        found: str | None = os.path.join(base, os.path.expanduser(command))
    else:
        own = config.env.get("PATH", "")
        search = own if own and "${" not in own else environ.get("PATH", os.defpath)
        found = shutil.which(command, path=search)
    return os.path.realpath(found) if found and os.path.exists(found) else None


def working_directory(cwd: str | None, workspace: Path | None) -> Path:
    """Where the process would start: `cwd`, relative to the workspace, or the workspace, or the current directory."""
    base = workspace or Path.cwd()
    return Path(os.path.realpath(os.path.join(base, os.path.expanduser(cwd)) if cwd else base))


def _transport(config: ServerConfig) -> Transport:
    return config.transport


def _hashed(values: Mapping[str, str], key: bytes) -> dict[str, str]:
    return {name: _mac(key, f"{name}\0{value}") for name, value in values.items()}


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")
