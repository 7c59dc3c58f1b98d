"""From a query to an order of tools, in two passes.

First pass: BM25F over all tools that have a term of the query, or a term that can mean the same, the rarest terms
first. Terms that thousands of tools have (`get`, `list`) are only looked up for tools that a rarer term has found
already.

Second pass, over the best: a weighted sum of simple questions, each answered between 0 and 1 — how much of the query
the tool's own name covers, how much of the name the query covers, whether the verbs agree, whether anything is
missing. The weights were fitted on five public collections of tools and queries, by the softmax of the right tools
among the best. Keywords and whole sentences want different weights: fitted without the collections of keywords they
find five in a hundred keyword queries less at once, so no kind of query can be spared. What was added for sentences
helped on each collection also when it was fitted on the others alone. All of them changed at random by a fifth, one
keyword query in a hundred is answered worse.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from itertools import pairwise
from operator import mul

from codebuddy_mcp_tools.tools.documents import Document
from codebuddy_mcp_tools.tools.postings import Postings
from codebuddy_mcp_tools.tools.query import Query

RERANKED = 30
"""Tools that get a second look, if no more are asked for."""
MOST = 100
"""Tools that get a second look, however many are asked for."""
BUDGET = 1500
"""Postings that the first pass goes through; what is beyond is looked up for the best so far only."""
LOOKED_UP = 100
"""How many those best are."""
ENOUGH = 100
"""Tools that must have been found before anything is left out."""
FLOOR = 0.35
"""Share of the best score below which a tool is not looked at again, if there are enough better ones."""
FEW = 10
"""Tools that get a second look however far behind they are."""
CAP = 1.5
"""A term that stands in for a word is worth at most this many times the word."""
SHORT, LONG = 3, 4
"""A wish of `SHORT` words is short; one of `LONG` more is long."""
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
    "deletes unasked": -0.4,  # the tool deletes, and the query does not say so
    "last word": 0.2,  # the last word of a wish, mostly its noun, is in the name
    "length of the name": -1.0,
    # The more, the longer a wish is: a few words are no sentence to compare with another.
    "of the summary": 1.9,  # how much of the first sentence was asked for
    "phrases": 2.8,  # share of the query's neighbouring words that are neighbours in the first sentence
}
_WEIGHTS = tuple(WEIGHTS.values())


def first_pass(
    query: Query,
    index: Postings,
    documents: Mapping[float, Document],
    allowed: Collection[float] | None = None,
    count: int = RERANKED,
) -> list[tuple[float, float]]:
    """The scores and slots of the best tools by BM25F, best first, at most `count`."""
    scores: dict[float, float] = {}
    get = scores.get
    late: list[tuple[str, float]] = []
    spent = 0
    for length, term, factor in _plan(query, index):
        spent += length
        if spent > BUDGET and len(scores) >= ENOUGH and allowed is None:
            late.append((term, factor))
            continue
        posting = index.get(term) or []
        for slot, impact in zip(posting[::2], posting[1::2], strict=True):
            scores[slot] = get(slot, 0.0) + factor * impact
    if allowed is not None:
        scores = {slot: score for slot, score in scores.items() if slot in allowed}
    best = _best(scores, LOOKED_UP if late else count, documents)
    if not late:
        return best
    scores = {slot: score for score, slot in best}
    for term, factor in late:
        table = index.table(term)
        for slot in scores:
            if slot in table:
                scores[slot] += factor * table[slot]
    return _best(scores, count, documents)


def _plan(query: Query, index: Postings) -> list[tuple[int, str, float]]:
    """What to look up: how many have it, the term, and what it is worth; the query's own
    words first, the rarest first."""
    own: list[tuple[int, str, float]] = []
    standins: list[tuple[int, str, float]] = []
    for term, (word, weight) in query.sources.items():
        worth = query.worth[word]
        factor = worth if term == word else weight * min(index.idf(term), CAP * (worth or 1.0))
        (own if term == word else standins).append((len(index.get(term) or ()) // 2, term, factor))
    return [*sorted(own), *sorted(standins)]


def _best(scores: Mapping[float, float], count: int, documents: Mapping[float, Document]) -> list[tuple[float, float]]:
    """The best scores with their slots, best first: at most `count`, and not far behind the first.

    Where equals meet at the cut, their names decide: the order in which servers came must not show.
    """
    if not scores:
        return []
    floor = FLOOR * max(scores.values())
    found = [(score, slot) for slot, score in scores.items() if score >= floor]
    if len(found) < FEW:
        found = [(score, slot) for slot, score in scores.items()]
        count = FEW
    if len(found) > count:
        best = heapq.nlargest(count + 1, found) if len(found) > 4 * count else sorted(found, reverse=True)
        last = best[count - 1][0]
        if best[count][0] < last:
            return best[:count]
        better = [item for item in best[:count] if item[0] > last]
        equal = sorted((documents[slot].key, slot) for score, slot in found if score == last)
        return better + [(last, slot) for _, slot in equal[: count - len(better)]]
    return sorted(found, reverse=True)


def rank(
    query: Query,
    index: Postings,
    documents: Mapping[float, Document],
    allowed: Collection[float] | None = None,
    limit: int = RERANKED,
) -> list[tuple[float, float]]:
    """The final scores and slots of the best tools, in no order; only `allowed` ones.

    At most `limit`, or as many as get a second look anyway, and never more than `MOST`.
    """
    found = first_pass(query, index, documents, allowed, min(max(limit, RERANKED), MOST))
    top = found[0][0] if found and found[0][0] > 0 else 1.0
    seen = SecondPass(query, index)
    return [(seen.score(documents[slot], score / top), slot) for score, slot in found]


class SecondPass:
    """Looks at one tool after the other with one query in mind."""

    def __init__(self, query: Query, index: Postings) -> None:
        self._query = query
        self._idf = index.idf
        self._total = query.total
        self._words = [(word, worth, query.standins.get(word, ())) for word, worth in query.worth.items()]
        self._wordy = min(1.0, max(0, max(map(len, query.clauses)) - SHORT) / LONG)
        self._known = frozenset(query.sources)
        spoken = [word for clause in query.clauses for word in clause]
        self._pairs = [f" {left} {right} " for left, right in pairwise(spoken)] if self._wordy else []
        self._last = frozenset(clause[-1] for clause in query.clauses)
        wishes = [tuple(dict.fromkeys(clause)) for clause in query.clauses]
        self._wishes = [(words, sum(query.worth[word] for word in words) or 1.0) for words in wishes]

    def score(self, doc: Document, bm25: float) -> float:
        """The final score of one tool; `bm25` is its share of the best score of the first pass.

        Rounded, because sums over sets come out differently in the last digits from one process to the next.
        """
        return round(float(sum(map(mul, _WEIGHTS, self.features(doc, bm25)))), 9)

    def features(self, doc: Document, bm25: float) -> tuple[float, ...]:
        """The answers to all questions, in the order of `WEIGHTS`."""
        query = self._query
        named, of_name = self._name(doc)
        own, standins, missing, summary, summary_standins = self._coverage(doc)
        return (
            bm25,
            of_name,
            self._best_wish(doc, named),
            own * own,
            standins,
            missing,
            summary,
            summary_standins,
            1.0 if self._names_server(doc) else 0.0,
            0.0 if query.verbs.isdisjoint(doc.verbs) else 1.0,
            1.0 if "delete" in doc.verbs and "delete" not in query.verbs else 0.0,
            0.0 if self._last.isdisjoint(doc.name_terms) else 1.0,
            doc.name_length,
            self._wordy * self._of_summary(doc) if self._wordy else 0.0,
            self._wordy * sum(pair in doc.phrases for pair in self._pairs) / len(self._pairs) if self._pairs else 0.0,
        )

    def coverage(self, doc: Document) -> float:
        """How much of the query occurs in the tool, standins counted for less: 0 to 1."""
        own, standins, *_ = self._coverage(doc)
        return own + standins

    def _names_server(self, doc: Document) -> bool:
        sources = self._query.sources
        if doc.server_whole and sources.get(doc.server_whole, ("", 0.0))[1] >= SURE:
            return True
        for term in doc.server_terms:
            if term not in sources or sources[term][1] < SURE:
                return False
        return bool(doc.server_terms)

    def _name(self, doc: Document) -> tuple[dict[str, float], float]:
        """Which words of the query the name has, and how well; and how much of the name that is."""
        named: dict[str, float] = {}
        hit = whole = 0.0
        sources, worth_of = self._query.sources, self._idf
        for term in doc.name_terms:
            idf = worth_of(term)
            whole += idf
            if term in sources:
                word, weight = sources[term]
                hit += idf * weight
                if weight > named.get(word, 0.0):
                    named[word] = weight
        return named, hit / whole if whole else 0.0

    def _of_summary(self, doc: Document) -> float:
        """How much of the first sentence was asked for."""
        whole = sum(map(self._idf, doc.summary))
        sources, idf = self._query.sources, self._idf
        return sum(idf(term) * sources[term][1] for term in doc.summary & self._known) / whole if whole else 0.0

    def _best_wish(self, doc: Document, named: Mapping[str, float]) -> float:
        """How much of one wish the names of tool and server cover."""
        worth, server = self._query.worth, (*doc.server_terms, doc.server_whole)
        best = 0.0
        for words, total in self._wishes:
            covered = 0.0
            for word in words:
                if word in server:
                    covered += worth[word]
                elif word in named:
                    covered += worth[word] * named[word]
            share = covered / total
            if len(words) == 1 and len(self._wishes) > 1:
                share /= 2  # one word alone is little of a wish
            best = max(best, share)
        return best

    def _coverage(self, doc: Document) -> tuple[float, float, float, float, float]:
        """Shares of the query: in the tool, by standins, missing; in its first sentence, there by standins."""
        terms, first = doc.terms, doc.summary
        own = standins = summary = summary_standins = 0.0
        missing = 0
        for word, worth, others in self._words:
            if word in terms:
                own += worth
                if word in first:
                    summary += worth
                    continue
            else:
                for other, weight in others:
                    if other in terms:
                        standins += weight * worth
                        break
                else:
                    missing += 1
                    continue
            for other, weight in others:
                if other in first:
                    summary_standins += weight * worth
                    break
        total = self._total
        return own / total, standins / total, missing / len(self._words), summary / total, summary_standins / total
