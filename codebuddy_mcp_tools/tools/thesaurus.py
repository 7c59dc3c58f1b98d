"""The tables of `vocabulary`, by the stems the index uses."""

from __future__ import annotations

from collections.abc import Mapping

from codebuddy_mcp_tools.tools import vocabulary
from codebuddy_mcp_tools.tools.tokens import terms

FORWARD = 0.6
"""How much a word counts that stands to the right of the one asked for, or beside it in a line of `SAME`."""
BACKWARD = 0.2
"""How much the head of a line counts when one of its words is asked for."""


def _stems(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _one(word: str) -> str:
    return "".join(terms(word))


def _others() -> Mapping[str, tuple[tuple[str, float], ...]]:
    table: dict[str, dict[str, float]] = {}

    def note(word: str, other: str, weight: float) -> None:
        known = table.setdefault(word, {})
        if word != other and known.get(other, 0.0) < weight:
            known[other] = weight

    for line in vocabulary.SAME.strip().splitlines():
        group = [_one(word) for word in line.split()]
        for word in group:
            for other in group:
                note(word, other, FORWARD)
    for line in vocabulary.NEAR.strip().splitlines():
        head, *meant = [_one(word) for word in line.split()]
        for other in meant:
            note(head, other, FORWARD)
            note(other, head, BACKWARD)
    return {word: tuple(others.items()) for word, others in table.items()}


def _verbs() -> Mapping[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for kind, verbs in vocabulary.VERBS.items():
        for verb in terms(verbs):
            table.setdefault(verb, set()).add(kind)
    return {verb: frozenset(kinds) for verb, kinds in table.items()}


def _phrases() -> Mapping[tuple[str, str], tuple[str, ...]]:
    pairs = {phrase: terms(phrase) for phrase in vocabulary.PHRASES}
    return {(a, b): tuple(terms(vocabulary.PHRASES[phrase])) for phrase, (a, b) in pairs.items()}


STOP = _stems(vocabulary.STOP)
LIGHT = _stems(vocabulary.LIGHT)
OTHERS = _others()
"""Stem to the stems that can mean the same, each with its weight."""
VERBS = _verbs()
"""Stem of a verb to the kinds of thing it does."""
PHRASES = _phrases()
"""Two stems in order to the stems they can mean together."""
