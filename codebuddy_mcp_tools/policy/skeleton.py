"""What a text looks like: one plain form for everything a reader could take for the same letters.

Compatibility forms (full-width, mathematical, circled letters) are decomposed, accents, invisible and control
characters dropped, look-alikes of other scripts replaced by the Latin letter they look like, case folded. It is used
in two places that must not be fooled by spelling: the envelope (does this text look like our tag?) and deny and ask
rules (does this name look like the one the rule means?). It is never used to *allow* anything: there, two spellings
are two names.

The table follows the idea of Unicode TR39 and is written for Latin targets only.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Small forms, looked up after case folding.
_LOOKALIKES = {
    "a": "аɑα⍺ꓮᎪᗩ",
    "b": "ьвβƅꓐᏴᏏᗷ",
    "c": "сϲⲥᏟꓚᑕ𐐽ↄ",
    "d": "ԁꓓᎠᏧᗪᗞ",
    "e": "еєεҽ℮ꓰᎬɛᗴⲉ",
    "f": "ꓝքϝᖴ",
    "g": "ɡցᏀꓖԍ",
    "h": "һհнꓧᎻᏂᕼ",
    "i": "іιıꓲᎥⲓ",
    "j": "јϳꓙᎫᒍ",
    "k": "кκꓗᏦⲕ",
    "l": "ӏꓡᏞᒪǀ∣",
    "m": "мꓟᎷⲙϻᗰ",
    "n": "пոηռꓠⲛᑎ",
    "o": "оοօσꓳⲟჿ〇ⵔᴑ",
    "p": "рρϱⲣꓑᏢᑭ",
    "q": "ԛզգᑫ",
    "r": "гꓣᏒᎡⲅᖇ",
    "s": "ѕտꓢᏚᔕ",
    "t": "тτꓔᎢⲧ",
    "u": "υμսꓴᑌ",
    "v": "νѵꓦᏙᐯ∨⋁",
    "w": "ѡԝωաᎳᏔꓪⲱᗯ",
    "x": "хχꓫⲭ×᙭",
    "y": "уγүꓬᎽყⲩ",
    "z": "ꓜᏃζⲍᘔ",
    "<": "‹«〈⟨《⟪≪≺⋖ᐸ˂❬❮❰⧼⪡⊲◁◂◃◄≮≤≦⩽≲",
    ">": "›»〉⟩》⟫≫≻⋗ᐳ˃❭❯❱⧽⪢⊳▷▸▹►",
    "/": "∕⁄╱⧸⟋⫽÷",
    "\\": "∖⧵⧹╲⟍﹨",
    "-": "‐‑‒–—―−⁃˗➖⸺⸻",
    "_": "‿⁀⁔﹍﹎﹏ˍ",
}
# Capitals that do not look like their own small letters.
_CAPITALS = {"Η": "h", "Μ": "m", "Ν": "n", "Υ": "y", "Ζ": "z", "Ⲏ": "h", "Ⲙ": "m", "Ⲛ": "n", "Ր": "r", "Ս": "u"}
_BY_LOOKS = {look: plain for plain, looks in _LOOKALIKES.items() for look in looks}
_NAMED_LETTER = re.compile(r"LETTER (?:SMALL CAPITAL |DOTLESS |SCRIPT |INSULAR |BARRED |CLOSED )?([A-Z])(?: WITH .*)?$")
_DROPPED = frozenset({"Mn", "Me", "Mc", "Cf", "Cc", "Cs", "Cn"})
_NOT_WORD = re.compile(r"\W")
_REMEMBERED = 1 << 16


class _Table(dict[int, str]):
    """Filled as characters are met, for `str.translate`; bounded, so that no text can make it grow without end."""

    def __missing__(self, code: int) -> str:
        plain = _plain(chr(code))
        if len(self) < _REMEMBERED:
            self[code] = plain
        return plain


_TABLE = _Table()


def skeleton(text: str) -> str:
    """The text as it looks: white space becomes a space, marks and invisible characters go, look-alikes turn Latin."""
    return text.translate(_TABLE)


@lru_cache(maxsize=1 << 15)
def loose(name: str) -> str:
    """The form in which names are compared when a rule *forbids* something: what looks alike is alike."""
    return _NOT_WORD.sub("_", skeleton(name).strip())


def looks_like(code: int) -> str:
    """The skeleton of one code point: usually one character, sometimes none or several."""
    return _TABLE[code]


def lookalikes_of(plain: str) -> str:
    """All single characters whose skeleton is `plain` by the table or by compatibility; for `<` and its like."""
    return plain + _LOOKALIKES.get(plain, "") + _COMPATIBLE.get(plain, "")


_COMPATIBLE = {"<": "＜﹤≰≴⊀⋪\u2329︽︿", ">": "＞﹥", "/": "／", "\\": "＼﹨", "&": "＆﹠", "%": "％﹪"}


def _plain(char: str) -> str:
    if char in _CAPITALS:
        return _CAPITALS[char]
    return "".join(_plain_part(part) for part in unicodedata.normalize("NFKD", char))


def _plain_part(char: str) -> str:
    if char.isspace():
        return " "
    if char in _CAPITALS:
        return _CAPITALS[char]
    if char in _BY_LOOKS:
        return _BY_LOOKS[char]
    if char.isascii():
        return char.lower() if char.isprintable() else ""
    if unicodedata.category(char) in _DROPPED or _is_filler(char):
        return ""
    folded = char.casefold()
    if folded in _BY_LOOKS:
        return _BY_LOOKS[folded]
    named = _NAMED_LETTER.search(unicodedata.name(char, ""))
    if named and ("LATIN" in unicodedata.name(char) or "REGIONAL" in unicodedata.name(char)):
        return named[1].lower()
    return folded


def _is_filler(char: str) -> bool:
    return char in "\u115f\u1160\u3164\uffa0\u2800"
