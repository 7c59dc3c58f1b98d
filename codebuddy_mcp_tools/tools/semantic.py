"""Optional help for the search from an embedding model, fused with the lexical ranks.

Policy: searching goes on whatever the embedding service does. A definition is embedded once (by the hash of its
text), in batches, by one worker at a time however many searches wait for it. A service that fails, hangs or answers
nonsense costs one warning for each outage, and is left alone for a minute; meanwhile the lexical list stands.

Fusion is a weighted sum of the lexical score and the cosine, the cosine counted in standard deviations from its mean
over all tools: so a model whose cosines all lie close together counts as much as any other. Reciprocal ranks (Cormack
and others, 2009) forget how sure each side is, and the right tool was less often first with them than without a model:
on five public collections with MiniLM-L6, recall@1 of keywords was .86 by words alone, .83 by reciprocal ranks with
k = 60 (.83 with 10 and 5 as well), .87 by this sum.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import TYPE_CHECKING, Any

from codebuddy_mcp_tools.policy import clean, clean_description
from codebuddy_mcp_tools.tools.query import MAX_QUERY
from codebuddy_mcp_tools.tools.tokens import words
from codebuddy_mcp_tools.tools.vectors import UnusableError, Vector, likeness, unit
from codebuddy_mcp_tools.types import ToolInfo

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

logger = logging.getLogger(__name__)

WEIGHT = 0.7
"""What one standard deviation of likeness is worth, on the scale of the lexical score."""
BATCH = 64
"""Definitions in one request to the embedding service."""
_KEPT = 50
"""Tools that the likeness of their embeddings can bring in."""

Ranked = list[tuple[str, float]]


class SemanticRanks:
    """Ranks tools by the likeness of their embeddings to a query's.

    Safe to use from several threads and event loops at the same time.

    Args:
        embeddings: any LangChain `Embeddings`.
        timeout: seconds that a search waits for the service, and that one request to it may take. What a search did
            not wait for is still stored when it comes.
        pause: seconds for which a service that failed is not asked again.
        clock: seconds, growing.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        timeout: float = 10.0,
        pause: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embeddings = embeddings
        self._timeout, self._pause, self._clock = timeout, pause, clock
        self._vectors: dict[str, Vector] = {}
        self._digests: dict[str, tuple[ToolInfo, str]] = {}
        self._lock = threading.Lock()
        self._loading: Future[bool] | None = None
        self._moved = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._retry_at: float | None = None
        self._warned = False

    # -- searching -----------------------------------------------------------------------------------------------

    async def afuse(
        self,
        query: str,
        lexical: Sequence[tuple[str, float]],
        tools: Mapping[str, ToolInfo],
        limit: int,
        *,
        only: Collection[str] | None = None,
    ) -> Ranked:
        """As `fuse`, by the service's asynchronous methods; other tasks of the loop go on meanwhile."""
        if not tools or self._pausing():
            return list(lexical[:limit])
        wanted = self._wanted(tools)
        try:
            async with asyncio.timeout(self._timeout):
                while new := self._missing(wanted, tools):
                    loaded, ours = self._begin()
                    if ours:
                        task = asyncio.create_task(self._aload(new, loaded))
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
                    if not await asyncio.shield(asyncio.wrap_future(loaded)):
                        return list(lexical[:limit])
                asked = await self._embeddings.aembed_query(_spoken(query))
                near = await asyncio.to_thread(self._likeness, asked, wanted, only)
        except Exception as error:  # noqa: BLE001 - any service, any failure; searching must go on
            self._failed(error)
            return list(lexical[:limit])
        self._warned = False
        return _fused(lexical, near)[:limit]

    def fuse(
        self,
        query: str,
        lexical: Sequence[tuple[str, float]],
        tools: Mapping[str, ToolInfo],
        limit: int,
        *,
        only: Collection[str] | None = None,
    ) -> Ranked:
        """Names and scores of both rankings together, best first; the lexical list when the model cannot help.

        Args:
            query: what was asked.
            lexical: the names and scores that the words gave, best first. A score of `search.EXACT` and more stays in
                front.
            tools: all tools that there are, by name; what is not among them is forgotten in time.
            limit: how many at the most.
            only: names of those that may be found; default all.
        """
        if not tools or self._pausing():
            return list(lexical[:limit])
        wanted = self._wanted(tools)
        end = time.monotonic() + self._timeout
        try:
            while new := self._missing(wanted, tools):
                loaded, ours = self._begin()
                if ours:
                    _in_thread(self._load, new, loaded)
                if not loaded.result(max(0.0, end - time.monotonic())):
                    return list(lexical[:limit])
            asking = _in_thread(self._embeddings.embed_query, _spoken(query))
            near = self._likeness(asking.result(max(0.0, end - time.monotonic())), wanted, only)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)
            return list(lexical[:limit])
        self._warned = False
        return _fused(lexical, near)[:limit]

    def _likeness(self, asked: Any, wanted: Mapping[str, str], only: Collection[str] | None) -> dict[str, float]:
        query, vectors = unit(asked), self._vectors
        known = {name: vectors[digest] for name, digest in wanted.items() if digest in vectors}
        try:
            found = likeness(query, known)
        except UnusableError:
            self._vectors = {}  # another model may answer now
            raise
        return found if only is None else {name: score for name, score in found.items() if name in only}

    # -- embedding definitions -----------------------------------------------------------------------------------

    def _wanted(self, tools: Mapping[str, ToolInfo]) -> dict[str, str]:
        """Each tool's name to the hash of the text that stands for it."""
        wanted = {}
        with self._lock:
            known = self._digests
            for name, tool in tools.items():
                entry = known.get(name)
                if entry is None or entry[0] is not tool:
                    entry = known[name] = (tool, hashlib.sha256(_text(tool).encode()).hexdigest())
                wanted[name] = entry[1]
            if len(known) > 2 * len(tools) + BATCH:
                self._digests = {name: known[name] for name in tools}
        return wanted

    def _missing(self, wanted: Mapping[str, str], tools: Mapping[str, ToolInfo]) -> dict[str, str]:
        """Hash to text of everything that has no vector yet."""
        return {digest: _text(tools[name]) for name, digest in wanted.items() if digest not in self._vectors}

    def _begin(self) -> tuple[Future[bool], bool]:
        """The loading that is under way, or a new one which the caller has to do. Its result: whether to look again."""
        with self._lock:
            ours = self._loading is None or self._loading.done()
            if self._loading is None or ours:
                self._loading, self._moved = Future(), self._clock()
            return self._loading, ours

    async def _aload(self, new: Mapping[str, str], loaded: Future[bool]) -> None:
        go_on = True  # also when this is cancelled: whoever waits takes over
        try:
            for part in _batches(new):
                async with asyncio.timeout(self._timeout):
                    vectors = await self._embeddings.aembed_documents(list(part.values()))
                self._store(part, vectors)
            self._retry_at = None
        except Exception as error:  # noqa: BLE001 - as above
            go_on = False
            self._failed(error)
        finally:
            loaded.set_result(go_on)

    def _load(self, new: Mapping[str, str], loaded: Future[bool]) -> None:
        go_on = True  # also when this is cancelled: whoever waits takes over
        try:
            for part in _batches(new):
                self._store(part, self._embeddings.embed_documents(list(part.values())))
            self._retry_at = None
        except Exception as error:  # noqa: BLE001 - as above
            go_on = False
            self._failed(error)
        finally:
            loaded.set_result(go_on)

    def _store(self, part: Mapping[str, str], vectors: Sequence[Any]) -> None:
        if len(vectors) != len(part):
            raise UnusableError(f"{len(vectors)} vectors for {len(part)} texts")
        units = [unit(vector) for vector in vectors]
        if len({len(unit) for unit in units}) > 1:
            raise UnusableError("vectors of different lengths")
        with self._lock:
            self._moved = self._clock()
            used = {digest for _, digest in self._digests.values()}
            if len(self._vectors) > 2 * len(used) + BATCH:
                self._vectors = {digest: vector for digest, vector in self._vectors.items() if digest in used}
            self._vectors.update(zip(part, units, strict=True))

    # -- failing -------------------------------------------------------------------------------------------------

    def _pausing(self) -> bool:
        return self._retry_at is not None and self._clock() < self._retry_at

    def _failed(self, error: Exception) -> None:
        """Leave the service alone for a while. Its own words may hold secrets: only the kind of failure is logged."""
        now = self._clock()
        with self._lock:
            if isinstance(error, TimeoutError) and now - self._moved >= self._timeout:
                self._loading = None  # nothing comes any more: the next search starts anew
            self._retry_at = now + self._pause
            first, self._warned = not self._warned, True
        if first:
            why = (
                str(error)
                if isinstance(error, UnusableError)
                else "no answer in time"
                if isinstance(error, TimeoutError)
                else type(error).__name__
            )
            logger.warning("embeddings failed (%s); tool search goes on without them", why)


def _fused(lexical: Sequence[tuple[str, float]], like: Mapping[str, float]) -> Ranked:
    by_words = dict(lexical)
    lowest = min(0.0, *by_words.values()) if by_words else 0.0
    near = heapq.nsmallest(_KEPT, like, key=lambda name: (-like[name], name))
    scores = {
        name: by_words.get(name, lowest) + WEIGHT * like.get(name, 0.0) for name in dict.fromkeys((*by_words, *near))
    }
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _text(tool: ToolInfo) -> str:
    """Server, name and description in plain words; a model reads `create_issue` worse than `create issue`."""
    return f"{' '.join(words(f'{tool.server} {tool.name}'))}: {clean_description(tool.description)}"


def _spoken(query: str) -> str:
    return clean(query[:MAX_QUERY]).text


def _batches(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    rest = iter(texts.items())
    while part := dict(islice(rest, BATCH)):
        yield part


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Runs a call that may hang where it keeps neither the caller nor the end of the process waiting."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function, *arguments))
        except BaseException as error:  # noqa: BLE001 - the one who waits gets it
            future.set_exception(error)

    threading.Thread(target=work, name="mcp-tool-embeddings", daemon=True).start()
    return future
