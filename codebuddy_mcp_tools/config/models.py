"""What one server entry may say: three pydantic models, told apart by `type`.

Policy: the models hold what the user wrote, unexpanded, and are immutable. Unknown keys are kept (files are shared with
other hosts). `repr` and `str` show the *names* of environment variables and headers, never a value. Spelling variants
are settled before, in `entry.parse_server`; in code, the models take snake_case or the camelCase of the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StringConstraints
from pydantic.alias_generators import to_camel

from codebuddy_mcp_tools.config.display import MASK, display_args, display_url
from codebuddy_mcp_tools.types import Transport


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, found true or false")  # noqa: TRY004 - pydantic reports ValueErrors
    return value


Milliseconds = Annotated[float, Field(gt=0, le=86_400_000, allow_inf_nan=False), BeforeValidator(_no_boolean)]
Characters = Annotated[int, Field(gt=0, le=100_000_000), BeforeValidator(_no_boolean)]
NonEmpty = Annotated[str, StringConstraints(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        str_strip_whitespace=False,
    )
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields whose value `repr` replaces by `***`."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if name in (self.model_extra or {}):
                yield name, MASK  # an unknown key may hold anything
            elif name not in self.hidden:
                yield name, value
            else:
                yield name, dict.fromkeys(value, MASK) if isinstance(value, dict) else value and MASK

    def __str__(self) -> str:
        return repr(self)


class ToolConfig(_Model):
    """Settings of one tool, over those of its server; `None` means "as the server says"."""

    enabled: StrictBool | None = None
    """`False`: the tool is never listed and cannot be called."""
    defer_loading: StrictBool | None = Field(default=None, alias="defer_loading")
    max_result_chars: Characters | None = None
    timeout: Milliseconds | None = None
    """Deadline of one call, in milliseconds."""

    @property
    def call_timeout_s(self) -> float | None:
        """Deadline of one call in seconds, or `None`."""
        return None if self.timeout is None else self.timeout / 1000


class OAuthConfig(_Model):
    """OAuth client settings of a remote server; everything is optional and discovered when absent."""

    hidden = frozenset({"client_secret"})

    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    """Space-separated scopes."""
    callback_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    redirect_uri: str | None = None
    client_name: str | None = None
    client_metadata_url: str | None = None
    auth_server_metadata_url: str | None = None


class _ServerBase(_Model):
    description: str | None = None
    enabled: StrictBool = True
    defer_loading: StrictBool | None = Field(default=None, alias="defer_loading")
    tools: dict[str, ToolConfig] = Field(default_factory=dict)
    """Per tool, by the server's own name for it."""
    tool_allowlist: tuple[str, ...] | None = None
    """When set, every other tool is dropped."""
    max_result_chars: Characters | None = None
    """Results longer than this are truncated. Characters."""
    always_load: StrictBool | None = None
    """Show full schemas from the start, whatever the default exposure is."""
    env: dict[str, str] = Field(default_factory=dict)
    """stdio: added to the child's environment. Remote: values for `${VAR}` in url and headers."""
    timeout: Milliseconds | None = None
    """How long the server may take to start, in milliseconds (as `MCP_TIMEOUT`)."""
    tool_timeout: Milliseconds | None = None
    """How long one call may take, in milliseconds (as `MCP_TOOL_TIMEOUT`)."""
    breaker_threshold: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Failures in a row that open the circuit breaker."""
    breaker_cooldown: Milliseconds | None = None
    """How long the breaker stays open, in milliseconds."""

    @property
    def start_timeout_s(self) -> float | None:
        """Start deadline in seconds, or `None` for the default."""
        return None if self.timeout is None else self.timeout / 1000

    @property
    def call_timeout_s(self) -> float | None:
        """Call deadline in seconds, or `None` for the default."""
        return None if self.tool_timeout is None else self.tool_timeout / 1000

    @property
    def breaker_cooldown_s(self) -> float | None:
        """Breaker cooldown in seconds, or `None` for the default."""
        return None if self.breaker_cooldown is None else self.breaker_cooldown / 1000

    def tool(self, name: str) -> ToolConfig:
        """The settings of one tool; empty ones when the file says nothing about it."""
        return self.tools.get(name) or ToolConfig()

    def offers(self, name: str) -> bool:
        """Whether the file lets this tool be listed (`toolAllowlist`, `tools.<name>.enabled`)."""
        return (self.tool_allowlist is None or name in self.tool_allowlist) and self.tool(name).enabled is not False

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """Keys of the entry that nothing here reads."""
        return tuple(self.model_extra or ())


class StdioServer(_ServerBase):
    """A local process that speaks MCP over its standard input and output."""

    hidden = frozenset({"env"})

    type: Literal["stdio"] = "stdio"
    command: NonEmpty
    args: tuple[str, ...] = ()
    cwd: str | None = None
    """Working directory; relative to the workspace."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, display_args(value) if name == "args" else value

    @property
    def transport(self) -> Transport:
        return Transport.STDIO


class _RemoteServer(_ServerBase):
    hidden = frozenset({"env", "headers"})

    url: NonEmpty
    headers: dict[str, str] = Field(default_factory=dict)
    oauth: OAuthConfig | None = None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, display_url(value) if name == "url" else value


class SseServer(_RemoteServer):
    """A remote server over the older HTTP + Server-Sent Events transport."""

    type: Literal["sse"] = "sse"

    @property
    def transport(self) -> Transport:
        return Transport.SSE


class HttpServer(_RemoteServer):
    """A remote server over Streamable HTTP."""

    type: Literal["http"] = "http"

    @property
    def transport(self) -> Transport:
        return Transport.HTTP


ServerConfig = Annotated[StdioServer | SseServer | HttpServer, Field(discriminator="type")]
