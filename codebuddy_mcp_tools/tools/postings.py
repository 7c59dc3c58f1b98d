"""The inverted index: each term to the tools that have it.

A posting list is flat: slot and impact of one tool, then of the next, slots in growing order. Adding or removing a tool
touches only the terms that it has.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

Posting = list[float]
"""Slot, impact, slot, impact, …; slots are whole numbers."""

_MAX_TABLES = 512
_MAX_SHARED = 400
"""A trigram that more terms share than this says nothing about a spelling."""

_SWAPPED = 0.9


class Postings:
    """Terms, where they occur, and what spellings come near a word that does not."""

    def __init__(self) -> None:
        self._lists: dict[str, Posting] = {}
        self._grams: dict[str, set[str]] | None = None
        self._idfs: dict[str, float] = {}
        self._tables: dict[str, dict[float, float]] = {}
        self.size = 0
        """Tools in the collection."""

    def __contains__(self, term: object) -> bool:
        return term in self._lists

    def get(self, term: str) -> Posting | None:
        """The posting list of a term."""
        return self._lists.get(term)

    def table(self, term: str) -> dict[float, float]:
        """The posting list of a term as a mapping; kept until the collection changes."""
        known = self._tables.get(term)
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            posting = self._lists.get(term, [])
            known = self._tables[term] = dict(zip(posting[::2], posting[1::2], strict=True))
        return known

    def idf(self, term: str) -> float:
        """What a term is worth: the rarer, the more; as in BM25, never negative. 0 for an unknown term."""
        known = self._idfs.get(term)
        if known is None:
            count = len(self._lists.get(term, ())) // 2
            known = self._idfs[term] = math.log(1 + (self.size - count + 0.5) / (count + 0.5)) if count else 0.0
        return known

    def add(self, slot: int, impacts: Mapping[str, float]) -> None:
        """Take in one tool; `slot` must be larger than every slot before it."""
        lists = self._lists
        for term, impact in impacts.items():
            known = lists.get(term)
            if known is not None:
                known += (slot, impact)
                continue
            lists[term] = [slot, impact]
            if self._grams is not None:
                _enter(self._grams, term)
        self._changed(1)

    def remove(self, slot: int, terms: Iterable[str]) -> None:
        """Forget one tool; `terms` are all terms that it has."""
        for term in terms:
            known = self._lists[term]
            if len(known) > 2:
                at = 2 * bisect_left(range(len(known) // 2), float(slot), key=lambda place: known[2 * place])
                del known[at : at + 2]
                continue
            del self._lists[term]
            for gram in _trigrams(term) if self._grams is not None else ():
                self._grams[gram].discard(term)  # type: ignore[index]
        self._changed(-1)

    def _changed(self, by: int) -> None:
        self.size += by
        self._idfs.clear()
        self._tables.clear()

    def near(self, word: str, limit: int = 3) -> list[tuple[str, float]]:
        """Known terms that are spelled like an unknown word, best first, with their likeness (Dice's coefficient).

        At least half of the trigrams must be shared, or 0.4 where the first letter agrees: one wrong letter in a word
        of four or five leaves no more. Two letters in each other's place spoil up to four, so those are tried.
        """
        if self._grams is None:
            self._grams = {}
            for term in self._lists:
                _enter(self._grams, term)
        wanted = _trigrams(word)
        shared: Counter[str] = Counter()
        for gram in wanted:
            terms = self._grams.get(gram, ())
            if len(terms) <= _MAX_SHARED:
                shared.update(terms)
        likeness = {term: 2 * n / (len(wanted) + len(term)) for term, n in shared.items()}
        for at in range(len(word) - 1):
            swapped = f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}"
            if swapped in self._lists:
                likeness[swapped] = _SWAPPED
        close = [(-n, term) for term, n in likeness.items() if n >= (0.4 if term[0] == word[0] else 0.5)]
        return [(term, -n) for n, term in heapq.nsmallest(limit, close)]


def _enter(grams: dict[str, set[str]], term: str) -> None:
    for gram in _trigrams(term):
        grams.setdefault(gram, set()).add(term)


def _trigrams(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))
