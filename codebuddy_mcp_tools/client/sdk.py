"""The one place of the client room that knows names of the MCP SDK, and what mcp 2 calls them.

Policy: importing the SDK takes 0.3 s, more than starting a small server, and a session needs little of it. So what is
needed at once stands here as plain constants, which a test compares with the installed SDK, and the rest is imported
when it is used. mcp 2 renamed fields and classes (`facts` of its migration guide), so every use of both goes here.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TextIO

from codebuddy_mcp_tools.types import JSONObject

PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of MCP that a session may settle on, oldest first: the SDK's `SUPPORTED_PROTOCOL_VERSIONS`."""
LATEST_PROTOCOL_VERSION = PROTOCOL_VERSIONS[-1]

_POSIX_ENVIRONMENT = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_WINDOWS_ENVIRONMENT = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE",
    "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
INHERITED_ENVIRONMENT = _WINDOWS_ENVIRONMENT if sys.platform == "win32" else _POSIX_ENVIRONMENT
"""Variables of ours that a child process gets: the SDK's `DEFAULT_INHERITED_ENV_VARS`."""


def child_environment(own: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a server's process: the safe part of ours, and on top what its entry says.

    Args:
        own: `env` of the server's entry, expanded.
        environ: our environment, default `os.environ`.
    """
    ours = os.environ if environ is None else environ
    # A value that starts with "()" is an exported shell function: bash would run it.
    safe = {name: ours[name] for name in INHERITED_ENVIRONMENT if name in ours and not ours[name].startswith("()")}
    return {**safe, **own}


@functools.cache
def client_info() -> dict[str, Any]:
    """How we introduce ourselves in `initialize`. The first time it looks at files."""
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms, and only a session needs it

    return {"name": "codebuddy-mcp-tools", "title": "CodeBuddy MCP tools", "version": version("codebuddy-mcp-tools")}


class StreamsClosedError(Exception):
    """The SDK's transport has ended. The text is one line for people."""


class Streams:
    """The pair of streams of one of the SDK's transports, in plain JSON."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    async def send(self, message: JSONObject) -> None:
        """Hand a message to the transport. Raises `StreamsClosedError`."""
        import anyio  # noqa: PLC0415
        from mcp.shared.message import SessionMessage  # noqa: PLC0415
        from mcp.types import JSONRPCMessage  # noqa: PLC0415 - mcp 2 has an adapter in its place

        try:
            await self._write.send(SessionMessage(JSONRPCMessage.model_validate(message)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise StreamsClosedError("the server's input is closed") from None

    async def received(self) -> AsyncIterator[dict[str, Any] | Exception]:
        """The messages that arrive; an exception for one that the SDK could not read. Raises `StreamsClosedError`."""
        import anyio  # noqa: PLC0415

        try:
            async for item in self._read:
                if isinstance(item, Exception):
                    yield item
                else:
                    yield item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise StreamsClosedError("the server's output is closed") from None


@asynccontextmanager
async def stdio_streams(
    command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None, errors: TextIO
) -> AsyncIterator[Streams]:
    """Start a process by the SDK and yield its streams; `errors` is a real file and gets its stderr.

    Raises:
        OSError: it cannot be started.
    """
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

    parameters = StdioServerParameters(
        command=command, args=list(args), env=dict(env), cwd=cwd, encoding_error_handler="replace"
    )
    async with stdio_client(parameters, errlog=errors) as (read, write):
        yield Streams(read, write)
