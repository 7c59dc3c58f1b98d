"""The inverted index: each term to the tools that have it.

Postings are two flat lists, slots in growing order and impacts. The impacts are shared objects of 1,024 steps, so
that one posting costs 16 bytes. Tools are added one at a time and removed in groups; only the terms of those tools
are touched.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

Posting = tuple[list[int], list[float]]

_STEPS = [step / 1024 for step in range(1025)]
_MAX_SHARED = 400
"""A trigram that more terms share than this says nothing about a spelling."""


class Postings:
    """Terms, where they occur, and what spellings come near a word that does not."""

    def __init__(self) -> None:
        self._lists: dict[str, Posting] = {}
        self._grams: dict[str, set[str]] | None = None
        self.size = 0
        """Tools in the collection."""

    def __contains__(self, term: object) -> bool:
        return term in self._lists

    def get(self, term: str) -> Posting | None:
        """Slots in growing order, and the impact at each."""
        return self._lists.get(term)

    def idf(self, term: str) -> float:
        """What a term is worth: the rarer, the more; as in BM25, never negative. 0 for an unknown term."""
        known = self._lists.get(term)
        if known is None:
            return 0.0
        count = len(known[0])
        return math.log(1 + (self.size - count + 0.5) / (count + 0.5))

    def add(self, slot: int, impacts: Mapping[str, float]) -> None:
        """Take in one tool; `slot` must be larger than every slot before it."""
        for term, impact in impacts.items():
            known = self._lists.get(term)
            if known is None:
                known = self._lists[term] = ([], [])
                if self._grams is not None:
                    _enter(self._grams, term)
            known[0].append(slot)
            known[1].append(_STEPS[int(impact * 1024)])
        self.size += 1

    def remove(self, slots: Collection[int], terms: Iterable[str]) -> None:
        """Forget tools; `terms` are all terms that they have."""
        for term in terms:
            old_slots, old_impacts = self._lists[term]
            kept = [at for at, slot in enumerate(old_slots) if slot not in slots]
            if kept:
                self._lists[term] = ([old_slots[at] for at in kept], [old_impacts[at] for at in kept])
                continue
            del self._lists[term]
            for gram in _trigrams(term) if self._grams is not None else ():
                self._grams[gram].discard(term)  # type: ignore[index]
        self.size -= len(slots)

    def near(self, word: str, limit: int = 3) -> list[tuple[str, float]]:
        """Known terms that are spelled like an unknown word, best first, with their likeness (Dice's coefficient).

        At least half of the trigrams must be shared, or 0.4 where the first letter agrees: one wrong letter in a word
        of four or five leaves no more.
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
        scored = [(2 * n / (len(wanted) + len(term)), term) for term, n in shared.most_common(30)]
        ranked = sorted(scored, key=lambda s: (-s[0], s[1]))[:limit]
        return [(term, score) for score, term in ranked if score >= (0.4 if term[0] == word[0] else 0.5)]


def _enter(grams: dict[str, set[str]], term: str) -> None:
    for gram in _trigrams(term):
        grams.setdefault(gram, set()).add(term)


def _trigrams(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[at : at + 3] for at in range(len(padded) - 2))
