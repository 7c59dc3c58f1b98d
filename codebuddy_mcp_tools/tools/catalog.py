"""`ToolCatalog`: all tools of a provider, how much of each a model is shown, what that costs, how the rest is found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.policy import Ambiguous, ExposureRules, NameTable, NearMisses
from codebuddy_mcp_tools.tools.definitions import TokenCounter, bound_text, definition, estimate_tokens, stub
from codebuddy_mcp_tools.tools.search import Hit, SearchIndex
from codebuddy_mcp_tools.tools.semantic import SemanticRanks
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import Exposure, ServerStatus

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


DEFAULT_CONTEXT_WINDOW = 128_000
"""Tokens, for a model whose profile does not say."""
AUTO_SHARE = 0.10
"""Share of the context window that full schemas may take under `auto`."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name came to: a tool, or names that come near."""

    tool: MCPTool | None
    near: tuple[str, ...] = ()
    ambiguous: bool = False
    """`near` are tools that all have this name, not misspellings of it."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One tool that a search found."""

    name: str
    server: str
    tool: MCPTool
    score: float
    fields: Mapping[str, tuple[str, ...]]
    """Which words of the query scored in which field."""


@dataclass(frozen=True, slots=True)
class ToolCost:
    """Estimated tokens of one tool."""

    name: str
    server: str
    exposure: Exposure
    full: int
    stub: int

    @property
    def shown(self) -> int:
        """Tokens it takes at its exposure."""
        return {Exposure.FULL: self.full, Exposure.STUB: self.stub, Exposure.DEFERRED: 0}[self.exposure]


@dataclass(frozen=True, slots=True)
class CatalogCost:
    """Estimated tokens of all tools, for the context window that was asked for last."""

    tools: tuple[ToolCost, ...]

    @property
    def full(self) -> int:
        """Tokens if every schema were bound."""
        return sum(tool.full for tool in self.tools)

    @property
    def stub(self) -> int:
        """Tokens if every tool were a stub."""
        return sum(tool.stub for tool in self.tools)

    @property
    def shown(self) -> int:
        """Tokens that are bound at the start of a run."""
        return sum(tool.shown for tool in self.tools)

    def shown_of(self, server: str) -> int:
        """Tokens that are bound for one server."""
        return sum(tool.shown for tool in self.tools if tool.server == server)

    @property
    def servers(self) -> dict[str, tuple[int, int, int]]:
        """Server to `(full, stub, shown)`."""
        table: dict[str, tuple[int, int, int]] = {}
        for tool in self.tools:
            full, short, shown = table.get(tool.server, (0, 0, 0))
            table[tool.server] = (full + tool.full, short + tool.stub, shown + tool.shown)
        return table


class ToolCatalog:
    """What there is, and what a model sees of it.

    Args:
        rules: decides the exposure of each tool.
        call_style: `execute` binds only ToolSearch, describe_tool and execute_tool: the tool block never changes.
        counter: counts the tokens of a text; default characters / 4.
        embeddings: helps the search; optional.
        server_states: the servers' status, for what ToolSearch says of servers that are not there.
        wait_loading: waits up to so many seconds for servers that are connecting.
        reserved: names of core tools.
    """

    def __init__(
        self,
        *,
        rules: ExposureRules | None = None,
        call_style: Literal["direct", "execute"] = "direct",
        counter: TokenCounter | None = None,
        embeddings: Embeddings | None = None,
        server_states: Callable[[], Sequence[ServerStatus]] | None = None,
        wait_loading: Callable[[float], Awaitable[None]] | None = None,
        reserved: Sequence[str] = (),
    ) -> None:
        self.rules = rules or ExposureRules()
        self.call_style = call_style
        self.server_states = server_states or (lambda: ())
        self.wait_loading = wait_loading
        self._count = counter or estimate_tokens
        self._semantic = SemanticRanks(embeddings) if embeddings is not None else None
        self._reserved = tuple(reserved)
        self._tools: dict[str, MCPTool] = {}
        self._names = NameTable(())
        self._index = SearchIndex()
        self._stubs: dict[str, MCPTool] = {}
        self._tokens: dict[str, tuple[int, int]] = {}
        self._window = DEFAULT_CONTEXT_WINDOW
        self._generation = 0

    def update(self, tools: Sequence[MCPTool]) -> None:
        """Take over a new set of tools; only what differs is indexed again."""
        fresh = {tool.name: tool for tool in tools}
        for name, tool in self._tools.items():
            if fresh.get(name) is not tool:
                self._index.remove(name)
                self._stubs.pop(name, None)
                self._tokens.pop(name, None)
        for name, tool in fresh.items():
            if self._tools.get(name) is not tool:
                self._index.add(name, tool.info)
        self._tools = fresh
        self._names = NameTable([(t.info.server, t.info.name) for t in tools], self._reserved)
        self._generation += 1

    @property
    def generation(self) -> int:
        """Grows with every change of the set."""
        return self._generation

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    # -- what a model is shown -----------------------------------------------------------------------------------

    def levels(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> dict[str, Exposure]:
        """The exposure of every tool, in order.

        Args:
            context_window: tokens of the model's window; it decides under `auto`. Default: the one before, else 128k.
            modifiers: `Defer(...)`/`NoDefer(...)` of this run.

        Raises:
            ConfigError: a modifier cannot be read.
        """
        self._window = context_window or self._window
        rules = self.rules.extended(tuple(modifiers))
        over = rules.default == "auto" and self._full_tokens() > AUTO_SHARE * self._window
        levels = {name: rules.level(t.info, t.server_config, over_budget=over) for name, t in self._tools.items()}
        for name, level in levels.items():
            # What a provider's own tool search goes by (ProviderToolSearchMiddleware).
            self._tools[name].extras = {"defer_loading": level is Exposure.DEFERRED}
        return levels

    def visible(
        self,
        activated: Sequence[str] = (),
        *,
        context_window: int | None = None,
        modifiers: Sequence[str] = (),
    ) -> list[BaseTool]:
        """The tools to bind, in a fixed order; what a search has activated is appended. Names that are gone are
        skipped.

        Raises:
            ConfigError: a modifier cannot be read.
        """
        if self.call_style == "execute":
            return []
        levels = self.levels(context_window=context_window, modifiers=modifiers)
        shown: list[BaseTool] = [
            self._tools[name] if level is Exposure.FULL else self._stub(name)
            for name, level in levels.items()
            if level is not Exposure.DEFERRED
        ]
        woken = dict.fromkeys(name for name in activated if levels.get(name) is Exposure.DEFERRED)
        return [*shown, *(self._tools[name] for name in woken)]

    def tools(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> list[BaseTool]:
        """ToolSearch and describe_tool, and execute_tool in the `execute` style. They are never deferred."""
        from codebuddy_mcp_tools.tools.discovery import discovery_tools  # noqa: PLC0415 - they hold this catalogue

        return discovery_tools(self, self.deferred(context_window=context_window, modifiers=modifiers))

    def deferred(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> list[MCPTool]:
        """The tools a model finds only by searching; all of them in the `execute` style."""
        if self.call_style == "execute":
            return list(self._tools.values())
        levels = self.levels(context_window=context_window, modifiers=modifiers)
        return [self._tools[name] for name, level in levels.items() if level is Exposure.DEFERRED]

    def is_hidden(self, name: str) -> bool:
        """Whether the model has not seen this tool's schema at the start (stub, deferred, or execute style)."""
        if self.call_style == "execute":
            return name in self._tools
        return self.levels().get(name, Exposure.FULL) is not Exposure.FULL

    def _stub(self, name: str) -> MCPTool:
        if name not in self._stubs:
            self._stubs[name] = stub(self._tools[name])
        return self._stubs[name]

    # -- cost ----------------------------------------------------------------------------------------------------

    def cost(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> CatalogCost:
        """Estimated tokens per tool, per server and in all."""
        levels = self.levels(context_window=context_window, modifiers=modifiers)
        return CatalogCost(
            tuple(
                ToolCost(name, self._tools[name].info.server, level, *self._tokens_of(name))
                for name, level in levels.items()
            )
        )

    def _tokens_of(self, name: str) -> tuple[int, int]:
        if name not in self._tokens:
            self._tokens[name] = (
                self._count(bound_text(self._tools[name])),
                self._count(bound_text(self._stub(name))),
            )
        return self._tokens[name]

    def _full_tokens(self) -> int:
        return sum(self._tokens_of(name)[0] for name in self._tools)

    # -- finding -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> MCPTool | None:
        """The tool with exactly this visible name."""
        return self._tools.get(name)

    def resolve(self, text: str) -> Resolution:
        """The tool that is meant: the visible name, `mcp_server_tool`, `server.tool`, or its own name where unique."""
        found = self._tools.get(text.strip())
        if found is not None:
            return Resolution(found)
        answer = self._names.resolve(text)
        if isinstance(answer, Ambiguous):
            names = {(t.info.server, t.info.name): name for name, t in self._tools.items()}
            return Resolution(None, tuple(names[pair] for pair in answer.pairs if pair in names), ambiguous=True)
        if isinstance(answer, NearMisses):
            return Resolution(None, tuple(name for name in answer.names if name in self._tools))
        return Resolution(next((t for t in self._tools.values() if (t.info.server, t.info.name) == answer), None))

    def search(self, query: str, max_results: int = 5) -> list[SearchHit]:
        """The best tools for a query, best first.

        Args:
            query: `select:A,B` gives exactly those; `+word` must occur in the server or tool name; the rest ranks.
            max_results: how many at the most; `select:` gives all it names.
        """
        if query.strip().casefold().startswith("select:"):
            names = query.strip()[len("select:") :].split(",")
            found = (self.resolve(name).tool for name in names if name.strip())
            chosen = {tool.name: tool for tool in found if tool is not None}
            return [SearchHit(name, tool.info.server, tool, 1.0, {}) for name, tool in chosen.items()]
        required = [word[1:] for word in query.split() if word.startswith("+") and len(word) > 1]
        rest = " ".join(word for word in query.split() if not word.startswith("+"))
        hits = self._index.search(rest, max(max_results, 50 if self._semantic else 0), required=required)
        return [self._hit(hit) for hit in self._fused(rest, hits, max_results, required)]

    def _fused(self, query: str, hits: list[Hit], limit: int, required: Sequence[str]) -> list[Hit]:
        if self._semantic is None or required or not query:
            return hits[:limit]
        by_name = {hit.key: hit for hit in hits}
        infos = {name: tool.info for name, tool in self._tools.items()}
        names = self._semantic.fuse(query, [hit.key for hit in hits], infos, limit)
        return [by_name.get(name) or Hit(name, 0.0) for name in names]

    def _hit(self, hit: Hit) -> SearchHit:
        tool = self._tools[hit.key]
        return SearchHit(hit.key, tool.info.server, tool, hit.score, hit.fields)

    def describe(self, name: str) -> str:
        """Name, description and schema of a tool as text, in an envelope; near misses for an unknown name."""
        found = self.resolve(name)
        return definition(found.tool) if found.tool is not None else self.unknown(name, found)

    def unknown(self, name: str, found: Resolution) -> str:
        """The line about a name that is no tool, with what comes near."""
        if found.ambiguous:
            return f"{name!r} is the name of several tools; say which: {', '.join(found.near)}"
        near = f"; near: {', '.join(found.near)}" if found.near else "; use ToolSearch to find one"
        return f"no tool is named {name!r}{near}"

    def target(self, tool_call: Mapping[str, Any]) -> tuple[MCPTool, dict[str, Any]] | None:
        """The tool and arguments that an `execute_tool` call is about; `None` for other calls and unknown names."""
        if tool_call.get("name") != "execute_tool":
            return None
        arguments = tool_call.get("args") or {}
        found = self.resolve(str(arguments.get("name", ""))).tool
        inner = arguments.get("arguments")
        return None if found is None else (found, dict(inner) if isinstance(inner, Mapping) else {})
