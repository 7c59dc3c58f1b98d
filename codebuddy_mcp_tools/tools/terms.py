"""From text to search terms: words of every spelling, lightly stemmed; and what words mean beside themselves.

The tables are general vocabulary of programming interfaces, not of any one server.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SPECIAL = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i"})

_STOP_WORDS = """
a an the of to in on for and or with by from at as is are be it its this that these those which i me my we our
you your can could would should will shall do does did please want need like using use used via into about
some any all there what how when where who whom whose if then than so such not no if has have had was were
been being them they he she his her their let us also just only more most very tool tools mcp server given
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_SYNONYMS = (
    "create add new make insert",
    "delete remove drop erase destroy",
    "update edit modify change alter",
    "get fetch retrieve read show view obtain",
    "list enumerate browse",
    "search find query lookup locate seek",
    "send post deliver dispatch",
    "run execute invoke launch",
    "file document",
    "directory folder",
    "repo repository",
    "pr pull-request",
    "image picture photo",
    "message chat",
    "mail email",
    "db database",
    "ticket issue",
    "weather forecast",
    "translate translation",
    "picture screenshot",
    "url link website webpage site",
    "stock share ticker",
    "price cost quote",
    "calendar schedule event",
    "convert transform",
    "upload import",
    "download export",
    "location place geocode address",
    "user person account member",
    "comment note annotation",
    "stop cancel abort terminate",
    "start begin open",
    "copy duplicate clone",
    "move relocate transfer",
    "compute calculate evaluate",
    "wait sleep pause delay",
    "push upload publish",
    "news article headline",
    "video movie film clip",
    "song track music audio",
    "picture draw paint render",
    "spreadsheet excel workbook worksheet sheet",
    "slide presentation powerpoint",
    "word docx document",
    "log trace",
    "metric statistic stat",
    "chart graph plot diagram",
    "paper publication article",
    "job career position",
    "hotel accommodation lodging",
    "flight airline",
    "restaurant food",
    "recipe cooking dish",
    "currency exchange",
    "web internet online",
    "summary summarize overview",
    "config configuration setting option",
    "auth login authenticate signin",
    "permission access right",
)

_VERB_CLASSES = {
    "create": "create add new make insert generate register",
    "delete": "delete remove drop erase destroy clear purge",
    "update": "update edit modify change set alter rename replace patch",
    "read": "get fetch retrieve read show view list search find query lookup describe count check",
    "send": "send post publish share deliver submit",
    "start": "run execute invoke launch start trigger",
    "stop": "stop cancel abort terminate close",
}


def words(text: str) -> list[str]:
    """The words of a text in any writing: camelCase, snake_case, kebab-case and ACRONYMSWithWords taken apart.

    Lower case, without accents; `ß` is `ss`; Chinese, Japanese and Korean text becomes pairs of characters.
    """
    found: list[str] = []
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_SPECIAL))
        text = unicodedata.normalize("NFC", "".join(c for c in text if not unicodedata.combining(c)))
    for word in _WORD.findall(text):
        if word.isascii() or not _CJK.search(word):
            found.append(word.casefold())
        else:
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
    return found


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light stem: plural, -ing, -ed, -ion and the final e go; nothing that would join unrelated words."""
    if len(word) < 4 or not word.isascii():
        return word
    word = _without_plural(word)
    for suffix in ("ations", "ation", "ions", "ion", "ings", "ing", "ed"):
        base = word[: -len(suffix)]
        if word.endswith(suffix) and len(base) >= 3 and any(c in "aeiouy" for c in base):
            word = f"{base}at" if suffix.startswith("ation") else _undouble(base)
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _undouble(base: str) -> str:
    doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
    return base[:-1] if doubled else base


def terms(text: str) -> list[str]:
    """The stemmed words of a text, in order, stop words included."""
    return [stem(word) for word in words(text)]


def _groups() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for line in _SYNONYMS:
        group = {stem(word) for word in line.split() if "-" not in word}
        for word in group:
            table.setdefault(word, set()).update(group - {word})
    return {word: frozenset(others) for word, others in table.items()}


SYNONYMS = _groups()
"""Stem to the stems that often mean the same in a tool's name."""
VERB_CLASS = {stem(verb): kind for kind, verbs in _VERB_CLASSES.items() for verb in verbs.split()}
"""Stem of a verb to the kind of thing it does."""
STOP_STEMS = frozenset(stem(word) for word in STOP_WORDS)
