"""`ToolCatalog`: all tools of a provider, how much of each a model is shown, what that costs, and how the rest is
found.

Policy: the order of what is bound is the provider's, and never changes while the tools do not; what a search
activates is appended. A catalogue holds no state of any conversation: what is activated lives in the graph's state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.policy import ExposureRules
from codebuddy_mcp_tools.policy.exposure import AUTO_SHARE, DEFAULT_CONTEXT_WINDOW
from codebuddy_mcp_tools.policy.names import Pair
from codebuddy_mcp_tools.tools.costs import CatalogCost, ToolCost
from codebuddy_mcp_tools.tools.definitions import TokenCounter, bound_text, definition, estimate_tokens
from codebuddy_mcp_tools.tools.discovery_input import execute_arguments
from codebuddy_mcp_tools.tools.finding import Resolution, SearchHit, ToolFinder
from codebuddy_mcp_tools.tools.forms import ToolForms, mark
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import Exposure, ServerStatus

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

_KEPT_LEVELS = 16


class ToolCatalog:
    """What there is, and what a model sees of it.

    Args:
        rules: decides the exposure of each tool.
        call_style: `execute` binds only ToolSearch, describe_tool and execute_tool, so that the tool block never
            changes.
        tool_search: `provider` leaves searching to the model's provider, where it can: deferred tools are bound as
            well, marked as such.
        counter: counts the tokens of a text; default characters / 4.
        embeddings: helps the search; optional.
        server_states: the servers' status, for what ToolSearch says of servers that are not there.
        wait_loading: waits up to so many seconds for servers that are connecting.
        reserved: names of core tools.
        readers: tools for saved results, which `execute_tool` reaches as well.
    """

    def __init__(
        self,
        *,
        rules: ExposureRules | None = None,
        call_style: Literal["direct", "execute"] = "direct",
        tool_search: Literal["own", "provider"] = "own",
        counter: TokenCounter | None = None,
        embeddings: Embeddings | None = None,
        server_states: Callable[[], Sequence[ServerStatus]] | None = None,
        wait_loading: Callable[[float], Awaitable[None]] | None = None,
        reserved: Sequence[str] = (),
        readers: Sequence[BaseTool] = (),
    ) -> None:
        self.rules = rules or ExposureRules()
        self.call_style = call_style
        self.tool_search = tool_search
        self.server_states = server_states or (lambda: ())
        self.wait_loading = wait_loading
        self.readers = tuple(readers)
        self._count = counter or estimate_tokens
        self._finder = ToolFinder(embeddings, reserved, lambda: [status.name for status in self.server_states()])
        self._tools: dict[str, MCPTool] = {}
        self._forms = ToolForms()
        self._tokens: dict[str, tuple[MCPTool, tuple[int, int]]] = {}
        self._levels: dict[tuple[int, int, tuple[str, ...]], dict[str, Exposure]] = {}
        self._window = DEFAULT_CONTEXT_WINDOW
        self._generation = 0

    def update(self, tools: Sequence[MCPTool], denied: Iterable[Pair] = ()) -> None:
        """Take over a new set of tools; only what differs is indexed again.

        Args:
            denied: server and name of tools that exist and are denied: their names mean no other tool.
        """
        fresh = {tool.name: tool for tool in tools}
        gone = [name for name, tool in self._tools.items() if fresh.get(name) is not tool]
        for name in gone:
            self._forms.forget(name)
            self._tokens.pop(name, None)
        self._finder.update(fresh, denied)
        self._tools = fresh
        self._levels.clear()
        self._generation += 1
        self._mark()

    def _mark(self) -> None:
        """Say in each tool's `extras` whether it is deferred: what a provider's own tool search goes by.

        What only the budget defers is marked where the provider is to search. A model that is given all tools, and no
        search, could not reach it.
        """
        by_budget = self.levels() if self.tool_search == "provider" else None
        for name, tool in self._tools.items():
            level = by_budget[name] if by_budget else self.rules.level(tool.info, tool.server_config, over_budget=False)
            mark(tool, deferred=level is Exposure.DEFERRED)

    def follow(self, rules: ExposureRules) -> None:
        """Take over other rules of exposure."""
        self.rules = rules
        self._levels.clear()
        self._generation += 1
        self._mark()

    @property
    def generation(self) -> int:
        """Grows with every change of the set."""
        return self._generation

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[MCPTool]:
        return iter(self._tools.values())

    # -- what a model is shown -----------------------------------------------------------------------------------

    def levels(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> Mapping[str, Exposure]:
        """The exposure of every tool, in order.

        Args:
            context_window: tokens of the model's window; it decides under `auto`. Default: what was said last, else
                128k.
            modifiers: `Defer(...)`/`NoDefer(...)` of this run.

        Raises:
            ConfigError: a modifier cannot be read.
        """
        self._window = window = context_window or self._window
        # Another thread may put other tools in force meanwhile: what is made of the old ones keeps their number.
        key = (self._generation, window, (modifiers,) if isinstance(modifiers, str) else tuple(modifiers))
        known = self._levels.get(key)
        if known is None:
            rules = self.rules.extended(key[2])
            if len(self._levels) >= _KEPT_LEVELS:
                self._levels.clear()
            known = self._levels[key] = self._decide(rules, self._tools, window)
        return known

    def _decide(self, rules: ExposureRules, tools: Mapping[str, MCPTool], window: int) -> dict[str, Exposure]:
        if self.call_style == "execute":
            return dict.fromkeys(tools, Exposure.DEFERRED)

        def levels(*, over_budget: bool) -> dict[str, Exposure]:
            return {
                name: rules.level(tool.info, tool.server_config, over_budget=over_budget)
                for name, tool in tools.items()
            }

        fitting = levels(over_budget=False)
        if rules.default != "auto":
            return fitting
        shown = sum(self._tokens_of(tools[name])[0] for name, level in fitting.items() if level is Exposure.FULL)
        return levels(over_budget=True) if shown >= AUTO_SHARE * window else fitting

    def _with_levels(self, **scope: Any) -> list[tuple[MCPTool, Exposure]]:
        tools = self._tools
        return [(tools[name], level) for name, level in self.levels(**scope).items() if name in tools]

    def visible(
        self,
        activated: Sequence[str] = (),
        *,
        context_window: int | None = None,
        modifiers: Sequence[str] = (),
        provider_search: bool = False,
    ) -> list[BaseTool]:
        """The tools to bind, in a fixed order; what a search has activated is appended.

        Args:
            activated: visible names, in the order of their activation. Names that are gone, or shown anyway, are
                skipped.
            context_window: see `levels`.
            modifiers: see `levels`.
            provider_search: the model's provider searches: deferred tools are there in their places, with
                `extras["defer_loading"]` true, and nothing needs to be activated.

        Raises:
            ConfigError: a modifier cannot be read.
        """
        if self.call_style == "execute":
            return []
        form = {
            Exposure.FULL: self._forms.loaded,
            Exposure.STUB: self._forms.stub,
            Exposure.DEFERRED: self._forms.deferred,
        }
        leveled = self._with_levels(context_window=context_window, modifiers=modifiers)
        shown: list[BaseTool] = [
            form[level](tool) for tool, level in leveled if provider_search or level is not Exposure.DEFERRED
        ]
        if provider_search:
            return shown
        hidden = {tool.name: tool for tool, level in leveled if level is Exposure.DEFERRED}
        return [*shown, *(self._forms.loaded(hidden[name]) for name in dict.fromkeys(activated) if name in hidden)]

    def tools(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> list[BaseTool]:
        """ToolSearch and describe_tool, and execute_tool in the `execute` style. They are never deferred."""
        from codebuddy_mcp_tools.tools.discovery import discovery_tools  # noqa: PLC0415 - they hold this catalogue

        return discovery_tools(self, self.deferred(context_window=context_window, modifiers=modifiers))

    def deferred(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> list[MCPTool]:
        """The tools a model finds only by searching; all of them in the `execute` style."""
        leveled = self._with_levels(context_window=context_window, modifiers=modifiers)
        return [tool for tool, level in leveled if level is Exposure.DEFERRED]

    def is_searched(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> bool:
        """Whether ToolSearch and describe_tool are bound: something is not shown in full, and the search is ours."""
        if self.call_style == "execute":
            return True
        levels = self.levels(context_window=context_window, modifiers=modifiers)
        return self.tool_search == "own" and any(level is not Exposure.FULL for level in levels.values())

    def is_hidden(self, name: str) -> bool:
        """Whether the model has not seen this tool's schema at the start (stub, deferred, or execute style)."""
        return self.levels().get(name, Exposure.FULL) is not Exposure.FULL

    # -- cost ----------------------------------------------------------------------------------------------------

    def cost(self, *, context_window: int | None = None, modifiers: Sequence[str] = ()) -> CatalogCost:
        """Estimated tokens per tool, per server and in all. Each tool is counted once in its life."""
        scope: dict[str, Any] = {"context_window": context_window, "modifiers": modifiers}
        tools = tuple(
            ToolCost(tool.name, tool.info.server, level, *self._tokens_of(tool))
            for tool, level in self._with_levels(**scope)
        )
        searching = self.tools(**scope) if self.is_searched(**scope) else ()
        return CatalogCost(tools, sum(self._count(bound_text(tool)) for tool in searching))

    def _tokens_of(self, tool: MCPTool) -> tuple[int, int]:
        known = self._tokens.get(tool.name)
        if known is None or known[0] is not tool:
            counts = self._count(bound_text(tool)), self._count(bound_text(self._forms.stub(tool)))
            known = self._tokens[tool.name] = (tool, counts)
        return known[1]

    # -- finding -------------------------------------------------------------------------------------------------

    def get(self, name: str) -> MCPTool | None:
        """The tool with exactly this visible name."""
        return self._tools.get(name)

    def resolve(self, text: str) -> Resolution:
        """The tool that is meant: the visible name, `mcp_server_tool`, `server.tool`, or its own name where unique.

        Case and separators do not matter where that leaves one tool.
        """
        return self._finder.resolve(text)

    def search(self, query: str, max_results: int = 5) -> list[SearchHit]:
        """The best tools for a query, best first.

        Args:
            query: `select:A,B` gives exactly those; `+word` must occur in the server or tool name; the rest is ranked.
            max_results: how many at the most; `select:` gives all it names.
        """
        return self._finder.search(query, max_results)

    async def asearch(self, query: str, max_results: int = 5) -> list[SearchHit]:
        """`search` for a loop, which does not stand still while an embedding service is asked."""
        return await self._finder.asearch(query, max_results)

    def coverage(self, query: str, name: str) -> float:
        """How much of a query a tool covers, 0 to 1; below a third it is hardly what was meant."""
        return self._finder.coverage(query, name)

    def is_doubtful(self, query: str, hits: Sequence[SearchHit]) -> bool:
        """Whether the best of these hits hardly fits the query."""
        return self._finder.is_doubtful(query, hits)

    def describe(self, name: str) -> str:
        """Name, description and schema of a tool as text, in an envelope; near misses for an unknown name."""
        found = self.resolve(name)
        return definition(found.tool) if found.tool is not None else self.unknown(name, found)

    def unknown(self, name: str, found: Resolution, *, searchable: bool = False) -> str:
        """The line about a name that is no tool, with what comes near.

        Args:
            name: what was asked for.
            found: what it came to.
            searchable: ToolSearch is there to be used.
        """
        if found.denied:
            return f"{name!r} is denied by the permission rules"
        if found.ambiguous:
            return f"{name!r} is the name of several tools; say which: {', '.join(found.near)}"
        if found.near:
            return f"no tool is named {name!r}; near: {', '.join(found.near)}"
        return f"no tool is named {name!r}{'; use ToolSearch to find one' if searchable else ''}"

    def target(self, tool_call: Mapping[str, Any]) -> tuple[MCPTool, dict[str, Any]] | None:
        """The tool and arguments that an `execute_tool` call is about; `None` for other calls and unknown names."""
        if tool_call.get("name") != "execute_tool":
            return None
        name, arguments = execute_arguments(tool_call.get("args") or {})
        found = self.resolve(name).tool
        return None if found is None else (found, arguments or {})
