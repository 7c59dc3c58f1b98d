"""From text to search terms: words of every spelling and script, lower case, without accents, stemmed.

`createIssue`, `create_issue`, `create-issue` and `HTTPServer` come apart; a short mix of letters and digits (`k8s`,
`s3`, `utf8`) stays one word. `ß` is `ss`. Chinese, Japanese, Korean and Thai text has no spaces to go by: its runs
become overlapping pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import reduce
from itertools import chain

from codebuddy_mcp_tools.tools.stemmer import joined, stem

_INDIC = "\u0900-\u0963\u0966-\u0dff"  # with the vowel signs, which are no word characters to `re`
_TO_SPACES = {code: " " for code in range(128) if not chr(code).isalnum()}
_RUN = re.compile(rf"[\w{_INDIC}\u0e31-\u0e4e]+")
_WORD = re.compile(
    rf"[A-Z]+(?=to[A-Z]|v[0-9])|[A-Z]{{2,}}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|(?:[^\W\d_A-Za-z]|[{_INDIC}])+"
)
_NOT_ALNUM = re.compile(r"[\W_]+")
_MIXED = re.compile(r"[A-Za-z]{1,4}[0-9]{1,3}[A-Za-z]{0,2}|[0-9][A-Za-z]{1,2}")
_UNSPACED = re.compile(r"[\u0e01-\u0e4e\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_DROPPED = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u00ad\u200b-\u200f\u2060\ufeff]+")
"""Accents of Latin, Greek and Cyrillic letters, the optional points of Hebrew and Arabic, and what nobody sees. Marks
of other scripts are part of the letter."""
_LETTERS = str.maketrans(
    {
        "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D",
        "ł": "l", "Ł": "L", "ı": "i",
    }
)  # fmt: skip
_MAX_CACHED = 200_000
_MAX_WORD = 64

_known: dict[str, tuple[str, ...]] = {}


def words(text: str) -> list[str]:
    """The words of a text, lower case and without accents, not stemmed."""
    return [word for run in _runs(text) for word in _split(run)]


def terms(text: str) -> list[str]:
    """The words of a text as the index knows them, in order, stop words included."""
    return list(chain.from_iterable(runs(text)))


def runs(text: str) -> list[tuple[str, ...]]:
    """The same, those together that are written together: `GitHub` is one run of two words."""
    spelled = _runs(text)
    try:
        return list(map(_known.__getitem__, spelled))
    except KeyError:
        return [_known.get(run) or _remember(run) for run in spelled]


def compound(run: tuple[str, ...]) -> str:
    """A run of two or three words as one term: `github` for `GitHub`. Empty for other runs."""
    return reduce(joined, run) if 1 < len(run) <= 3 and run[0].isascii() else ""


def squashed(text: str) -> str:
    """Letters and digits only, lower case: the form in which two spellings of one name are equal."""
    if text.isascii():
        return _NOT_ALNUM.sub("", text).lower()
    return "".join(words(text))


def _runs(text: str) -> list[str]:
    """The runs of letters and digits, in plain letters."""
    if text.isascii():
        return text.translate(_TO_SPACES).split()
    text = unicodedata.normalize("NFKD", text.translate(_LETTERS).replace("_", " "))
    return _RUN.findall(unicodedata.normalize("NFC", _DROPPED.sub("", text)))


def _remember(run: str) -> tuple[str, ...]:
    if len(_known) >= _MAX_CACHED:
        _known.clear()
    stems = _known[run] = tuple(stem(word) for word in _split(run))
    return stems


def _split(run: str) -> list[str]:
    """One run of letters and digits, taken apart."""
    if run.isascii() and run.islower() and run.isalpha():
        return [run[:_MAX_WORD]]
    run = run[: _MAX_WORD * 4]
    if run.isascii() and _MIXED.fullmatch(run):
        return [run.lower()]
    found: list[str] = []
    for word in _WORD.findall(run):
        if word.isascii():
            plural = len(word) > 2 and word[-1] == "s" and word[-2] <= "Z"  # `URLs`
            found.append((word[:-1] if plural else word).lower()[:_MAX_WORD])
        elif _UNSPACED.search(word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            found.append(word.casefold()[:_MAX_WORD])
    return found
