"""What a user may set besides servers: rules, approvals, limits.

Policy: `Settings` is one immutable value; where each part came from is in `origins`, what was wrong in `diagnostics`.
`layers.load_settings` makes it out of files. Given in code, it replaces the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from codebuddy_mcp_tools.types import Diagnostic

PermissionMode = Literal["autonomous", "cautious", "manual", "strict"]
ToolPermission = Literal["allow", "ask", "deny"]
ToolExposure = Literal["auto", "full", "stub", "deferred"]
Names = tuple[str, ...]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(gt=0, le=86_400_000, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True
    )


class Permissions(_Frozen):
    """Rules for tools, `mcp__server`, `mcp__server__tool`, `mcp__*`; deny goes before ask before allow."""

    allow: Names = ()
    ask: Names = ()
    deny: Names = ()


class Settings(_Frozen):
    """Everything that is not a server. Keys of files are the camelCase of these names."""

    permissions: Permissions = Permissions()
    tool_permissions: dict[str, ToolPermission] = Field(default_factory=dict)
    permission_mode: PermissionMode = "autonomous"
    """What happens to a tool no rule matches."""
    disabled_mcp_servers: Names = ()
    enabled_mcpjson_servers: Names = Field(default=(), alias="enabledMcpjsonServers")
    disabled_mcpjson_servers: Names = Field(default=(), alias="disabledMcpjsonServers")
    enable_all_project_mcp_servers: StrictBool = False
    stdio_always: StrictBool = False
    """Ask before the first start of every stdio server of a file, whatever its scope."""
    completion_gate_enabled: StrictBool = True
    tool_exposure: ToolExposure = "auto"
    defer: Names = ()
    """`Defer(pattern)` and `NoDefer(pattern)` modifiers."""
    call_style: Literal["direct", "execute"] = "direct"
    tool_search: Literal["own", "provider"] = "own"
    """`provider`: a model's provider that searches tools itself (Anthropic, OpenAI) does so, and ours is not bound."""
    allowed_hosts: Names = ()
    """Private hosts that may be dialled."""
    trust_env: StrictBool = False
    """Use proxies and `.netrc` of the environment."""
    pin_policy: Literal["warn", "block"] = "warn"
    max_output_tokens: Annotated[int, Field(gt=0, le=10_000_000)] = 20_000
    """Larger results are saved to disk; `MAX_MCP_OUTPUT_TOKENS`."""
    large_output_files: StrictBool = True
    start_timeout_ms: Milliseconds = 30_000
    """`MCP_TIMEOUT`"""
    tool_timeout_ms: Milliseconds = 60_000
    """`MCP_TOOL_TIMEOUT`"""
    reconnect_delays_s: Annotated[tuple[Seconds, ...], Field(min_length=1, max_length=20)] = (1, 2, 4)
    """Waits after each failed attempt of one connection cycle; their number is the number of attempts."""
    breaker_threshold: Annotated[int, Field(ge=1, le=1000)] = 3
    breaker_cooldown_s: Seconds = 300
    tool_cache_ttl_s: Seconds = 300
    audit: StrictBool = True
    max_concurrency: Annotated[int, Field(ge=1, le=1000)] = 10

    diagnostics: tuple[Diagnostic, ...] = Field(default=(), exclude=True, repr=False)
    origins: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Field name to the file, variable or argument that decided it; a field that is absent has its default."""

    @property
    def start_timeout_s(self) -> float:
        return self.start_timeout_ms / 1000

    @property
    def tool_timeout_s(self) -> float:
        return self.tool_timeout_ms / 1000
