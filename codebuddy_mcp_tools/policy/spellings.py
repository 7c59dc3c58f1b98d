r"""How a secret can stand in a text: as it is, percent-encoded, as in JSON, `repr` and HTML, in base64 and hexadecimal.

Policy: one regular expression for each secret, character by character, so that every mixture of encodings is found
(`httpx`, `urllib` and browsers each leave other characters as they are). What is escaped twice, as JSON inside of JSON,
is found too. Backslashes are counted up to eight, so that no text makes the search slow.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache

_PERCENT = "%(?:25){0,3}"
_BACKSLASH = rf"(?:\\|{_PERCENT}5[cC])"
_BACKSLASHES = _BACKSLASH + "{1,8}"
_ESCAPED = _BACKSLASH + "{0,8}"
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_BASE64 = {"+": rf"(?:[+-]|{_PERCENT}2[bB])", "/": rf"(?:[/_]|{_BACKSLASHES}/|{_PERCENT}2[fF])"}
_SHORTEST_ENCODED = 6
_PIECE = re.compile("[A-Za-z0-9]+")


class Spellings:
    """Finds one secret in every spelling.

    A pattern that long takes milliseconds to compile and a while to run, and nearly no text holds a secret: it is made
    and used only where a piece of the secret stands that no encoding changes.
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._encoded = _in_base(secret)
        pieces = [_longest_piece(text) for text in (secret, *self._encoded)]
        digits = secret.encode("utf-8", "surrogatepass").hex()
        self._signs = (*pieces, digits, digits.upper()) if pieces[0] else ()
        self._pattern: re.Pattern[str] | None = None

    def hide(self, text: str, mask: str) -> str:
        """The text with `mask` in place of the secret."""
        if self._signs and not any(sign in text for sign in self._signs):
            return text
        if self._pattern is None:
            plain = "".join(_spelled(char) for char in re.sub(r"\\+", r"\\", self._secret))
            digits = f"(?i:{self._secret.encode('utf-8', 'surrogatepass').hex()})"
            encoded = ["".join(_BASE64.get(char, char) for char in core) for core in self._encoded]
            self._pattern = re.compile("|".join([plain, *encoded, digits]))
        return self._pattern.sub(mask, text)


def _in_base(secret: str) -> tuple[str, ...]:
    """The secret in base64 wherever it stands in what was encoded: what depends on it alone, not on its neighbours."""
    raw = secret.encode("utf-8", "surrogatepass")
    cores = []
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode("ascii")
        cores.append(text[-(-8 * before // 6) : 8 * (before + len(raw)) // 6])
    return tuple(core for core in cores if len(core) >= _SHORTEST_ENCODED)


def _longest_piece(text: str) -> str:
    """The longest run of letters and digits: these are the same in every spelling."""
    return max(_PIECE.findall(text), key=len, default="")


@lru_cache(maxsize=1 << 12)
def _spelled(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    if char == "\\":
        return rf"(?:{_BACKSLASHES}|&#92;|&#x5[cC];)"
    code = ord(char)
    octets, units = char.encode("utf-8", "surrogatepass"), char.encode("utf-16-be", "surrogatepass")
    forms = [
        _ESCAPED + re.escape(char),
        _ESCAPED + "".join(f"{_PERCENT}(?i:{byte:02x})" for byte in octets),
        "".join(f"{_BACKSLASHES}x(?i:{byte:02x})" for byte in octets),  # as in the `repr` of bytes
        "".join(f"{_BACKSLASHES}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2)),
        f"{_BACKSLASHES}U(?i:{code:08x})",
        f"&#(?:0*{code}|[xX]0*(?i:{code:x}));",
    ]
    if 0x80 <= code < 0x100:
        forms.append(f"{_BACKSLASHES}x(?i:{code:02x})")
    if char in _LETTERS:
        forms.append(_BACKSLASHES + _LETTERS[char])
    if char in _ENTITIES:
        forms.append(f"&{_ENTITIES[char]};")
    if char == " ":
        forms.append(rf"\+|{_PERCENT}2[bB]")
    return f"(?:{'|'.join(forms)})"
