"""Cutting one entry into or out of a JSON-with-comments text, by offsets.

Policy: a new member goes after the last one, on a line of its own when the object is written over several lines, in the
indentation that is there; a trailing comma stays a trailing comma. A removed member takes its comma and its line with
it, comments stay. Adding a member to an object that has some and removing it again gives the text back byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from codebuddy_mcp_tools.config.document import Member, Node, Token, find, scan, tokens
from codebuddy_mcp_tools.types import JSON

_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


def put_text(text: str, path: Sequence[str], value: JSON) -> str:
    """`text` with `value` at `path`; objects on the way are made."""
    root = scan(text)
    if root is None:
        raise ValueError("there is no value to put anything into")
    node, depth = root, 0
    while depth < len(path) and node.kind == "object" and (member := node.member(path[depth])):
        node, depth = member.value, depth + 1
    if depth < len(path) and node.kind != "object":  # a null on the way
        return _replace_node(text, node, _nested(path[depth:], value))
    if depth == len(path):
        return _replace_node(text, node, value)
    return _append(text, node, path[depth], _nested(path[depth + 1 :], value))


def _nested(path: Sequence[str], value: JSON) -> JSON:
    for key in reversed(path):
        value = {key: value}
    return value


def remove_text(text: str, path: Sequence[str]) -> str:
    """`text` without the member at `path`; unchanged when there is none."""
    parent = find(scan(text), path[:-1])
    if parent is None or parent.kind != "object":
        return text
    place = next((at for at, member in enumerate(parent.members) if member.key == path[-1]), None)
    return text if place is None else _cut(text, parent, place)


def _replace_node(text: str, node: Node, value: JSON) -> str:
    return text[: node.start] + _dump(value, _line_indent(text, node.start), text) + text[node.end :]


def _append(text: str, parent: Node, key: str, value: JSON) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _line_indent(text, parent.start)
    if not parent.members:
        return _fill(text, parent, key, value, newline)
    last = parent.members[-1]
    comma, end, is_inline = _after(text, last.value.end)
    if is_inline:
        entry = f"{json.dumps(key, ensure_ascii=False)}: {_dump(value, outer, text, flat=True)}"
        at = comma.end if comma else last.value.end
        return text[:at] + (f" {entry}," if comma else f", {entry}") + text[at:]
    end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    indent = _line_indent(text, last.start)
    entry = f"{newline}{indent}{json.dumps(key, ensure_ascii=False)}: {_dump(value, indent, text)}"
    if comma:
        return text[:end] + entry + "," + text[end:]
    return text[: last.value.end] + "," + text[last.value.end : end] + entry + text[end:]


def _fill(text: str, parent: Node, key: str, value: JSON, newline: str) -> str:
    """The first member of an object that has none, after the comments that may be in it."""
    outer = _line_indent(text, parent.start)
    indent = outer + _unit(text)
    comments = [token for token in tokens(text) if token.is_comment and parent.start < token.start < parent.end]
    entry = f"{newline}{indent}{json.dumps(key, ensure_ascii=False)}: {_dump(value, indent, text)}{newline}{outer}"
    start = comments[-1].end if comments else parent.start + 1
    return text[:start] + entry + text[parent.end - 1 :]


def _after(text: str, offset: int) -> tuple[Token | None, int, bool]:
    """What follows the last member: its trailing comma, where a next line may begin, whether all is on one line."""
    comma: Token | None = None
    end = offset
    on_line = True
    for token in _tokens_from(text, offset):
        on_line = on_line and "\n" not in text[end : token.start]
        if token.kind == "close":
            return comma, end, on_line
        if token.kind == "comma":
            comma, end, on_line = token, token.end, True
        elif on_line:
            end = token.end
    return comma, end, False


def _tokens_from(text: str, offset: int) -> list[Token]:
    """Tokens from `offset` (a place between two tokens) up to the bracket that closes."""
    found: list[Token] = []
    for token in tokens(text[offset:]):
        found.append(Token(token.kind, token.start + offset, token.end + offset))
        if token.kind == "close":
            break
    return found


def _cut(text: str, parent: Node, place: int) -> str:
    member = parent.members[place]
    following = _tokens_from(text, member.value.end)
    comma = next((token for token in following if not token.is_comment and token.kind == "comma"), None)
    is_last = place == len(parent.members) - 1
    if comma is not None and any(not t.is_comment for t in following[: following.index(comma)]):
        comma = None
    cuts = [_member_span(text, parent, member, comma)]
    if comma is not None and cuts[0][1] < comma.end:
        cuts.append((comma.start, comma.end))
    if is_last and comma is None and place > 0:
        before = _comma_before(text, parent.members[place - 1], member)
        cuts.append((before, before + 1))
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _comma_before(text: str, previous: Member, member: Member) -> int:
    found = (token for token in _tokens_from(text, previous.value.end) if token.kind == "comma")
    return next(token.start for token in found if token.start < member.start)


def _member_span(text: str, parent: Node, member: Member, comma: Token | None) -> tuple[int, int]:
    """From where to where the text goes with the member: its line when it stands alone on it."""
    start, end = member.start, member.value.end
    if comma is not None and not text[end : comma.start].strip():
        end = comma.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    alone_before = line_start > parent.start and not text[line_start:start].strip()
    if alone_before and not text[end:line_end].strip():
        start = line_start - 1  # the line break before it, and what precedes that of a CRLF
        if text[start - 1 : start] == "\r":
            start -= 1
        end = line_end - 1 if text[line_end - 1 : line_end] == "\r" else line_end
        return start, end
    if alone_before:
        return start, end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    if comma is not None and len(parent.members) > 1 and parent.members[-1] is not member:
        return start, end + len(text[end:]) - len(text[end:].lstrip(" \t"))
    while start > parent.start + 1 and text[start - 1] in " \t":
        start -= 1
    return start, end


def _dump(value: JSON, indent: str, text: str, *, flat: bool = False) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    dumped = json.dumps(value, ensure_ascii=False, indent=None if flat else _unit(text))
    if re.search("[\ud800-\udfff]", dumped):
        dumped = json.dumps(value, indent=None if flat else _unit(text))
    return dumped.replace("\n", newline + indent)


def _unit(text: str) -> str:
    """One step of indentation as the text has it; two spaces when it has none."""
    found = [match[1] for match in _INDENT.finditer(text) if not match[0].lstrip().startswith(("*", "/"))]
    if not found:
        return "  "
    return "\t" if found[0].startswith("\t") else min(found, key=len)


def _line_indent(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]
