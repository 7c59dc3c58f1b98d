"""From a query to an order of tools, in two passes.

First pass: BM25F over all tools that have a term of the query, or a term that can mean the same. Terms that half of all
tools have (`get`, `list`) are only looked up for tools that a rarer term has found already.

Second pass, over the best: a weighted sum of simple questions, each answered between 0 and 1 — how much of the query
the tool's own name covers, how much of the name the query covers, whether the verbs agree, whether anything is
missing. The weights were fitted once on public collections of tools and queries, by the softmax of the right tools
among the best sixty; leaving any one collection out changed them little.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from codebuddy_mcp_tools.tools.documents import Document
from codebuddy_mcp_tools.tools.postings import Posting, Postings
from codebuddy_mcp_tools.tools.query import Query

RERANKED = 60
ENOUGH = 300
"""Tools found by rarer terms, beyond which a common term finds no more of its own."""
COMMON = 0.03
"""Share of all tools that makes a term common."""
CAP = 1.5
"""A term that stands in for a word is worth at most this many times the word."""
SURE = 0.75
"""How well a term must stand for a word to name a server with it."""

WEIGHTS = {
    "against the best": 3.1,  # BM25F, as a share of the best tool's
    "of the name": 1.2,  # how much of the tool's own name was asked for
    "best clause": 1.4,  # how much of one wish the names of tool and server cover
    "covered": 0.75,  # how much of the query occurs anywhere, squared
    "covered by standins": 0.55,
    "missing": -1.7,  # share of the query's words that occur nowhere, standins neither
    "summary": 0.75,  # how much of the query the first sentence covers
    "summary by standins": 0.5,
    "whole server": 0.7,  # the query names the server
    "verbs agree": 0.5,
    "deletes unasked": -0.2,  # the tool deletes, and the query has no verb
    "last word": 0.2,  # the last word of a wish, mostly its noun, is in the name
    "length of the name": -1.0,
}
_WEIGHTS = tuple(WEIGHTS.values())


def first_pass(query: Query, index: Postings, allowed: Collection[int] | None = None) -> list[tuple[int, float]]:
    """The slots of the best tools with their BM25F scores, best first, at most `RERANKED`."""
    plan = _plan(query, index)
    scores: dict[int, float] = {}
    get = scores.get
    common = max(ENOUGH, int(index.size * COMMON))
    for (slots, impacts), factor in plan:
        if allowed is None and len(slots) > common and len(scores) >= ENOUGH:
            _add_to_found(scores, slots, impacts, factor)
            continue
        for slot, impact in zip(slots, impacts, strict=True):
            scores[slot] = get(slot, 0.0) + factor * impact
    if allowed is not None:
        scores = {slot: score for slot, score in scores.items() if slot in allowed}
    return heapq.nlargest(RERANKED, scores.items(), key=lambda item: (item[1], -item[0]))


def _plan(query: Query, index: Postings) -> list[tuple[Posting, float]]:
    """What to look up and what it is worth, the rarest first."""
    plan: list[tuple[Posting, float]] = []
    for term, (word, weight) in query.sources.items():
        posting = index.get(term)
        if posting is not None:
            worth = query.worth[word]
            plan.append((posting, worth if term == word else weight * min(index.idf(term), CAP * (worth or 1.0))))
    plan.sort(key=lambda step: len(step[0][0]))
    return plan


def _add_to_found(scores: dict[int, float], slots: Sequence[int], impacts: Sequence[float], factor: float) -> None:
    end = len(slots)
    for slot in scores:
        at = bisect_left(slots, slot)
        if at < end and slots[at] == slot:
            scores[slot] += factor * impacts[at]


def rank(
    query: Query, index: Postings, documents: Mapping[int, Document], allowed: Collection[int] | None = None
) -> list[tuple[int, float]]:
    """The slots of the best tools with their final scores, best first, at most `RERANKED`; only `allowed` ones."""
    found = first_pass(query, index, allowed)
    if not found:
        return []
    top = found[0][1] or 1.0
    seen = SecondPass(query, index)
    scored = [(seen.score(documents[slot], score / top), slot) for slot, score in found]
    scored.sort(key=lambda item: (-item[0], documents[item[1]].key))
    return [(slot, score) for score, slot in scored]


class SecondPass:
    """Looks at one tool after the other with one query in mind."""

    def __init__(self, query: Query, index: Postings) -> None:
        self._query = query
        self._idf = index.idf
        self._idfs: dict[str, float] = {}
        self._total = query.total
        self._last = frozenset(clause[-1] for clause in query.clauses)
        self._wishes = [(words := frozenset(clause), self._worth(words) or 1.0) for clause in query.clauses]

    def score(self, doc: Document, bm25: float) -> float:
        """The final score of one tool; `bm25` is its share of the best score of the first pass."""
        answers = self.features(doc, bm25)
        return sum(weight * answer for weight, answer in zip(_WEIGHTS, answers, strict=True))

    def features(self, doc: Document, bm25: float) -> tuple[float, ...]:
        """The answers to all questions, in the order of `WEIGHTS`."""
        query = self._query
        named, of_name = self._name(doc)
        own, standins, missing, summary, summary_standins = self._coverage(doc)
        return (
            bm25,
            of_name,
            self._best_clause(doc, named),
            own * own,
            standins,
            missing,
            summary,
            summary_standins,
            1.0 if doc.server_terms and all(self._is_asked(t) for t in doc.server_terms) else 0.0,
            0.0 if query.verbs.isdisjoint(doc.verbs) else 1.0,
            1.0 if not query.verbs and "delete" in doc.verbs else 0.0,
            0.0 if self._last.isdisjoint(doc.name_terms) else 1.0,
            math.log(1 + len(doc.name_terms)),
        )

    def coverage(self, doc: Document) -> float:
        """How much of the query occurs in the tool, standins counted for less: 0 to 1."""
        own, standins, *_ = self._coverage(doc)
        return own + standins

    def _is_asked(self, term: str) -> bool:
        source = self._query.sources.get(term)
        return source is not None and source[1] > SURE

    def _name(self, doc: Document) -> tuple[dict[str, float], float]:
        """Which words of the query the name has, and how well; and how much of the name that is."""
        named: dict[str, float] = {}
        hit = whole = 0.0
        for term in doc.name_terms:
            idf = self._idfs.get(term)
            if idf is None:
                idf = self._idfs[term] = self._idf(term)
            whole += idf
            source = self._query.sources.get(term)
            if source is not None:
                word, weight = source
                hit += idf * weight
                named[word] = max(weight, named.get(word, 0.0))
        return named, hit / whole if whole else 0.0

    def _best_clause(self, doc: Document, named: Mapping[str, float]) -> float:
        worth = self._query.worth
        best = 0.0
        for words, total in self._wishes:
            share = sum(worth[w] * (1.0 if w in doc.server_terms else named.get(w, 0.0)) for w in words) / total
            if len(self._wishes) > 1 and len(words) == 1:
                share /= 2  # one word alone is little of a wish
            best = max(best, share)
        return best

    def _coverage(self, doc: Document) -> tuple[float, float, float, float, float]:
        """Shares of the query: in the tool, by standins, missing; in its first sentence, there by standins."""
        own = standins = summary = summary_standins = 0.0
        missing = 0
        for word, worth in self._query.worth.items():
            if word in doc.terms:
                own += worth
            elif weight := self._standin(word, doc.terms):
                standins += weight * worth
            else:
                missing += 1
                continue
            if word in doc.summary:
                summary += worth
            elif weight := self._standin(word, doc.summary):
                summary_standins += weight * worth
        total = self._total
        count = len(self._query.worth)
        return own / total, standins / total, missing / count, summary / total, summary_standins / total

    def _standin(self, word: str, terms: frozenset[str]) -> float:
        for term, weight in self._query.standins.get(word, ()):
            if term in terms:
                return weight
        return 0.0

    def _worth(self, words: frozenset[str]) -> float:
        return sum(self._query.worth[word] for word in words)
