"""The envelope round everything a server writes that a model reads.

    <mcp_response server="…" tool="…" trust="untrusted">payload</mcp_response>

Policy: whatever the payload holds, the answer holds exactly one envelope. A payload in which nothing looks like the
tag comes through as it is (cleaned, see `text`): code, XML, emoji and any script stay as they were. As soon as one
place looks like the tag — by case, white space, look-alike letters and brackets, invisible characters, entities,
`\\u003c` or `%3C` — every opening bracket and every `&` of that payload is written as a character reference, so that
a parser gives back the payload character by character and nothing in it can open or close an envelope. Notes of our
own stand behind the envelope.

How it stays fast: the text is looked at only behind opening brackets, each stretch up to the next bracket at most
once, so the time is linear for every input; plain ASCII, and text full of brackets, go through one regular
expression.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import lru_cache
from html.entities import html5

from codebuddy_mcp_tools.policy.scan import Scan
from codebuddy_mcp_tools.policy.screen import OPENERS, PERHAPS_TAG, look
from codebuddy_mcp_tools.policy.skeleton import lookalikes_of, looks_like, skeleton
from codebuddy_mcp_tools.policy.text import Cleaned, clean, clean_line

TAG = "mcp_response"
_MAX_ATTRIBUTE = 128

_O = re.escape(OPENERS)
_PERHAPS_ASCII = Scan("<[^<a-zA-Z0-9]*[mM]")
_SKIPPED = r"[\x00-\x20\x7f]*"
_ASCII_TAG = re.compile(
    "<[^<a-z0-9]*" + _SKIPPED.join("mcp") + r"[\x00-\x20\x7f_-]+" + _SKIPPED.join("response"), re.IGNORECASE
)
# Brackets worth a look: the last of a run, and not one before a plain letter other than m (nearly every tag of HTML).
_LAST_OPENER = re.compile(f"[{_O}](?![{_O}]|/?[a-ln-zA-LN-Z0-9])")
_SKELETON_TAG = re.compile(r"<(?:[^\w<]|_)*" + " *".join("mcp") + "[ _-]+" + " *".join("response"))
_DENSE = 32

# An encoded bracket, or an encoded character where the tag's name would stand.
_ENCODED_TAG = re.compile(r"\\u\{?0*3c|\\x3c|%(?:25)*3c|<[^<]{0,120}(?:\\[ux]|%[0-7])", re.IGNORECASE)
_ENCODED_CHARACTER = re.compile(
    r"\\(?:u\{?0*3c|x3c)|\\u\{0*([0-9a-f]{1,5})\}|\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|%([0-7][0-9a-f])", re.IGNORECASE
)
# `&amp;` alone is not worth decoding: only before something that then reads as a reference.
_REFERENCE = re.compile(
    r"&(?:(?:amp|AMP);?)+(?=#|[A-Za-z])"
    r"|&(?:#0*[0-9]{1,7}|#[xX]0*[0-9a-fA-F]{1,6}|(?:lt|LT|shy|nbsp)|[A-Za-z][A-Za-z0-9]{1,31}(?=;));?"
)
_AMPERSANDS = re.compile(r"&(?:(?:amp|AMP);?)+")
_HARMLESS = frozenset({"&gt;", "&quot;", "&apos;", "&#39;", "&#x27;", "&#34;", "&#x22;", "&copy;"})
_ESCAPED = re.compile(
    f"[{re.escape(OPENERS + lookalikes_of('&'))}]|\\\\(?=u\\{{?0*3c|x3c)|%(?=(?:25)*3c)|(?<=]])>", re.IGNORECASE
)
_NESTED_REFERENCES = 4
_NOT_VISIBLE = re.compile(r"[^ -~]")


def envelope(server: str, tool: str, payload: str, *, notes: Iterable[str] = ()) -> str:
    """The payload in its envelope: safe to put into a message.

    Args:
        server: the server's configured name.
        tool: the tool's own name (or `resource`, `prompt`: whatever the text is).
        payload: the server's text; cleaned and, where needed, defanged here.
        notes: lines of our own about the result, put behind the envelope, one line each. How many invisible
            characters were removed is added by itself.
    """
    first = look(payload)
    cleaned = Cleaned(payload, 0) if first.clean else clean(payload)
    body = payload if first.clean and first.tagless else defang(cleaned.text)
    lines = [defang(clean_line(note, 500)) for note in notes]
    if cleaned.removed:
        lines.append(f"{cleaned.removed} invisible or control character{'s' if cleaned.removed > 1 else ''} removed")
    return "\n".join([f"{_head(server, tool)}{body}</{TAG}>", *(f"[{line}]" for line in lines)])


@lru_cache(maxsize=1 << 10)
def _head(server: str, tool: str) -> str:
    return f'<{TAG} server="{_attribute(server)}" tool="{_attribute(tool)}" trust="untrusted">'


def defang(text: str) -> str:
    """The text, unchanged unless some place in it looks like the envelope's tag; then with its brackets escaped."""
    return _ESCAPED.sub(lambda match: _reference(match[0]), text) if looks_like_tag(text) else text


def looks_like_tag(text: str) -> bool:
    """Whether a reader, a parser or a decoder could take some place of the text for the envelope's tag."""
    for _ in range(_NESTED_REFERENCES):
        if _has_tag(text):
            return True
        decoded = _decode(text)
        if decoded == text:
            return False
        text = decoded
    return True  # still encoded after so many rounds: nobody writes that by accident


def _reference(char: str) -> str:
    return {"<": "&lt;", "&": "&amp;"}.get(char) or f"&#{ord(char)};"


def _attribute(name: str) -> str:
    """A name as an attribute value: visible ASCII, at most 128 characters, quotes and brackets escaped."""
    return html.escape(_NOT_VISIBLE.sub("_", name[:_MAX_ATTRIBUTE]), quote=True)


def _decode(text: str) -> str:
    """Character references of one level resolved, and other encodings where they write an opening bracket."""
    if "&" in text:
        found = {reference: _resolved(reference) for reference in set(_REFERENCE.findall(text)) - _HARMLESS}
        if found:
            text = _REFERENCE.sub(lambda match: found.get(match[0], ">"), text)
    if ("\\" in text or "%" in text) and _ENCODED_TAG.search(text):
        # Who writes one character so may write the rest so: %3C%2Fmcp_response%3E.
        text = _ENCODED_CHARACTER.sub(_decoded, text)
    return text


def _decoded(encoded: re.Match[str]) -> str:
    return chr(int(encoded[encoded.lastindex], 16)) if encoded.lastindex else "<"


def _resolved(reference: str) -> str:
    """The character or characters that a reference stands for; itself when it stands for none."""
    name = reference[1:].rstrip(";")
    if name.startswith("#"):
        code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
        return chr(code) if code <= 0x10FFFF else reference
    if _AMPERSANDS.fullmatch(reference):
        return "&"
    return html5.get(f"{name};") or html5.get(name) or reference


def _has_tag(text: str) -> bool:
    if text.isascii():
        return _PERHAPS_ASCII(text) and _ASCII_TAG.search(text) is not None
    if not PERHAPS_TAG(text):
        return False
    openers = [match.end() for match in _LAST_OPENER.finditer(text)]
    if len(openers) > _DENSE and len(openers) * _DENSE > len(text):
        return _SKELETON_TAG.search(skeleton(text)) is not None
    return any(_tag_follows(text, start) for start in openers)


def _tag_follows(text: str, start: int) -> bool:
    """Whether what follows an opening bracket looks like the tag's name, with or without slashes before it.

    Stops at the first character that does not fit and at the next bracket, which is looked at on its own: no
    character is looked at twice.
    """
    matched = 0
    gap = False
    for index in range(start, len(text)):
        for part in looks_like(ord(text[index])):
            if part == "<":
                return False
            if part == " ":
                gap = True
            elif matched == 0 and not part.isalnum():
                continue
            else:
                matched = _advance(matched, part, gap=gap)
                if matched in (0, len(TAG)):
                    return matched == len(TAG)
                gap = False
    return False


def _advance(matched: int, part: str, *, gap: bool) -> int:
    """How much of the tag's name is matched with one more visible character; 0 when it does not fit."""
    wanted = TAG[matched]
    if part == wanted or (wanted == "_" and part == "-"):
        return matched + 1
    if part in "_-" and matched and TAG[matched - 1] == "_":
        return matched
    if wanted == "_" and gap and part == TAG[matched + 1]:
        return matched + 2
    return 0
