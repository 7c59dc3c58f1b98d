"""One quick look at a stranger's text, which shows for nearly every text that the careful looks would find nothing.

Policy: it errs in one direction only. `Look` says that a text is without something only where the careful code
(`text.clean`, `envelope.looks_like_tag`, `signals.find_injection_signals`) finds nothing either; where it does not say
so, that code looks itself. Every pattern here is a necessary part of what they look for. Tests hold both against each
other.

How it is fast: one pass of `bytes.translate` brings ASCII to lower case and marks control characters, and one call of
the regular expression engine (see `scan`) looks for the rest by literals. Other scripts go through one automaton for
everything: their bytes are many, and reading them twice would cost twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from codebuddy_mcp_tools.policy.scan import Scan
from codebuddy_mcp_tools.policy.skeleton import lookalikes_of
from codebuddy_mcp_tools.policy.text import SUSPECTS

_G = r"[\s\"'`*_-]{1,8}"
HINTS = {
    "ignore_instructions": r"(?:ignore|disregard|forget|override|bypass)[\s\"'`*_-]",
    "new_instructions": r"instructions?[\s\"'`*_-]{0,8}:",
    "role_change": rf"now[\s\"'`*_-]{{1,8}}(?:a|the|in|on)|longer|pretend|developer{_G}mode",
    "fake_role": r"(?:system|assistant|developer)(?:[:\]>*]| (?:message|prompt|note|override))",
    "chat_template": r"<\||\[/?inst\]|<</?sys>|_of_turn>",
    "fake_tag": r"(?:important|system|instruction|admin|secret|assistant|tool_|function_)[a-z_-]{0,20}\s?>",
    "hide_from_user": rf"(?:not|don['’]?t|never|without){_G}(?:tell|inform|mention|reveal|notify|alert|show|ask)"
    rf"|keep{_G}(?:this|it){_G}(?:secret|hidden)",
    "tool_steering": rf"(?:before|after|instead{_G}of|prior{_G}to){_G}(?:using|calling|invoking|you{_G}(?:use|call))"
    rf"|(?:always|must|immediately){_G}(?:call|use|invoke|run)",
    "secret_request": r"\.ssh/|id_rsa|/\.env|api[ _-]?key|password|credential|mcp\.json|access[ _-]token"
    r"|private[ _-]key",
    "image_beacon": r"\]\(\s?https?://",
}
"""For each injection signal a part that every text with that signal has, in lower case."""

OPENERS = lookalikes_of("<")
_O = "".join(f"\\x{{{ord(char):x}}}" for char in OPENERS)
# What a reader could take for an m, or for an m with something behind it (㎆), and what is a letter or number by its
# class and not by its looks.
_M = (
    "MmɱΜϺϻМмᎷᗰᴍᴹᵐᵯᶆᶬḾḿṀṁṂṃₘℳⅯⅿⓂⓜⱮⲘⲙ㎃㎆㎎㎒㎖㎜㎟㎡㎣㎥㎧㎨㎫㎳㎷㎹㎽㎿㏁㏔㏕㏖"
    "ꓟꬺꮇＭｍ𝐌𝐦𝑀𝑚𝑴𝒎𝓂𝓜𝓶𝔐𝔪𝕄𝕞𝕸𝖒𝖬𝗆𝗠𝗺𝘔𝘮𝙈𝙢𝙼𝚖𝚳𝛭𝜧𝝡𝞛🄼🅋🅜🅪🅫🅬🅼🇲\U0001e03b"
)
_NO_LETTERS = "ˍͺᐳ\u115f\u1160⑴-⒇\u3164㆒㈠-㈩㊀\ufc5e-\ufc63ﹰ-ﹾﾞﾟ\uffa0"
OPENING_NAMES = (
    "lt ll le leq leqq leqslant les lessdot lesssim lsim ltdot ltri ltrif lang langle laquo lsaquo pr prec"
    " precedes nlt nltv nle nleq nleqq nleqslant nles nless nlsim nltri npr nprec nvle nvlt vltri leftanglebracket"
    " lefttriangle lessfullequal lessless lessslantequal lesstilde nestedlessless notlefttriangle notless notlessequal"
    " notlessless notlessslantequal notlesstilde notnestedlessless notprecedes blacktriangleleft ntriangleleft"
    " triangleleft vartriangleleft"
)
"""Names of character references that stand for an opening bracket or its like, in lower case."""
STRUCTURAL_NAMES = "bsol fjlig lbrace lcub num percnt semi"
"""Names of character references that stand for a part of an encoded character."""
_ENCODED = (
    r"(?:\\(?:u\{?0*3|x3)|%(?:25)*3)c",  # an opening bracket in another encoding than HTML's
    r"&(?:amp;?)+(?:#|lt|shy|nbsp|[a-z][a-z0-9]{1,31};)",
    r"&#(?:[^3x]|3[^49]|3[49][^;]|x[^2]|x2[^27]|x2[27][^;])",  # any number but those of quotes
    rf"&(?:{STRUCTURAL_NAMES.replace(' ', '|')});",
)


_SIGN = r"[\x00-/:;=-`{-\x7f]"  # what may stand between the bracket and the name, in lower-case ASCII
_ANY_SIGN = rf"(?:[^\p{{L}}\p{{N}}{_O}]|[{_NO_LETTERS}])"
_NAMED_OPENER = f"&(?:{OPENING_NAMES.replace(' ', '|')});?"
_ASCII_M = r"(?:m[\x00-\x20\x7f]*[c&\\%]|&|\\[ux]|%[0-7])"
_ASCII_TAG = (f"<{_SIGN}*{_ASCII_M}", f"{_NAMED_OPENER}{_SIGN}*{_ASCII_M}", *_ENCODED)
_TAG = f"[{_O}]{_ANY_SIGN}*[{_M}]"
PERHAPS_TAG = Scan(_TAG)
"""Whether a bracket and what could be an m follow each other, in any script."""

# Each group is one set of literals for the engine; this one was the fastest of some hundred that were tried.
_GROUPS = (
    ("ignore_instructions", "fake_role", "image_beacon"),
    ("new_instructions", "fake_tag", "secret_request"),
    ("hide_from_user", "tool_steering"),
    ("role_change",),
    ("chat_template",),
)
_ASCII_HINTS = tuple("|".join(HINTS[name] for name in group) for group in _GROUPS)
_ASCII_HINT = Scan(*_ASCII_HINTS)
_ASCII_PERHAPS_TAG = Scan(*_ASCII_TAG)
_ASCII_ANYTHING = Scan(*_ASCII_HINTS, *_ASCII_TAG)
_ANY_TAG = f"(?:[{_O}]|{_NAMED_OPENER}){_ANY_SIGN}*(?:[{_M}&]|\\\\[ux]|%[0-7])"
_ANYTHING = Scan("(?i)" + "|".join((SUSPECTS, *HINTS.values(), _ANY_TAG, *_ENCODED)))

_CONTROLS = set(range(0x20)) - {0x09, 0x0A, 0x0D} | {0x7F}
_LOWERED = bytes(0 if code in _CONTROLS else ord(chr(code).lower()) for code in range(0x80)) + bytes(range(0x80, 0x100))
_REMEMBERED = 1 << 20


@dataclass(frozen=True, slots=True)
class Look:
    """What a text is surely without."""

    clean: bool
    """`text.clean` removes nothing."""
    tagless: bool
    """Nothing in it can be taken for the envelope's tag, in any encoding."""
    silent: bool
    """It has no injection signal."""


_ORDINARY = Look(clean=True, tagless=True, silent=True)
_UNKNOWN = Look(clean=False, tagless=False, silent=False)
_last = [("", _ORDINARY)]


def look(text: str) -> Look:
    """Looks once. The last text is remembered, because its signals are asked for first and its envelope afterwards."""
    known, found = _last[0]
    if known is not text:
        found = _look_at_ascii(text) if text.isascii() else _UNKNOWN if _ANYTHING(text) else _ORDINARY
        if len(text) <= _REMEMBERED:
            _last[0] = (text, found)
    return found


def _look_at_ascii(text: str) -> Look:
    raw = text.encode("ascii").translate(_LOWERED)
    if 0 in raw or ("\r" in text and text.count("\r") != text.count("\r\n")):
        return _UNKNOWN
    lowered = raw.decode("ascii")
    if not _ASCII_ANYTHING(lowered):
        return _ORDINARY
    return Look(clean=True, tagless=not _ASCII_PERHAPS_TAG(lowered), silent=not _ASCII_HINT(lowered))
