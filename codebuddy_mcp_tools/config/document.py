"""Where things stand in a JSON-with-comments text.

Policy: one tokenizer for everything that must know positions: taking comments out before parsing, finding the line of a
bad entry, and editing one entry without touching a byte of the others. It reads in one linear pass whatever it is
given; whether the text is *valid* is for `jsonc.parse` to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import json5

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<single>'(?:[^'\\\n]|\\.)*')
  | (?P<broken>["'][^\n]*)            # never closed: the rest of the line, so that the pass stays linear
  | (?P<line>//[^\r\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<unclosed>/\*.*)
  | (?P<open>[{\[])
  | (?P<close>[}\]])
  | (?P<comma>,)
  | (?P<colon>:)
  | (?P<word>[^\s{}\[\],:"'/]+)
  | (?P<stray>\S)
    """,
    re.DOTALL | re.VERBOSE,
)
_JSON_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_COMMENTS = frozenset({"line", "block"})


@dataclass(frozen=True, slots=True)
class Token:
    """One lexical element: `text[start:end]`; offsets count characters."""

    kind: str
    start: int
    end: int

    @property
    def is_comment(self) -> bool:
        return self.kind in _COMMENTS


@dataclass(slots=True)
class Node:
    """One value and where it stands: `text[start:end]`."""

    start: int
    end: int
    kind: str
    """`"object"`, `"array"` or `"scalar"`."""
    members: list[Member] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    _by_key: dict[str, Member] | None = field(default=None, repr=False)

    def member(self, key: str) -> Member | None:
        """The member of this key, or `None`."""
        if self._by_key is None:
            self._by_key = {member.key: member for member in self.members}
        return self._by_key.get(key)


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object."""

    key: str
    start: int
    value: Node


def tokens(text: str) -> Iterator[Token]:
    """All tokens and comments of `text`, in order, white space left out."""
    for match in _TOKEN.finditer(text):
        yield Token(match.lastgroup or "stray", match.start(), match.end())


@dataclass(frozen=True, slots=True)
class Plain:
    """A text with comments and trailing commas blanked out; every other character keeps its offset."""

    text: str
    depth: int
    """Deepest nesting of objects and arrays."""
    is_empty: bool
    """Nothing but white space and comments."""
    needs_json5: bool
    """Holds something that neither JSON nor JSON with comments has: single quotes, bare keys, hexadecimal numbers."""


def plain_json(text: str) -> Plain:
    """Turn JSON with comments into JSON without moving anything."""
    blanks: list[tuple[int, int]] = []
    depth = deepest = 0
    previous = ""
    comma: Token | None = None
    exotic = False
    for token in tokens(text):
        if token.is_comment:
            blanks.append((token.start, token.end))
            continue
        if token.kind == "close" and comma is not None:
            blanks.append((comma.start, comma.end))
        comma = token if token.kind == "comma" and previous not in ("", "open", "comma") else None
        depth += (token.kind == "open") - (token.kind == "close")
        deepest = max(deepest, depth)
        exotic = exotic or token.kind == "single" or _is_exotic(text, token)
        previous = token.kind
    return Plain(_blank(text, blanks), deepest, previous == "", exotic)


def _is_exotic(text: str, token: Token) -> bool:
    return token.kind == "word" and not _JSON_WORD.fullmatch(text, token.start, token.end)


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return text
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        parts.extend((text[position:start], re.sub(r"[^\r\n]", " ", text[start:end])))
        position = end
    parts.append(text[position:])
    return "".join(parts)


def scan(text: str) -> Node | None:
    """The tree of values of a text that `jsonc.parse` has accepted; `None` when there is no value at all.

    Recursion is bounded by `jsonc.MAX_DEPTH`, which `parse` has checked.
    """
    stream = [token for token in tokens(text) if not token.is_comment]
    if not stream:
        return None
    node, _ = _value(text, stream, 0)
    return node


def _value(text: str, stream: Sequence[Token], at: int) -> tuple[Node, int]:
    token = stream[at]
    if token.kind != "open":
        return Node(token.start, token.end, "scalar"), at + 1
    is_object = text[token.start] == "{"
    node = Node(token.start, token.end, "object" if is_object else "array")
    at += 1
    while stream[at].kind != "close":
        if stream[at].kind == "comma":
            at += 1
            continue
        if is_object:
            key = stream[at]
            value, after = _value(text, stream, at + 2)
            node.members.append(Member(_key(text[key.start : key.end]), key.start, value))
        else:
            value, after = _value(text, stream, at)
            node.items.append(value)
        at = after
    node.end = stream[at].end
    return node, at + 1


def _key(raw: str) -> str:
    if raw.startswith('"'):
        return str(json.loads(raw))
    return str(json5.loads(raw)) if raw.startswith("'") else raw


def split_pointer(pointer: str) -> tuple[str, ...]:
    """The reference tokens of a JSON Pointer (RFC 6901): `"/a~1b/c"` gives `("a/b", "c")`."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def join_pointer(*parts: str) -> str:
    """The JSON Pointer (RFC 6901) of reference tokens: `("a/b", "c")` gives `"/a~1b/c"`."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def line_column(text: str, offset: int) -> tuple[int, int]:
    """1-based line and column of a character offset."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def find(root: Node | None, parts: Sequence[str]) -> Node | None:
    """The node that reference tokens lead to, or `None`."""
    node = root
    for part in parts:
        if node is None:
            return None
        if node.kind == "array":
            node = node.items[int(part)] if part.isascii() and part.isdigit() and int(part) < len(node.items) else None
        else:
            member = node.member(part)
            node = member.value if member else None
    return node
