"""Every error this package raises, in one tree.

    MCPToolsError
    ├── ConfigError                 .path .pointer
    │   ├── ConfigSyntaxError       .line .column
    │   └── UnknownServerError      .server
    ├── PolicyError                 .server
    │   ├── ServerNotApprovedError
    │   ├── BlockedURLError
    │   └── ToolDeniedError         .tool .rule
    ├── ServerError                 .server
    │   ├── ConnectError
    │   ├── ConnectionLostError     .sent
    │   ├── CallTimeoutError
    │   ├── CircuitOpenError        .retry_after
    │   └── ProtocolError           .code
    └── ToolFailedError             .server .tool

Errors of other libraries are turned into these at one place, in `client/`. The text of an error is one or two lines
that say what went wrong and what to do next; what a program needs is in the attributes, never only in the text. No
error text holds the value of a header, an environment variable, or the user-info or query of a URL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class MCPToolsError(Exception):
    """The root: catch this to catch everything that this package raises on purpose."""


class ConfigError(MCPToolsError):
    """Something the user wrote cannot be used.

    Attributes:
        path: the file it stands in, or `None` when it was given in code.
        pointer: the JSON Pointer (RFC 6901) of the value inside the file, `""` for the whole document.
    """

    def __init__(self, message: str, *, path: Path | None = None, pointer: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.pointer = pointer


class ConfigSyntaxError(ConfigError):
    """A file is not JSON with comments.

    Attributes:
        line: 1-based line of the first character that does not fit.
        column: 1-based column of that character.
    """

    def __init__(self, message: str, *, line: int, column: int, path: Path | None = None, pointer: str = "") -> None:
        super().__init__(message, path=path, pointer=pointer)
        self.line = line
        self.column = column


class UnknownServerError(ConfigError):
    """A server was asked for that no configuration names.

    Attributes:
        server: the name that was asked for.
    """

    def __init__(self, message: str, *, server: str, path: Path | None = None) -> None:
        super().__init__(message, path=path)
        self.server = server


class PolicyError(MCPToolsError):
    """A rule of the user's, or a safety rule of this package, forbids it.

    Attributes:
        server: the server concerned, as configured.
    """

    def __init__(self, message: str, *, server: str = "") -> None:
        super().__init__(message)
        self.server = server


class ServerNotApprovedError(PolicyError):
    """A project's own files define this server and nobody has approved it yet: nothing was started."""


class BlockedURLError(PolicyError):
    """An outbound address is refused; no socket was opened to it."""


class ToolDeniedError(PolicyError):
    """A permission rule or mode denies this call; it was not sent.

    Attributes:
        tool: the tool, by the server's own name for it.
        rule: the rule that decided, as the user wrote it, or `None` when the mode decided.
    """

    def __init__(self, message: str, *, server: str, tool: str, rule: str | None = None) -> None:
        super().__init__(message, server=server)
        self.tool = tool
        self.rule = rule


class ServerError(MCPToolsError):
    """A server could not be reached, went away, or broke the protocol.

    Attributes:
        server: the server's name, as configured.
    """

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server


class ConnectError(ServerError):
    """A session could not be opened; no call was sent.

    Attributes:
        retryable: whether another try can help (`False` for a missing command, a refused address, a 401).
        retry_after: seconds the server asked us to wait (`Retry-After`), or `None`.
    """

    def __init__(self, message: str, *, server: str, retryable: bool = True, retry_after: float | None = None) -> None:
        super().__init__(message, server=server)
        self.retryable = retryable
        self.retry_after = retry_after


class ConnectionLostError(ServerError):
    """The session ended while a call was waiting.

    Attributes:
        sent: `False` when the request provably never left, so that it may be sent again; `True` when it may have run.
    """

    def __init__(self, message: str, *, server: str, sent: bool) -> None:
        super().__init__(message, server=server)
        self.sent = sent


class CallTimeoutError(ServerError):
    """No answer within the deadline. The request was sent: it may have run, or may still run.

    Attributes:
        timeout: the deadline that passed, in seconds.
    """

    def __init__(self, message: str, *, server: str, timeout: float) -> None:
        super().__init__(message, server=server)
        self.timeout = timeout


class CircuitOpenError(ServerError):
    """The server failed too often; nothing is sent to it for a while.

    Attributes:
        retry_after: seconds until one probe is allowed.
    """

    def __init__(self, message: str, *, server: str, retry_after: float) -> None:
        super().__init__(message, server=server)
        self.retry_after = retry_after


class ProtocolError(ServerError):
    """The server answered with a JSON-RPC error, or with something that is not an MCP answer.

    Attributes:
        code: the JSON-RPC error code, or `None` when there was none.
        data: the server's `error.data`, plain JSON, or `None`.
        ran: whether the call may have run (a malformed *answer* to it did; an error answer says it did not).
    """

    def __init__(
        self, message: str, *, server: str, code: int | None = None, data: Any = None, ran: bool = False
    ) -> None:
        super().__init__(message, server=server)
        self.code = code
        self.data = data
        self.ran = ran


class ToolFailedError(MCPToolsError):
    """The tool ran and reported a failure (`isError`).

    Attributes:
        server: the server's name, as configured.
        tool: the tool, by the server's own name for it.
    """

    def __init__(self, message: str, *, server: str, tool: str) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool
