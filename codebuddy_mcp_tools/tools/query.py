"""A query, taken apart before any tool is looked at.

A query of several wishes (`read a file, or create one`) is several clauses: a tool that meets one of them fully is
better than one that touches each. Addresses, paths and numbers are values, not wishes, and count little.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from codebuddy_mcp_tools.tools.postings import Postings
from codebuddy_mcp_tools.tools.stemmer import joined
from codebuddy_mcp_tools.tools.thesaurus import thesaurus
from codebuddy_mcp_tools.tools.tokens import compound, runs, terms

UNKNOWN_WORTH = 4.0
"""What a word counts in the whole that no tool has, on the scale of idf."""
LIGHT_SHARE = 0.5
VALUE_SHARE = 0.3
COMPOUND_SHARE = 0.9
"""How well `github` stands for `GitHub`."""
JOINED_SHARE = 0.5
TURNED_SHARE = 0.5
PHRASE_SHARE = 0.5
MISSPELT_SHARE = 0.8

MAX_QUERY = 2000
"""Characters of a query that are looked at."""
_MAX_TERMS, _MAX_MISSPELT = 48, 3
_CLAUSE = re.compile(r"[,;.!?\n+]+(?:\s|$)|\b(?:or|and|then)\b")
_VALUE = re.compile(r"https?://\S+|(?<!\w)[~.]{0,2}/[\w./-]+|\b\d[\w.:-]*")


@dataclass(slots=True)
class Query:
    """What is asked for, weighed for one index."""

    clauses: list[list[str]]
    """The words of each wish, without stop words."""
    worth: dict[str, float]
    """Each word of the query to what it is worth."""
    sources: dict[str, tuple[str, float]]
    """Each term to look up: the word of the query it stands for, and how well it does (1 = the word itself)."""
    verbs: frozenset[str]
    """What kinds of thing are to be done."""
    standins: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """Each word to the terms that stand for it, best first, itself left out."""

    @property
    def total(self) -> float:
        """What all words together are worth."""
        return sum(self.worth.values()) or 1.0


def parse(text: str, index: Postings) -> Query | None:
    """Take a query apart and weigh it by what the index has; `None` when there is no word in it."""
    text = text[:MAX_QUERY]
    clauses, spoken = _clauses(text)
    words = list(dict.fromkeys(word for clause in clauses for word in clause))
    if not words:
        return None
    values = {t for value in _VALUE.findall(text) for t in terms(value)}
    if values:
        values -= set(terms(_VALUE.sub(" ", text)))
    query = Query(
        clauses=clauses,
        worth={},
        sources={},
        verbs=frozenset(kind for word in words for kind in thesaurus().verbs.get(word, ())),
    )
    _look_up(query, words, values, index)
    others_of = thesaurus().others
    for word in words:
        for other, weight in others_of.get(word, ()):
            _note(query, index, other, word, weight)
    for run in runs(text):
        if whole := compound(run):
            _note(query, index, whole, _counted(query, *run), COMPOUND_SHARE)
    for clause in (*clauses, *spoken):
        for left, right in pairwise(clause):
            _note_pair(query, index, left, right)
    for term, (word, weight) in query.sources.items():
        if term != word:
            query.standins.setdefault(word, []).append((term, weight))
    for others in query.standins.values():
        others.sort(key=lambda other: -other[1])
    return query


def _clauses(text: str) -> tuple[list[list[str]], list[list[str]]]:
    """The words that count of each clause, and all words of each."""
    stop = thesaurus().stop
    spoken = [terms(part) for part in _CLAUSE.split(text)]
    clauses = [[word for word in words if word not in stop] for words in spoken]
    clauses = [clause for clause in clauses if clause] or [words for words in spoken if words]
    kept: list[list[str]] = []
    room = _MAX_TERMS
    for clause in clauses:
        kept.append(clause[:room])
        room -= len(kept[-1])
        if room <= 0:
            break
    return kept, spoken[: len(kept) + 8]


def _look_up(query: Query, words: list[str], values: set[str], index: Postings) -> None:
    light = thesaurus().light
    misspelt = 0
    for word in words:
        share = VALUE_SHARE if word in values else LIGHT_SHARE if word in light else 1.0
        if word in index:
            query.sources[word] = (word, 1.0)
            query.worth[word] = index.idf(word) * share
            continue
        query.worth[word] = UNKNOWN_WORTH * share
        if word in values or len(word) < 4 or misspelt >= _MAX_MISSPELT:
            continue
        misspelt += 1
        near = index.near(word)
        for term, likeness in near:
            _note(query, index, term, word, MISSPELT_SHARE * likeness)
        if near:
            query.worth[word] = max(index.idf(term) for term, _ in near) * share


def _note_pair(query: Query, index: Postings, left: str, right: str) -> None:
    word = _counted(query, left, right)
    _note(query, index, joined(left, right), word, JOINED_SHARE)
    _note(query, index, joined(right, left), word, TURNED_SHARE)
    for other in thesaurus().phrases.get((left, right), ()):
        _note(query, index, other, word, PHRASE_SHARE)


def _counted(query: Query, *words: str) -> str:
    """The first of these words that counts; the first of the query when none does."""
    return next((word for word in words if word in query.worth), next(iter(query.worth)))


def _note(query: Query, index: Postings, term: str, word: str, weight: float) -> None:
    if term in index and query.sources.get(term, ("", 0.0))[1] < weight:
        query.sources[term] = (word, weight)
