"""A light English stemmer: Porter's algorithm of 1980 without its step 4, with `-ification` and `creation` as he left
them out.

Steps 1–3 and 5 join `files`/`file`, `creating`/`create`, `calculator`/`calculate`, `notification`/`notify`. Step 4
would also cut `-al`, `-ent` and `-ance` from long words; on tool names that joined more words that differ than words
that belong together. Words of other languages and words with digits come back unchanged.
"""

from __future__ import annotations

import re

_VOWELS = frozenset("aeiou")
_DOUBLING = frozenset("lsz")

# Porter's step 2 and 3, first fit: an ending, and what it becomes when at least one syllable stands before it.
_STEP_2 = (
    ("ification", "ifi"), ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP_3 = (("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""))
_NO_PLURAL = frozenset({"news"})
_STEP_2_ENDINGS = tuple(ending for ending, _ in _STEP_2)
_STEP_3_ENDINGS = tuple(ending for ending, _ in _STEP_3)
_SHAPES = str.maketrans("abcdefghijklmnopqrstuvwxz", "vcccvcccvcccccvcccccvcccc")
_PLAIN = re.compile(r"[a-z]{3,}")


def stem(word: str) -> str:
    """The stem of one lower-case word."""
    if not _PLAIN.fullmatch(word):
        return word
    word = _without_ending(word if word in _NO_PLURAL else _without_plural(word))
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    if word.endswith(_STEP_2_ENDINGS):
        word = _replaced(word, _STEP_2)
    if word.endswith(_STEP_3_ENDINGS):
        word = _replaced(word, _STEP_3)
    return _tidy(word)


def joined(left: str, right: str) -> str:
    """The stem of two words written as one, from their stems: `filenam` for `file` and `name`."""
    return _tidy(left + right) if right[-1] in "el" else left + right


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us")):
        return word[:-1]
    return word


def _without_ending(word: str) -> str:
    """Step 1b: `-eed`, `-ed`, `-ing`, and what the cut leaves to repair."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if word.endswith("ed") and _has_vowel(word[:-2]):
        base = word[:-2]
    elif word.endswith("ing") and _has_vowel(word[:-3]):
        base = word[:-3]
    else:
        return word
    if base.endswith(("at", "bl", "iz")):
        return f"{base}e"
    if len(base) > 1 and base[-1] == base[-2] and base[-1] not in _VOWELS | _DOUBLING:
        return base[:-1]
    return f"{base}e" if _measure(base) == 1 and _ends_short(base) else base


def _replaced(word: str, table: tuple[tuple[str, str], ...]) -> str:
    for ending, other in table:
        if word.endswith(ending):
            base = word[: -len(ending)]
            fits = _has_vowel(base) if ending == "ation" else _measure(base) > 0  # `creation`, but not `station`
            return base + other if fits else word
    return word


def _tidy(word: str) -> str:
    """Step 5: a final `e`, and one `l` of two."""
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _shape(word: str) -> str:
    """One letter a character: `v` for a vowel, `c` for a consonant; `y` after a consonant is a vowel."""
    shape = word.translate(_SHAPES)
    while "y" in shape:
        at = shape.index("y")
        shape = f"{shape[:at]}{'v' if shape[at - 1 : at] == 'c' else 'c'}{shape[at + 1 :]}"
    return shape


def _measure(word: str) -> int:
    """Porter's m: how often a run of vowels is followed by a consonant."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_short(word: str) -> bool:
    """Ends consonant, vowel, consonant, the last not w, x or y, as in `fil(e)`."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
