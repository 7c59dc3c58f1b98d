"""How much of each tool a model is shown: `full`, `stub` or `deferred`.

One chain decides for one tool, and the first link that has an opinion wins:

    NoDefer(...) > Defer(...) > the tool's `defer_loading` > the server's `defer_loading`
        > `alwaysLoad` in the configuration > `_meta["anthropic/alwaysLoad"]` of the tool > the provider's default

Everything that says "do not defer" means `full`: somebody asked for the schema to be there. The default `auto` is
`full` as long as the schemas fit the budget and `deferred` beyond it; whether they fit is measured by the catalogue,
which knows their sizes. `Defer`/`NoDefer` and `defer_loading` are CodeBuddy Code's ("Deferred Loading"), `alwaysLoad`
is SideCar's ("Lazy tool schemas").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import Diagnostic, Exposure, ToolInfo

DEFAULT_CONTEXT_WINDOW = 128_000
"""Tokens, for a model whose profile does not say."""
AUTO_SHARE = 0.10
"""Share of the context window that full schemas may take under `auto`."""

ExposureDefault = Literal["auto", "full", "stub", "deferred"]

NEVER_DEFERRED = frozenset({"toolsearch", "describe_tool", "execute_tool"})
"""The tools that lead to the others, folded: without them a deferred tool could never be reached."""

_MODIFIER = re.compile(r"(?P<kind>[A-Za-z]+)\s*\((?P<patterns>[^()]*)\)")
_ALWAYS_LOAD = "anthropic/alwaysLoad"


class ToolSettings(Protocol):
    """What the configuration says about one tool, as far as exposure is concerned."""

    @property
    def defer_loading(self) -> bool | None: ...


class ServerSettings(Protocol):
    """What the configuration says about one server, as far as exposure is concerned."""

    @property
    def defer_loading(self) -> bool | None: ...

    @property
    def always_load(self) -> bool | None: ...

    @property
    def tools(self) -> Mapping[str, ToolSettings]: ...


@dataclass(frozen=True, slots=True)
class Modifiers:
    """The patterns of `Defer(...)` and `NoDefer(...)`, as the user wrote them."""

    defer: tuple[str, ...] = ()
    no_defer: tuple[str, ...] = ()

    def __add__(self, other: Modifiers) -> Modifiers:
        return Modifiers(self.defer + other.defer, self.no_defer + other.no_defer)


def parse_modifiers(text: str | Iterable[str]) -> Modifiers:
    """Read `"default,Defer(mcp__github__*),NoDefer(mcp__time__now)"`, or a sequence of such texts.

    A pattern is `mcp__server`, `mcp__server__tool`, `server.tool` or a bare tool name, with `*` for any run of
    characters; case does not matter and every other symbol counts as `_`. One pair of brackets may hold several, by
    commas. `default` stands for "what is bound anyway" and changes nothing.

    Raises:
        ConfigError: the text holds something else; the message quotes it.
    """
    texts = (text,) if isinstance(text, str) else tuple(text)
    found = Modifiers()
    for one in texts:
        if not isinstance(one, str):
            raise ConfigError(f"A Defer/NoDefer modifier must be text, not {one!r}.")
        found += _parse_one(one)
    return found


def _parse_one(text: str) -> Modifiers:
    patterns: dict[str, list[str]] = {"defer": [], "nodefer": []}
    rest = text
    for match in _MODIFIER.finditer(text):
        kind = match["kind"].lower()
        if kind not in patterns:
            raise ConfigError(f"Unknown modifier {match[0]!r} in {text!r}: only Defer(...) and NoDefer(...) exist.")
        for pattern in match["patterns"].split(","):
            patterns[kind].append(_checked(pattern.strip(), kind, match[0]))
        rest = rest.replace(match[0], "", 1)
    for word in re.split(r"[,\s]+", rest):
        if word and word.lower() != "default":
            raise ConfigError(
                f"Cannot read {word!r} in the modifiers {text!r}: write Defer(pattern) or NoDefer(pattern), by commas."
            )
    return Modifiers(tuple(patterns["defer"]), tuple(patterns["nodefer"]))


def _checked(pattern: str, kind: str, quoted: str) -> str:
    if not pattern or not re.search(r"[\w*]", pattern):
        raise ConfigError(f"The modifier {quoted!r} names no tool: write for example Defer(mcp__github__*).")
    if kind == "defer" and pattern.lower() in NEVER_DEFERRED:
        raise ConfigError(f"The modifier {quoted!r} is refused: {pattern} leads to the deferred tools and stays bound.")
    return pattern


class ExposureRules:
    """The chain in the head of this file, for one provider.

    Args:
        default: what a tool gets that nothing else speaks of.
        modifiers: texts with `Defer(...)` and `NoDefer(...)`.

    Raises:
        ConfigError: an unknown default, or a modifier that cannot be read.
    """

    def __init__(self, default: str = "auto", modifiers: str | Sequence[str] | Modifiers = ()) -> None:
        if default not in get_args(ExposureDefault):
            raise ConfigError(f"Unknown tool exposure {default!r}: choose auto, full, stub or deferred.")
        self.default = cast("ExposureDefault", default)
        self.modifiers = modifiers if isinstance(modifiers, Modifiers) else parse_modifiers(modifiers)
        self._defer = _matcher(self.modifiers.defer)
        self._no_defer = _matcher(self.modifiers.no_defer)

    def extended(self, modifiers: str | Sequence[str]) -> ExposureRules:
        """These rules with more modifiers, for one run: a run's Defer never beats a provider's NoDefer."""
        return ExposureRules(self.default, self.modifiers + parse_modifiers(modifiers)) if modifiers else self

    def level(self, tool: ToolInfo, server_config: ServerSettings | None = None, *, over_budget: bool) -> Exposure:
        """What a model is shown of one tool.

        Args:
            tool: the tool by its server's own names.
            server_config: the server's configuration, or `None` for a server without one.
            over_budget: whether all schemas together are too large for the model; only `auto` looks at it.
        """
        decided = self._decided(tool, server_config)
        if decided is not None:
            return decided
        if self.default == "auto":
            return Exposure.DEFERRED if over_budget else Exposure.FULL
        return Exposure(self.default)

    def lint(self, tools: Iterable[ToolInfo], servers: Iterable[str] = ()) -> list[Diagnostic]:
        """Modifiers that match no tool, a line each.

        Args:
            tools: the tools to try them on.
            servers: all configured servers. A pattern for one that has no tools here is not reported.
        """
        names = [_names(tool) for tool in tools]
        having = {all_names[1] for all_names in names}
        absent = [name for name in map(_folded, servers) if f"mcp__{name}" not in having]
        waiting = tuple(start for name in absent for start in (f"mcp__{name}", f"mcp_{name}_", f"{name}_"))
        found: list[Diagnostic] = []
        for kind, patterns in (("Defer", self.modifiers.defer), ("NoDefer", self.modifiers.no_defer)):
            for pattern in patterns:
                matcher = _matcher([pattern])
                hits = matcher is not None and any(any(map(matcher.fullmatch, spelled)) for spelled in names)
                if not hits and not _folded(pattern).startswith(waiting):
                    found.append(Diagnostic("warning", f"{kind}({pattern}) matches no tool"))
        return found

    def _decided(self, tool: ToolInfo, config: ServerSettings | None) -> Exposure | None:
        if self._no_defer or self._defer:
            names = _names(tool)
            if self._no_defer and any(map(self._no_defer.fullmatch, names)):
                return Exposure.FULL
            if self._defer and any(map(self._defer.fullmatch, names)):
                return Exposure.DEFERRED
        deferred = _configured_deferral(tool, config)
        if deferred is not None:
            return Exposure.DEFERRED if deferred else Exposure.FULL
        if config is not None and config.always_load is not None:
            # The user's `alwaysLoad: false` also answers a server that wants its own tools always loaded.
            return Exposure.FULL if config.always_load else None
        return Exposure.FULL if tool.meta.get(_ALWAYS_LOAD) is True else None


def _configured_deferral(tool: ToolInfo, config: ServerSettings | None) -> bool | None:
    if config is None:
        return None
    own = config.tools.get(tool.name)
    if own is not None and own.defer_loading is not None:
        return own.defer_loading
    return config.defer_loading


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9*]", "_", text.lower())


def _names(tool: ToolInfo) -> tuple[str, ...]:
    """Every spelling under which a pattern may name this tool; `mcp__server` alone stands for all tools of it."""
    server, name = _folded(tool.server).replace("*", "_"), _folded(tool.name).replace("*", "_")
    return (f"mcp__{server}__{name}", f"mcp__{server}", f"mcp_{server}_{name}", f"{server}_{name}", name)


def _matcher(patterns: Iterable[str]) -> re.Pattern[str] | None:
    # Runs of `*` are one: a pattern like `*a*a*a*…` from a file must not cost exponential time on a long name.
    parts = [".*".join(map(re.escape, re.split(r"\*+", _folded(pattern)))) for pattern in patterns]
    return re.compile("|".join(f"(?:{part})" for part in parts)) if parts else None
