"""The search index of a catalogue: tools in, tools out by any wording.

A query that is the name of a tool, in any spelling, has that tool first; everything else is `ranking`. What a hit
owes to which field is worked out when somebody asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from codebuddy_mcp_tools.tools.documents import Document, document, texts
from codebuddy_mcp_tools.tools.postings import Postings
from codebuddy_mcp_tools.tools.query import MAX_QUERY, Query, parse
from codebuddy_mcp_tools.tools.ranking import SecondPass, rank
from codebuddy_mcp_tools.tools.stemmer import stem
from codebuddy_mcp_tools.tools.tokens import squashed, words
from codebuddy_mcp_tools.types import ToolInfo

EXACT = 100.0
"""What the score of a tool grows by, at least, whose name the query is."""
MAX_REQUIRED = 16
"""Words that a query may require; more are not looked at."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool that was found."""

    key: str
    score: float


class SearchIndex:
    """The tools of all servers, searchable. Adding and removing touches only the terms of the tools concerned."""

    def __init__(self) -> None:
        self._postings = Postings()
        self._documents: dict[float, Document] = {}
        self._slots: dict[str, int] = {}
        self._by_spelling: dict[str, set[float]] = defaultdict(set)
        self._next = 0

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, key: str, tool: ToolInfo) -> None:
        """Index one tool under its visible name; what was indexed under it before is replaced."""
        if key in self._slots:
            self.remove([key])
        slot, self._next = self._next, self._next + 1
        doc, impacts = document(key, tool)
        self._documents[slot] = doc
        self._slots[key] = slot
        self._postings.add(slot, impacts)
        for spelling in doc.spellings:
            self._by_spelling[spelling].add(slot)

    def remove(self, keys: Collection[str]) -> None:
        """Forget tools; unknown names are skipped."""
        for key in keys:
            slot = self._slots.pop(key, None)
            if slot is None:
                continue
            doc = self._documents.pop(slot)
            self._postings.remove(slot, doc.terms)
            for spelling in doc.spellings:
                self._by_spelling[spelling].discard(slot)
                if not self._by_spelling[spelling]:
                    del self._by_spelling[spelling]

    def search(self, text: str, limit: int = 5, *, required: Sequence[str] = ()) -> list[Hit]:
        """The best tools for a query, best first.

        Args:
            text: words in any spelling.
            limit: how many at the most.
            required: words each of which must occur in a tool's server or own name; tools that have them are found
                even when nothing else of the query fits.
        """
        text, required = text[:MAX_QUERY], list(dict.fromkeys(required))[:MAX_REQUIRED]
        allowed = self._allowed(required) if required else None
        query = parse(" ".join((text, *required)), self._postings)
        ranked = rank(query, self._postings, self._documents, allowed, limit) if query is not None else []
        scores: dict[float, float] = {slot: score for score, slot in ranked}
        for slot in self._by_spelling.get(squashed(text), ()):
            if allowed is None or slot in allowed:
                scores[slot] = scores.get(slot, 0.0) + EXACT * self._exactness(text, self._documents[slot])
        for slot in allowed or ():
            scores.setdefault(slot, 0.0)
        hits = [Hit(self._documents[slot].key, score) for slot, score in scores.items()]
        hits.sort(key=lambda hit: (-hit.score, hit.key))
        return hits[:limit]

    def rank(self, text: str, limit: int) -> list[str]:
        """The names alone."""
        return [hit.key for hit in self.search(text, limit)]

    def spelled(self, text: str) -> list[str]:
        """The tools whose name this is, whatever its case and separators."""
        return sorted(self._documents[slot].key for slot in self._by_spelling.get(squashed(text), ()))

    def coverage(self, text: str, key: str) -> float:
        """How much of a query a tool covers, 0 to 1; below a third it is hardly what was meant."""
        query = parse(text, self._postings)
        return 0.0 if query is None else SecondPass(query, self._postings).coverage(self._documents[self._slots[key]])

    def explain(self, text: str, tool: ToolInfo) -> dict[str, tuple[str, ...]]:
        """Which words of a query a tool has in which field: the word itself, or `word (other)` for one that stands
        in.
        """
        text = text[:MAX_QUERY]
        query = parse(text, self._postings)
        return {} if query is None else _explained(query, text, tool)

    def _exactness(self, text: str, doc: Document) -> int:
        """3 for the visible name itself, 2 for server and name in another spelling, 1 for the tool's own name alone:
        a tool that calls itself `github_create_issue` does not come before `create_issue` of `github`.
        """
        if text.strip() == doc.key:
            return 3
        return 1 if squashed(text) == doc.label.rpartition(" ")[2] else 2

    def _allowed(self, required: Sequence[str]) -> set[float]:
        wanted = [squashed(word) for word in required]
        return {slot for slot, doc in self._documents.items() if all(word in doc.label for word in wanted)}


def _explained(query: Query, text: str, tool: ToolInfo) -> dict[str, tuple[str, ...]]:
    spoken = {stem(word): word for word in reversed(words(text))}
    found: dict[str, tuple[str, ...]] = {}
    for kind, content in texts(tool).items():
        hits: dict[str, None] = {}
        for word in words(content):
            source = query.sources.get(stem(word))
            if source is not None:
                asked = spoken.get(source[0], source[0])
                hits[asked if source[1] == 1.0 else f"{asked} ({word})"] = None
        if hits:
            found[kind] = tuple(hits)
    return found
