"""The plain values that travel between the rooms: frozen dataclasses and enums, no behaviour, no foreign types.

No object of the MCP SDK, of LangChain or of pydantic is in here, so a second client implementation, a checkpoint and a
user's own code can all hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

JSON = Any
"""A JSON value as `json.loads` gives it."""
JSONObject = Mapping[str, JSON]


class Transport(StrEnum):
    """How a server is reached."""

    STDIO = "stdio"
    SSE = "sse"
    HTTP = "http"


class Scope(StrEnum):
    """Where a server entry was written, highest priority first."""

    CODE = "code"
    LOCAL = "local"
    WORKSPACE = "workspace"
    PROJECT = "project"
    USER = "user"


class Admission(StrEnum):
    """Whether a configured server may be started."""

    ADMITTED = "admitted"
    PENDING = "pending"
    """A project's own files define it; nobody has answered yet."""
    REJECTED = "rejected"
    """Somebody said no, or a setting names it in `disabledMcpjsonServers`."""
    DISABLED = "disabled"
    INVALID = "invalid"
    """The entry cannot be used; the status says why."""


class ClientState(StrEnum):
    """The states of one server's connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    ERROR = "error"


class CircuitState(StrEnum):
    """The states of one server's circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Effect(StrEnum):
    """What a tool does to the world, as far as verification and order are concerned."""

    READ = "read"
    WRITE = "write"


class Outcome(StrEnum):
    """How one tool call ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    """The tool ran and said `isError`, or the server answered with a JSON-RPC error."""
    NOT_RUN = "not_run"
    """Refused, denied, or it provably never reached the server."""
    UNKNOWN = "unknown"
    """It was sent and no answer came: it may have run."""
    CANCELLED = "cancelled"


class Exposure(StrEnum):
    """How much of a tool the model is shown."""

    FULL = "full"
    STUB = "stub"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One line about something the user wrote: what, where, and what to do."""

    severity: str
    """`"error"`, `"warning"` or `"note"`."""
    message: str
    path: Path | None = None
    pointer: str = ""
    line: int | None = None
    column: int | None = None
    server: str | None = None

    def __str__(self) -> str:
        where = f"{self.path}" if self.path else ""
        if where and self.line is not None:
            where += f":{self.line}:{self.column}"
        return f"{where}: {self.message}" if where else self.message


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """One tool as its server lists it, by the server's own names."""

    server: str
    name: str
    description: str = ""
    title: str | None = None
    input_schema: JSONObject = field(default_factory=dict)
    """The schema as the server sent it, `{}` when it sent none."""
    output_schema: JSONObject | None = None
    annotations: JSONObject = field(default_factory=dict)
    meta: JSONObject = field(default_factory=dict)
    definition: JSONObject = field(default_factory=dict)
    """The whole JSON object of `tools/list`, as received: pins are hashes of this."""


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The answer of one server to `tools/list`, all pages, in the server's order."""

    server: str
    tools: tuple[ToolInfo, ...]
    problems: tuple[str, ...] = ()
    """One line for each entry that could not be used, naming the tool."""
    version: int = 0
    """Grows with every listing that differs from the one before it."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a server answered to one `tools/call`, before anything is converted."""

    content: tuple[JSONObject, ...]
    """Content blocks as plain JSON objects; unknown kinds are kept."""
    structured_content: JSON | None = None
    is_error: bool = False
    meta: JSONObject = field(default_factory=dict)
    duration_ms: float = 0.0
    notes: tuple[str, ...] = ()
    """What was wrong with the answer and had to be put right, one line each."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server said of itself when the session was opened."""

    name: str = ""
    version: str = ""
    title: str | None = None
    protocol_version: str = ""
    capabilities: JSONObject = field(default_factory=dict)
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One resource or resource template a server offers."""

    server: str
    uri: str
    """The URI, or the RFC 6570 template when `is_template`."""
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    """Bytes, as the server states it."""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """One part of a resource that was read: `text` or `blob`, never both."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = None


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """One prompt template a server offers."""

    server: str
    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a rendered prompt; `content` is one content block as plain JSON."""

    role: str
    content: JSONObject


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A prompt as a command a person can type."""

    name: str
    """`/server:prompt`"""
    server: str
    prompt: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A snapshot of one configured server; making it touches no server and no secret is in it."""

    name: str
    scope: Scope
    admission: Admission
    state: ClientState = ClientState.DISCONNECTED
    transport: Transport | None = None
    source: Path | None = None
    message: str | None = None
    """One line: what is wrong or pending, and what to do about it; `None` when all is well."""
    last_error: str | None = None
    last_error_at: datetime | None = None
    attempts: int = 0
    """Connection attempts in the cycle that is running or ran last."""
    breaker: CircuitState = CircuitState.CLOSED
    retry_after: float | None = None
    """Seconds until the breaker lets one probe through."""
    connected_since: datetime | None = None
    tools_total: int = 0
    tools_exposed: int = 0
    context_tokens: int = 0
    """Estimated tokens of the schemas a model is shown for this server."""
    server_info: ServerInfo | None = None
    pid: int | None = None
    stderr_tail: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
