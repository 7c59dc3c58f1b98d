"""How much of each tool the model is shown: the whole schema, a stub, or nothing until it searches.

Policy, first hit wins: `NoDefer(...)`, `Defer(...)`, the tool's `defer_loading`, the server's `defer_loading`, `alwaysLoad`
(the entry's, or `anthropic/alwaysLoad` in the tool's `_meta`), the provider's default. `auto` means full schemas as long as
all of them together stay under a tenth of the model's context window, and deferred beyond that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from codebuddy_mcp_tools.config import ServerConfig
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.rules import Inventory, Rule, parse_rule
from codebuddy_mcp_tools.types import Exposure, ToolInfo

DEFAULT_CONTEXT_WINDOW = 128_000
"""Tokens, for a model whose profile does not say."""
AUTO_SHARE = 0.10
"""Share of the context window that full schemas may take under `auto`."""
ALWAYS_LOAD_META = "anthropic/alwaysLoad"

_MODIFIER = re.compile(r"\s*(Defer|NoDefer)\s*\(\s*([^()]*?)\s*\)\s*")
_SPLIT = re.compile(r",(?![^()]*\))")

Default = Literal["auto", "full", "stub", "deferred"]


@dataclass(frozen=True, slots=True)
class Modifier:
    """One `Defer(...)` or `NoDefer(...)`."""

    defers: bool
    rule: Rule

    def concerns(self, tool: ToolInfo) -> bool:
        pair = (tool.server, tool.name)
        return Inventory((tool.server,), (pair,)).touches(self.rule, pair).hit


def parse_modifiers(texts: Iterable[str]) -> tuple[Modifier, ...]:
    """Read modifiers as they stand in a `--tools` argument: `default,Defer(mcp__github__*),NoDefer(mcp__time)`.

    Words that are no modifiers (`default`) are left to whoever chooses tools.

    Raises:
        ConfigError: a modifier cannot be read; the text is quoted.
    """
    parts = [part for text in texts for part in _SPLIT.split(text) if part.strip()]
    return tuple(_parse(part) for part in parts if "(" in part or ")" in part)


def _parse(text: str) -> Modifier:
    match = _MODIFIER.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"modifier {text.strip()!r} cannot be read; write Defer(mcp__server__*) or NoDefer(mcp__server__tool)"
        )
    kind, pattern = match.groups()
    rules = [parse_rule(part, kind) for part in pattern.split(",") if part.strip()]
    if len(rules) != 1:
        raise ConfigError(
            f"modifier {text.strip()!r} names {len(rules) or 'no'} tools; one pattern stands in each modifier"
        )
    if rules[0].problem is not None:
        raise ConfigError(f"modifier {text.strip()!r}: the pattern {rules[0].problem}")
    return Modifier(kind == "Defer", rules[0])


class ExposureRules:
    """Decides the level of each tool.

    Args:
        default: what counts where nothing else says anything.
        modifiers: `Defer(...)` and `NoDefer(...)` texts.

    Raises:
        ConfigError: a modifier cannot be read.
    """

    def __init__(self, default: Default = "auto", modifiers: Sequence[str] = ()) -> None:
        self.default = default
        self._texts = tuple(modifiers)
        self._modifiers = parse_modifiers(modifiers)

    def extended(self, modifiers: Sequence[str]) -> ExposureRules:
        """The same rules with the modifiers of one run added."""
        return ExposureRules(self.default, (*self._texts, *modifiers)) if modifiers else self

    def level(self, tool: ToolInfo, server: ServerConfig | None, *, over_budget: bool) -> Exposure:
        """The level of a tool; `over_budget` is what `auto` turns on."""
        chosen = self._chosen(tool, server)
        if chosen is not None:
            return chosen
        if self.default == "auto":
            return Exposure.DEFERRED if over_budget else Exposure.FULL
        return Exposure(self.default)

    def _chosen(self, tool: ToolInfo, server: ServerConfig | None) -> Exposure | None:
        concerned = [modifier.defers for modifier in self._modifiers if modifier.concerns(tool)]
        if concerned:
            return Exposure.DEFERRED if all(concerned) else Exposure.FULL
        of_tool = server.tool(tool.name).defer_loading if server is not None else None
        of_server = server.defer_loading if server is not None else None
        if of_tool is not None or of_server is not None:
            deferred = of_tool if of_tool is not None else of_server
            return Exposure.DEFERRED if deferred else Exposure.FULL
        if (server is not None and server.always_load) or tool.meta.get(ALWAYS_LOAD_META) is True:
            return Exposure.FULL
        return None
