"""A view: a provider over another one's sessions, with fewer tools. Closing it closes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from codebuddy_mcp_tools.config import Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import PermissionPolicy, several
from codebuddy_mcp_tools.tools.assembly import Narrowing
from codebuddy_mcp_tools.tools.provider import ToolProvider

_EFFECTS = ("allow", "ask", "deny")


class ProviderView(ToolProvider):
    """What `ToolProvider.view` returns."""

    def __init__(
        self,
        parent: ToolProvider,
        *,
        servers: Iterable[str] | None,
        tools: Iterable[str] | None,
        permissions: Mapping[str, Sequence[str]] | None,
        core_roles: Iterable[str] | None,
    ) -> None:
        self.__dict__.update(parent.__dict__)  # the same sessions, handlers and folders
        self._parent = parent  # whose sessions end with it
        self._watcher = None  # the parent's watcher serves both
        chosen = None if servers is None else frozenset(several(servers))
        for name in chosen or ():
            self._service.server(name)
        if core_roles is not None:
            wanted = frozenset(several(core_roles))
            own = tuple(t for t in self._options.core_tools if _has_role(t.metadata or {}, wanted))
            self._options = replace(self._options, core_tools=own)
        rules = None if tools is None else PermissionPolicy(allow=tools, mode="strict", servers=self._service.names)
        further = permissions or {}
        self._assemble(
            self._assembly.narrowing.then(
                Narrowing(
                    servers=chosen,
                    accepts=lambda tool: rules is None or rules.decide(tool).effect == "allow",
                    settings=lambda settings: _with_rules(settings, further),
                )
            )
        )

    async def aclose(self) -> None:
        """Nothing: the sessions belong to the provider this is a view of."""


def _has_role(metadata: Mapping[str, object], wanted: frozenset[str]) -> bool:
    roles = metadata.get("roles")
    return not isinstance(roles, Iterable) or bool(wanted & set(roles))


def _with_rules(settings: Settings, rules: Mapping[str, Sequence[str]]) -> Settings:
    unknown = [name for name in rules if name not in _EFFECTS]
    if unknown:
        raise ConfigError(f"permissions of a view have no {', '.join(unknown)!r}; they have allow, ask and deny")
    merged = {name: (*getattr(settings.permissions, name), *several(rules.get(name, ()))) for name in _EFFECTS}
    return settings.model_copy(update={"permissions": settings.permissions.model_copy(update=merged)})
