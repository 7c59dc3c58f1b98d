"""Looking for a tool: by its name in any spelling, or by words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codebuddy_mcp_tools.policy import Ambiguous, NameTable
from codebuddy_mcp_tools.policy.names import Pair, names_another_server, normal, visible_name
from codebuddy_mcp_tools.tools.search import EXACT, SearchIndex
from codebuddy_mcp_tools.tools.semantic import SemanticRanks
from codebuddy_mcp_tools.tools.tokens import squashed
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import ToolInfo

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

_RANKED_FOR_FUSION = 60
POOR = 1 / 3
"""Share of the words of a query; a tool that covers less is hardly what was meant."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name came to: a tool, or names that come near."""

    tool: MCPTool | None
    near: tuple[str, ...] = ()
    ambiguous: bool = False
    """`near` are tools that all have this name, not misspellings of it."""
    denied: bool = False
    """The name is that of a tool that the permission rules deny: nothing else may stand in for it."""


@dataclass(frozen=True)
class SearchHit:
    """One tool that a search found."""

    name: str
    """The visible name."""
    server: str
    tool: MCPTool
    score: float
    """Only good for comparing hits of one search; 100 and more where the query is the tool's name."""
    _explain: Callable[[], Mapping[str, tuple[str, ...]]]

    @cached_property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        """Which words of the query scored in which field; `word (other)` where another word stands for it."""
        return self._explain()


MAX_SELECTED = 50
"""Names that one `select:` may hold; what comes after is not looked at."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query, read."""

    names: tuple[str, ...] | None
    """The names of `select:A,B`, at most `MAX_SELECTED`; `None` for every other query."""
    required: tuple[str, ...] = ()
    """The words of `+word`."""
    words: str = ""
    """What is ranked."""

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing."""
        return not (self.names or self.required or self.words)


def read_query(query: str) -> Wanted:
    """Take a query apart."""
    head, colon, names = query.strip().partition(":")
    if colon and head.strip().casefold() == "select":
        found = names.split(",", MAX_SELECTED)[:MAX_SELECTED]
        return Wanted(tuple(dict.fromkeys(name.strip() for name in found if name.strip())))
    parts = query.split()
    required = tuple(part[1:] for part in parts if part.startswith("+") and len(part) > 1)
    return Wanted(None, required, " ".join(part for part in parts if not part.startswith("+")))


class ToolFinder:
    """Finds tools. May be asked from any thread, also while a server's list changes.

    Args:
        embeddings: helps with queries by words; optional.
        reserved: names that no tool has.
        servers: the names of all configured servers, also of those whose tools are not known.
    """

    def __init__(
        self,
        embeddings: Embeddings | None = None,
        reserved: Iterable[str] = (),
        servers: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._semantic = SemanticRanks(embeddings) if embeddings is not None else None
        self._reserved = tuple(reserved)
        self._servers = servers
        self._denied: frozenset[Pair] = frozenset()
        self._denied_spellings: set[str] = set()
        self._index = SearchIndex()
        self._lock = threading.Lock()
        self._tools: dict[str, MCPTool] = {}
        self._infos: dict[str, ToolInfo] = {}
        self._names: NameTable | None = None
        self._by_pair: dict[tuple[str, str], MCPTool] = {}

    def update(self, tools: dict[str, MCPTool], denied: Iterable[Pair] = ()) -> None:
        """Take over a new set of tools by visible name; only what differs is indexed again.

        Args:
            denied: tools that exist and may not be found.
        """
        with self._lock:
            self._index.remove([name for name, tool in self._tools.items() if tools.get(name) is not tool])
            for name, tool in tools.items():
                if self._tools.get(name) is not tool:
                    self._index.add(name, tool.info)
            self._tools, self._names, self._denied = tools, None, frozenset(denied)
            self._denied_spellings = {
                squashed(form)
                for server, tool in self._denied
                for form in (tool, server + tool, visible_name(server, tool))
            }
            self._infos = {name: tool.info for name, tool in tools.items()}

    # -- by name -------------------------------------------------------------------------------------------------

    def resolve(self, text: str) -> Resolution:
        """See `ToolCatalog.resolve`."""
        found = self._tools.get(text.strip())
        if found is not None:
            return Resolution(found)
        with self._lock:
            answer = self._resolved(text)
        tool = answer.tool
        if tool is None or normal(tool.name) == normal(text.strip().rpartition(".")[2]):
            return answer
        stands_in = names_another_server(text, tool.info.server, self._servers())
        return Resolution(None, (tool.name,)) if stands_in else answer

    def _resolved(self, text: str) -> Resolution:
        if self._names is None:
            self._by_pair = {(tool.info.server, tool.info.name): tool for tool in self._tools.values()}
            self._names = NameTable([*self._by_pair, *self._denied], self._reserved)
        answer = self._names.resolve(text)
        if isinstance(answer, tuple):
            return Resolution(None, denied=True) if answer in self._denied else Resolution(self._by_pair[answer])
        if isinstance(answer, Ambiguous):
            allowed = [self._by_pair[pair] for pair in answer.pairs if pair in self._by_pair]
            return Resolution(None, tuple(tool.name for tool in allowed), ambiguous=True, denied=not allowed)
        if (found := self._tools.get(text.strip().rpartition(".")[2])) is not None:
            return Resolution(found)  # some models put a name space of theirs before it: `functions.mcp__a__b`
        if squashed(text) in self._denied_spellings:
            return Resolution(None, denied=True)
        spelled = self._index.spelled(text)
        if len(spelled) == 1:
            return Resolution(self._tools[spelled[0]])
        pairs = map(self._names.pair, answer.names)
        near = spelled or [self._by_pair[pair].name for pair in pairs if pair in self._by_pair]
        return Resolution(None, tuple(near or self._index.rank(text, 3)), ambiguous=bool(spelled))

    # -- by words ------------------------------------------------------------------------------------------------

    def search(self, query: str, limit: int) -> list[SearchHit]:
        """See `ToolCatalog.search`."""
        wanted, tools, infos = read_query(query), self._tools, self._infos
        ranked = self._ranked(wanted, limit)
        if self._semantic is not None and wanted.words:
            only = {name for name, _ in ranked} if wanted.required else None
            ranked = self._semantic.fuse(wanted.words, ranked, infos, limit, only=only)
        return [self._hit(query, tools[name], score) for name, score in ranked if name in tools]

    async def asearch(self, query: str, limit: int) -> list[SearchHit]:
        """See `ToolCatalog.asearch`."""
        wanted, tools, infos = read_query(query), self._tools, self._infos
        ranked = self._ranked(wanted, limit)
        if self._semantic is not None and wanted.words:
            only = {name for name, _ in ranked} if wanted.required else None
            ranked = await self._semantic.afuse(wanted.words, ranked, infos, limit, only=only)
        return [self._hit(query, tools[name], score) for name, score in ranked if name in tools]

    def _ranked(self, wanted: Wanted, limit: int) -> list[tuple[str, float]]:
        """Names and scores by the words alone; as many as are of use where embeddings are to be asked as well."""
        if wanted.names is not None:
            chosen = (self.resolve(name).tool for name in wanted.names)
            return [(name, 1.0) for name in dict.fromkeys(tool.name for tool in chosen if tool is not None)]
        if self._semantic is not None and wanted.words:
            limit = len(self._tools) if wanted.required else _RANKED_FOR_FUSION
        with self._lock:
            found = self._index.search(wanted.words, limit, required=wanted.required)
        return [(hit.key, hit.score) for hit in found]

    def is_doubtful(self, query: str, hits: Sequence[SearchHit]) -> bool:
        """Whether the best hit is hardly what was meant: it covers less than a third of the words of the query.

        Never said of a name, nor where embeddings have ranked: they find what shares no word.
        """
        words = read_query(query).words
        if not hits or not words or self._semantic is not None or hits[0].score >= EXACT:
            return False
        return self.coverage(words, hits[0].name) < POOR

    def _hit(self, query: str, tool: MCPTool, score: float) -> SearchHit:
        return SearchHit(tool.name, tool.info.server, tool, score, lambda: self._index.explain(query, tool.info))

    def coverage(self, query: str, name: str) -> float:
        """See `ToolCatalog.coverage`."""
        with self._lock:
            return self._index.coverage(query, name) if name in self._tools else 0.0
