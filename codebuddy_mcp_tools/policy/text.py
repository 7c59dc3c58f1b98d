"""What a stranger's text loses before anybody reads it: terminal escapes, invisible characters, direction controls.

Policy: characters that carry meaning for a reader stay, characters that only carry meaning for a machine go and are
counted. Joiners (ZWJ, ZWNJ) and one variation selector after a visible character are part of emoji, Persian and Indic
writing and stay in running text; runs of them are a known way to hide a message and are cut to the first. Tag
characters go always, also those of the three flag emoji that are spelled with them.

Every function takes linear time in the length of its argument, and never raises.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from codebuddy_mcp_tools.policy.scan import Scan

MAX_DESCRIPTION = 2048
"""Characters of a server's description that are kept."""

_INTRODUCERS = "\x07\x1b\x90\x98\x9b-\x9f"
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^{_INTRODUCERS}]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC and text
    r"|\x1b[ -/]*[0-~]"
)

# Written out, not computed: walking all of Unicode would cost every import 200 ms. A test compares it with
# `unicodedata`.
_INVISIBLE_RANGES = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 but tab, line feed and carriage return; DEL; C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ufdd0-\ufdef"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_INVISIBLE_RANGES}\ud800-\udfff]+")
SUSPECTS = f"[{_INVISIBLE_RANGES}\r\u200c\u200d\ufe00-\ufe0f]"
"""A class for `Scan`: a text without these characters needs no cleaning."""
_SUSPECT = Scan(SUSPECTS)
_EXTRA_JOINERS = re.compile("((?>[\ufe00-\ufe0f]?[\u200c\u200d]?))[\ufe00-\ufe0f\u200c\u200d]+")
_JOINERS = re.compile("[\ufe00-\ufe0f\u200c\u200d]+")
_LONE_CR = re.compile("\r(?!\n)")
_ASCII_SUSPECTS = bytes(set(range(0x20)) - {0x09, 0x0A} | {0x7F})
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text that is safe to show, and how many characters it lost."""

    text: str
    removed: int


def clean(text: str, *, keep_joiners: bool = True) -> Cleaned:
    """Removes what no reader can see: escape sequences, control, format, direction and tag characters, lone surrogates.

    A carriage return that does not belong to a line end becomes a line feed and counts as removed. Doing it twice
    changes nothing.

    Args:
        text: anything a server wrote.
        keep_joiners: keep ZWJ, ZWNJ and variation selectors where they can belong to a word or an emoji; `False` for
            names.
    """
    if _is_plain(text):
        return Cleaned(text, 0)
    kept = _TERMINAL.sub("", text) if "\x1b" in text or _has_c1(text) else text
    kept = _INVISIBLE.sub("", kept)
    kept = _EXTRA_JOINERS.sub(r"\1", kept) if keep_joiners else _JOINERS.sub("", kept)
    removed = len(text) - len(kept)
    if "\r" in kept:
        kept, returns = _LONE_CR.subn("\n", kept)
        removed += returns
    return Cleaned(kept, removed)


def clean_line(text: str, limit: int = 200) -> str:
    """One line for a log, a status, a terminal: cleaned, white space folded to single spaces, at most `limit` long."""
    line = _SPACE.sub(" ", clean(text[: limit * 16], keep_joiners=False).text).strip()
    return line if len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"


def clean_description(text: str) -> str:
    """A server's description of a tool, a prompt or an argument: cleaned, at most `MAX_DESCRIPTION` characters."""
    kept = clean(text[: MAX_DESCRIPTION * 16]).text.strip()
    return kept if len(kept) <= MAX_DESCRIPTION else kept[: MAX_DESCRIPTION - 1].rstrip() + "…"


def show(text: str) -> str:
    r"""The whole text, with everything that a terminal would not print written out: `\x1b`, `\u202e`, `\n`.

    Nothing is dropped or cut: a person who approves a command must see all of it. A backslash is doubled, so that no
    text can pretend to be an escaped one.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_shown(char) for char in text)


def command_argument(name: str) -> str:
    """A name as the last argument of a command that somebody may copy: one word, and never an option or two names."""
    plain = all(char.isalnum() or char in "_.- " for char in name)
    quoted = shlex.quote(name) if not plain else f'"{name}"' if " " in name else name
    return f"-- {quoted}" if name.startswith("-") else quoted


def _shown(char: str) -> str:
    if char == "\\":
        return r"\\"
    if char.isprintable():
        return char
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char) or (
        f"\\x{ord(char):02x}" if ord(char) < 0x100 else char.encode("ascii", "backslashreplace").decode()
    )


def _is_plain(text: str) -> bool:
    """The quick way out for nearly every result: about 1 ns a byte for ASCII."""
    if text.isascii():
        raw = text.encode("ascii")
        return len(raw.translate(None, _ASCII_SUSPECTS)) == len(raw)
    return not _SUSPECT(text)


def _has_c1(text: str) -> bool:
    return any(char in text for char in "\x90\x98\x9b\x9d\x9e\x9f")
