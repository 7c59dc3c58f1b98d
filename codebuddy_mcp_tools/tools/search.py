"""An index over tool definitions: BM25F in pure Python, then a second look at the best hits.

First pass: each field of a tool (name, server, title, description, argument names, argument texts) counts with its
weight; terms are stems; words that mean the same count for less; a word the index does not have is looked up by its
character trigrams. Second pass, over the best hundred: how much of the query the tool's own name covers, how much
of the name the query covers, and whether the verbs agree. An exact name comes first in any case.

Servers are added and removed one at a time; what depends on the whole collection is worked out per term when it is
asked for, and kept until the collection changes.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from codebuddy_mcp_tools.policy import normal
from codebuddy_mcp_tools.tools.terms import STOP_STEMS, SYNONYMS, VERB_CLASS, stem, terms, words
from codebuddy_mcp_tools.types import JSON, JSONObject, ToolInfo

WEIGHTS = {"name": 3.0, "server": 2.0, "title": 1.5, "description": 1.0, "arguments": 0.2, "argument texts": 0.3}
"""How much one occurrence in a field counts."""
K1 = 1.6
B = 0.5
SYNONYM_WEIGHT = 0.35
RERANKED = 100
_FIRST_SENTENCE = re.compile(r"[.!?](?:\s|$)|\n")
_MAX_WORDS = 400
"""Words of one field that are indexed; a description of a megabyte says no more than its start."""


@dataclass(slots=True)
class Document:
    """One tool as the index knows it."""

    key: str
    server: str
    name_terms: frozenset[str]
    server_terms: frozenset[str]
    spellings: frozenset[str]
    """Normal forms that are this tool's name."""
    verb: str | None
    frequencies: dict[str, float]
    """Term to its weighted number of occurrences."""
    fields: dict[str, frozenset[str]]
    length: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool that was found."""

    key: str
    score: float
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which words of the query were found in which field."""


def document(key: str, tool: ToolInfo) -> Document:
    """Take a tool definition apart."""
    first = _FIRST_SENTENCE.split(tool.description, maxsplit=1)[0]
    names, texts = _arguments(tool.input_schema)
    parts = {
        "name": terms(tool.name),
        "server": terms(tool.server),
        "title": terms(tool.title or ""),
        "description": [*terms(tool.description[: _MAX_WORDS * 8])[:_MAX_WORDS], *terms(first[:400])],
        "arguments": names[:_MAX_WORDS],
        "argument texts": texts[:_MAX_WORDS],
    }
    frequencies: dict[str, float] = defaultdict(float)
    length = 0.0
    for kind, found in parts.items():
        weight = WEIGHTS[kind]
        length += weight * len(found)
        for term, times in Counter(found).items():
            frequencies[term] += weight * times
    joined = "".join(parts["name"])
    if joined not in frequencies:
        frequencies[joined] = WEIGHTS["name"]  # `askcodex` finds ask_codex
    return Document(
        key=key,
        server=tool.server,
        name_terms=frozenset(parts["name"]),
        server_terms=frozenset(parts["server"]),
        spellings=frozenset({normal(key), normal(tool.name), normal(f"{tool.server}_{tool.name}")}),
        verb=next((VERB_CLASS[term] for term in parts["name"] if term in VERB_CLASS), None),
        frequencies=dict(frequencies),
        fields={kind: frozenset(found) for kind, found in parts.items()},
        length=length,
    )


def _arguments(schema: JSONObject) -> tuple[list[str], list[str]]:
    names: list[str] = []
    texts: list[str] = []
    properties = schema.get("properties")
    for name, about in list(properties.items())[:100] if isinstance(properties, Mapping) else ():
        names += terms(str(name))
        if isinstance(about, Mapping):
            texts += terms(_text(about.get("description")))
            values = about.get("enum")
            texts += [t for value in (values[:20] if isinstance(values, list) else ()) for t in terms(_text(value))]
    return names, texts


def _text(value: JSON) -> str:
    return value[:2000] if isinstance(value, str) else ""


class SearchIndex:
    """The tools of all servers, searchable."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._postings: dict[str, dict[str, float]] = defaultdict(dict)
        self._by_spelling: dict[str, set[str]] = defaultdict(set)
        self._grams: dict[str, set[str]] = defaultdict(set)
        self._total_length = 0.0
        self._impacts: dict[str, list[tuple[str, float]]] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def add(self, key: str, tool: ToolInfo) -> None:
        """Index one tool under its visible name; a name that is there already is replaced."""
        self.remove(key)
        doc = self._documents[key] = document(key, tool)
        self._total_length += doc.length
        for term, frequency in doc.frequencies.items():
            if term not in self._postings:
                for gram in _trigrams(term):
                    self._grams[gram].add(term)
            self._postings[term][key] = frequency
        for spelling in doc.spellings:
            self._by_spelling[spelling].add(key)
        self._impacts.clear()

    def remove(self, key: str) -> None:
        """Forget one tool; nothing happens when it is not there."""
        doc = self._documents.pop(key, None)
        if doc is None:
            return
        self._total_length -= doc.length
        for term in doc.frequencies:
            del self._postings[term][key]
            if not self._postings[term]:
                del self._postings[term]
                for gram in _trigrams(term):
                    self._grams[gram].discard(term)
        for spelling in doc.spellings:
            self._by_spelling[spelling].discard(key)
        self._impacts.clear()

    def search(self, query: str, limit: int = 5, *, required: Sequence[str] = ()) -> list[Hit]:
        """The best tools for a query, best first.

        Args:
            query: words in any spelling.
            limit: how many at the most.
            required: words each of which must occur in a tool's server or own name.
        """
        asked = self._query_terms(" ".join((query, *required)))
        scores = self._first_pass(asked)
        allowed = [_stems(word) for word in required]
        if allowed:
            keys = self._documents if not asked or not query.strip() else scores
            scores = {k: scores.get(k, 0.0) for k in keys if self._has_all(k, allowed)}
        best = heapq.nlargest(max(RERANKED, limit), scores.items(), key=lambda item: (item[1], item[0]))
        exact = self._by_spelling.get(normal(query.strip()), set()) | self._by_spelling.get(
            "_".join(words(query)), set()
        )
        ranked = [(self._second_pass(key, score, asked), key) for key, score in best]
        known = {key for _, key in ranked}
        ranked += [(0.0, key) for key in exact if key not in known]
        ranked = [(score + (1000.0 if key in exact else 0.0), key) for score, key in ranked]
        ranked.sort(key=lambda item: (-item[0], item[1]))
        return [Hit(key, score, self._explain(key, asked)) for score, key in ranked[:limit]]

    def rank(self, query: str, limit: int) -> list[str]:
        """The names alone."""
        return [hit.key for hit in self.search(query, limit)]

    # -- first pass ----------------------------------------------------------------------------------------------

    def _query_terms(self, query: str) -> dict[str, float]:
        """Terms to weights: the query's own, what else means the same, and near spellings of unknown words."""
        plain = terms(query)
        own = [t for t in plain if t not in STOP_STEMS] or plain
        weights: dict[str, float] = {}
        for term, times in Counter(own).items():
            if term in self._postings:
                weights[term] = max(weights.get(term, 0.0), 1.0 + 0.2 * (times - 1))
            else:
                for near, likeness in self._near(term):
                    weights[near] = max(weights.get(near, 0.0), likeness)
        for term in own:
            for other in SYNONYMS.get(term, ()):
                if other in self._postings and other not in weights:
                    weights[other] = SYNONYM_WEIGHT
        for left, right in itertools.pairwise(own):  # "ask codex" finds askcodex
            if left + right in self._postings:
                weights.setdefault(left + right, 0.7)
        return weights

    def _near(self, term: str) -> list[tuple[str, float]]:
        """Known terms that share most trigrams with an unknown one."""
        grams = _trigrams(term)
        shared: Counter[str] = Counter()
        for gram in grams:
            shared.update(self._grams.get(gram, ()))
        scored = [(word, 2 * n / (len(grams) + len(_trigrams(word)))) for word, n in shared.most_common(30)]
        good = sorted((s for s in scored if s[1] >= 0.4), key=lambda s: (-s[1], s[0]))[:3]
        return [(word, 0.8 * likeness) for word, likeness in good]

    def _first_pass(self, asked: Mapping[str, float]) -> dict[str, float]:
        scores: dict[str, float] = {}
        get = scores.get
        for term, weight in asked.items():
            for key, impact in self._impact(term):
                scores[key] = get(key, 0.0) + weight * impact
        return scores

    def _impact(self, term: str) -> list[tuple[str, float]]:
        """What the term is worth in each tool that has it; BM25 with the collection as it is now."""
        known = self._impacts.get(term)
        if known is None:
            postings = self._postings.get(term, {})
            idf = self._idf(term)
            average = self._total_length / max(1, len(self._documents)) or 1.0
            known = []
            for key, frequency in postings.items():
                norm = K1 * (1 - B + B * self._documents[key].length / average)
                known.append((key, idf * frequency * (K1 + 1) / (frequency + norm)))
            self._impacts[term] = known
        return known

    def _idf(self, term: str) -> float:
        n, df = len(self._documents), len(self._postings.get(term, ()))
        return math.log(1 + (n - df + 0.5) / (df + 0.5))

    # -- second pass ---------------------------------------------------------------------------------------------

    def _second_pass(self, key: str, score: float, asked: Mapping[str, float]) -> float:
        doc = self._documents[key]
        own = [(t, self._idf(t) * w) for t, w in asked.items() if w > SYNONYM_WEIGHT]
        total = sum(w for _, w in own) or 1.0
        named = sum(w for t, w in own if t in doc.name_terms)
        served = sum(w for t, w in own if t in doc.server_terms and t not in doc.name_terms)
        matched = sum(1.0 if t in asked else 0.0 for t in doc.name_terms)
        of_name = matched / max(1, len(doc.name_terms))
        factor = 1 + 0.6 * named / total + 0.35 * served / total + 0.45 * of_name
        return score * factor * self._verb_factor(doc, asked)

    def _verb_factor(self, doc: Document, asked: Mapping[str, float]) -> float:
        wanted = {VERB_CLASS[t] for t, w in asked.items() if t in VERB_CLASS and w > SYNONYM_WEIGHT}
        if not wanted:
            return 0.9 if doc.verb == "delete" else 1.0
        if doc.verb is None or doc.verb in wanted:
            return 1.0
        return 0.85

    def _has_all(self, key: str, required: Sequence[frozenset[str]]) -> bool:
        doc = self._documents[key]
        have = doc.name_terms | doc.server_terms
        return all(stems <= have for stems in required)

    def _explain(self, key: str, asked: Iterable[str]) -> dict[str, tuple[str, ...]]:
        found = {kind: tuple(t for t in asked if t in have) for kind, have in self._documents[key].fields.items()}
        return {kind: hits for kind, hits in found.items() if hits}


def _stems(word: str) -> frozenset[str]:
    return frozenset(stem(w) for w in words(word))


def _trigrams(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))
