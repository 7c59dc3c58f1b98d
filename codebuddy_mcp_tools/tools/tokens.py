"""From text to search terms: words of every spelling and script, lower case, without accents, stemmed.

`createIssue`, `create_issue`, `create-issue` and `HTTPServer` come apart; a short mix of letters and digits (`k8s`,
`s3`, `utf8`) stays one word. `ß` is `ss`. Chinese, Japanese and Korean text has no spaces: its runs become
overlapping pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain

from codebuddy_mcp_tools.tools.stemmer import stem

_RUN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_NOT_ALNUM = re.compile(r"[\W_]+")
_MIXED = re.compile(r"[A-Za-z]{1,4}[0-9]{1,3}[A-Za-z]{0,2}|[0-9][A-Za-z]{1,2}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_ACCENTS = re.compile("[\u0300-\u036f]+")
"""Of Latin, Greek and Cyrillic letters; marks of other scripts are part of the letter."""
_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "đ": "d", "ł": "l", "Ł": "L"}
)
_MAX_CACHED = 200_000
_MAX_WORD = 64

_known: dict[str, tuple[str, ...]] = {}


def words(text: str) -> list[str]:
    """The words of a text, lower case and without accents, not stemmed."""
    return [word for run in _RUN.findall(text) for word in _split(run)]


def terms(text: str) -> list[str]:
    """The words of a text as the index knows them, in order, stop words included."""
    runs = _RUN.findall(text)
    found = list(map(_known.get, runs))
    if None in found:
        found = [stems or _remember(run) for run, stems in zip(runs, found, strict=True)]
    return list(chain.from_iterable(found))  # type: ignore[arg-type]


def squashed(text: str) -> str:
    """Letters and digits only, lower case: the form in which two spellings of one name are equal."""
    if text.isascii():
        return _NOT_ALNUM.sub("", text).lower()
    return "".join(words(text))


def _remember(run: str) -> tuple[str, ...]:
    if len(_known) >= _MAX_CACHED:
        _known.clear()
    stems = _known[run] = tuple(stem(word) for word in _split(run))
    return stems


def _split(run: str) -> list[str]:
    """One run of letters and digits, taken apart."""
    run = run[: _MAX_WORD * 4]
    if not run.isascii():
        run = unicodedata.normalize("NFKD", run.translate(_LETTERS))
        run = unicodedata.normalize("NFC", _ACCENTS.sub("", run))
    elif _MIXED.fullmatch(run):
        return [run.lower()]
    found: list[str] = []
    for word in _WORD.findall(run):
        if word.isascii():
            found.append(word.lower()[:_MAX_WORD])
        elif _CJK.search(word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            found.append(word.casefold()[:_MAX_WORD])
    return found
