"""What words mean beside themselves: `vocabulary.txt`, by the stems the index uses. Read when first needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from codebuddy_mcp_tools.tools.tokens import terms

FORWARD = 0.6
"""How much a word counts that is often meant by the one asked for, or is another spelling of it."""
BACKWARD = 0.2
"""How much a word counts by which the one asked for is often meant."""


@dataclass(frozen=True, slots=True)
class Thesaurus:
    """All words are stems."""

    stop: frozenset[str]
    """Words that say nothing about which tool is meant, unless the query has no others."""
    light: frozenset[str]
    """Words that carry half a meaning."""
    others: Mapping[str, tuple[tuple[str, float], ...]]
    """A word to those that can mean the same, each with its weight."""
    phrases: Mapping[tuple[str, str], tuple[str, ...]]
    """Two words in order to what they can mean together."""
    verbs: Mapping[str, frozenset[str]]
    """A verb to the kinds of thing it does: create, delete, update, read, send, start, stop, compute."""


@cache
def thesaurus() -> Thesaurus:
    """The vocabulary of the package."""
    return parsed(files(__package__).joinpath("vocabulary.txt").read_text(encoding="utf-8"))


def parsed(text: str) -> Thesaurus:
    """A vocabulary from the text of its file."""
    sections: dict[str, list[str]] = {}
    section: list[str] = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()  # noqa: PLW2901
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        elif line:
            section.append(line)
    return Thesaurus(
        stop=frozenset(terms(" ".join(sections["stop"]))),
        light=frozenset(terms(" ".join(sections["light"]))),
        others=_others(sections["same"], sections["near"]),
        phrases={(a, b): tuple(meant) for (a, b), meant in map(_entry, sections["phrases"])},
        verbs=_verbs(sections["verbs"]),
    )


def _entry(line: str) -> tuple[list[str], list[str]]:
    head, _, meant = line.partition(":")
    return terms(head), [_one(word) for word in meant.split()]


def _one(word: str) -> str:
    return "".join(terms(word))


def _others(same: Iterable[str], near: Iterable[str]) -> Mapping[str, tuple[tuple[str, float], ...]]:
    table: dict[str, dict[str, float]] = {}

    def note(word: str, other: str, weight: float) -> None:
        known = table.setdefault(word, {})
        if word != other and known.get(other, 0.0) < weight:
            known[other] = weight

    for line in same:
        group = [_one(word) for word in line.split()]
        for word in group:
            for other in group:
                note(word, other, FORWARD)
    for (head, *_), meant in map(_entry, near):
        for other in meant:
            note(head, other, FORWARD)
            note(other, head, BACKWARD)
    return {word: tuple(others.items()) for word, others in table.items()}


def _verbs(lines: Iterable[str]) -> Mapping[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for line in lines:
        kind, _, verbs = line.partition(":")
        for verb in terms(verbs):
            table.setdefault(verb, set()).add(kind)
    return {verb: frozenset(kinds) for verb, kinds in table.items()}
