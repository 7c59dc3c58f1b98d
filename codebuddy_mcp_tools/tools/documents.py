"""One tool definition as the search index sees it.

The weight of a field is how much one occurrence of a word in it counts (BM25F): a tool's own name says most, the texts
of its arguments least, since many tools share them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from codebuddy_mcp_tools.tools.stemmer import joined
from codebuddy_mcp_tools.tools.thesaurus import thesaurus
from codebuddy_mcp_tools.tools.tokens import compound, runs, squashed
from codebuddy_mcp_tools.types import JSON, ToolInfo

NAME, SERVER, TITLE, DESCRIPTION, SUMMARY, ARGUMENTS, ARGUMENT_TEXTS = (
    "name", "server", "title", "description", "summary", "arguments", "argument texts",
)  # fmt: skip
WEIGHTS = {NAME: 4.0, SERVER: 2.0, TITLE: 1.5, DESCRIPTION: 1.0, SUMMARY: 1.0, ARGUMENTS: 0.5, ARGUMENT_TEXTS: 0.6}
"""`summary` is the first sentence of the description, which so counts twice."""
K1 = 1.0
B = 0.3
USUAL_LENGTH = 31.0
"""Weighted words of a usual definition. A constant, so that adding a server changes no other server's numbers."""

_SENTENCE_END = re.compile(r"[.!?:](?:\s|$)|\n")
_MAX_NAME, _MAX_DESCRIPTION, _MAX_SUMMARY, _MAX_TEXT = 256, 1500, 200, 80
_MAX_PROPERTIES, _MAX_VALUES, _MAX_DEPTH, _MAX_ARGUMENTS = 60, 20, 2, 800


@dataclass(slots=True)
class Document:
    """What ranking looks at. Words are search terms, see `tokens.terms`."""

    key: str
    name_terms: tuple[str, ...]
    """The words of the tool's own name, each once; its server's name, repeated in it, is left out."""
    name_length: float
    """Logarithm of 1 + its words."""
    server_terms: tuple[str, ...]
    """The words of the server's name."""
    server_whole: str
    """`github` where it is spelled `GitHub`; else empty."""
    summary: frozenset[str]
    phrases: str
    """The words of the summary in order, a space round each, without stop words."""
    verbs: frozenset[str]
    """What kinds of thing the tool does, see `thesaurus.Thesaurus.verbs`."""
    terms: frozenset[str]
    """Every term the tool can be found by."""
    spellings: tuple[str, ...]
    """Squashed forms of the whole name: a query that is one of them means this tool."""
    label: str
    """Server and tool name, squashed: what `+word` must occur in."""


def texts(tool: ToolInfo) -> dict[str, str]:
    """The text of each field, bounded: a description of a megabyte says no more than its start."""
    description = tool.description[:_MAX_DESCRIPTION]
    names: list[str] = []
    about: list[str] = []
    room = _MAX_ARGUMENTS
    for name, text in _arguments(dict(tool.input_schema), _MAX_DEPTH):
        names.append(name)
        about.append(text)
        room -= len(name) + len(text)
        if room < 0:
            break
    return {
        NAME: tool.name[:_MAX_NAME],
        SERVER: tool.server,
        TITLE: (tool.title or "")[:_MAX_NAME],
        DESCRIPTION: description,
        SUMMARY: _SENTENCE_END.split(description.strip()[:_MAX_SUMMARY], maxsplit=1)[0],
        ARGUMENTS: " ".join(names),
        ARGUMENT_TEXTS: " ".join(about),
    }


def document(key: str, tool: ToolInfo) -> tuple[Document, dict[str, float]]:
    """A tool taken apart.

    Args:
        key: its visible name.
        tool: its definition.

    Returns:
        The document, and each term's BM25F impact (0 to 1) in it; what a term is worth in the collection comes on top
        at query time.
    """
    found = {kind: runs(text) for kind, text in texts(tool).items()}
    frequencies: dict[str, float] = {}
    times = frequencies.get
    length = 0.0
    for kind, spelled in found.items():
        weight = WEIGHTS[kind]
        more = 0
        for run in spelled:
            if len(run) == 1:
                (word,) = run
                frequencies[word] = times(word, 0.0) + weight
                continue
            more += len(run) - 1
            for word in (*run, whole) if (whole := compound(run)) else run:
                frequencies[word] = times(word, 0.0) + weight
        length += weight * (len(spelled) + more)
    norm = K1 * (1 - B + B * length / USUAL_LENGTH)
    # One float for each frequency, not for each term: most terms occur once.
    worth = {frequency: frequency / (frequency + norm) for frequency in {*frequencies.values(), WEIGHTS[NAME]}}
    impacts = {term: worth[frequency] for term, frequency in frequencies.items()}
    name, server, summary = (list(chain.from_iterable(found[kind])) for kind in (NAME, SERVER, SUMMARY))
    for left, right in pairwise(name):
        impacts.setdefault(joined(left, right), worth[WEIGHTS[NAME]])  # `askcodex`, `worklog`, `filename`
    own = [word for word in dict.fromkeys(name) if word not in server] or list(dict.fromkeys(name))
    stop = thesaurus().stop
    sentence = [word for word in summary if word not in stop]
    label = squashed(tool.server), squashed(tool.name)
    return Document(
        key=key,
        name_terms=tuple(own),
        name_length=math.log(1 + len(own)),
        server_terms=tuple(dict.fromkeys(server)),
        server_whole=compound(found[SERVER][0]) if len(found[SERVER]) == 1 else "",
        summary=frozenset(sentence),
        phrases=f" {' '.join(sentence)} ",
        verbs=_verbs(own, summary),
        terms=frozenset(impacts),
        spellings=tuple(filter(None, {squashed(key), label[1], "".join(label)})),
        label=" ".join(label),
    ), impacts


def _verbs(name: list[str], summary: list[str]) -> frozenset[str]:
    verbs = thesaurus().verbs
    return next((verbs[word] for word in (*name, *summary[:2]) if word in verbs), frozenset())


def _arguments(schema: JSON, depth: int) -> Iterator[tuple[str, str]]:
    """Name and text (description and allowed values) of each argument, nested ones as well."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if depth == 0 or not isinstance(properties, dict):
        return
    for name, about in islice(properties.items(), _MAX_PROPERTIES):
        if not isinstance(about, dict):
            yield str(name), ""
            continue
        values = about.get("enum")
        allowed = (
            [v[:_MAX_TEXT] for v in values[:_MAX_VALUES] if isinstance(v, str)] if isinstance(values, list) else ()
        )
        description = about.get("description")
        text = description[:_MAX_TEXT] if isinstance(description, str) else ""
        yield str(name), " ".join((text, *allowed)) if allowed else text
        if depth > 1:
            yield from _arguments(about, depth - 1)
            yield from _arguments(about.get("items"), depth - 1)
