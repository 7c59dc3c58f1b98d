"""JSON with comments, read strictly.

Policy: files of the three hosts are JSON with `//` and `/* */` comments and trailing commas; that is read with Python's
own JSON parser after the comments are blanked out (offsets stay true). Only what JSON5 alone has (single quotes, bare
keys, hexadecimal) goes to `json5`, which reads some 40 KB a second and gives up on deep nesting, so it gets small texts
only. A key that stands twice is refused: which of the two is meant is a guess, and the guess starts a process.
Everything is bounded in size and depth, because a project's file is a stranger's text.
"""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import json5

from codebuddy_mcp_tools.config.document import Node, Plain, find, line_column, plain_json, scan, split_pointer
from codebuddy_mcp_tools.errors import ConfigError, ConfigSyntaxError
from codebuddy_mcp_tools.types import JSON

MAX_BYTES = 4_000_000
"""Largest file that is read at all."""
MAX_JSON5_CHARS = 32_000
"""Largest text that is given to the slow JSON5 parser (under a second)."""
MAX_DEPTH = 64
"""Deepest nesting of objects and arrays."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_JSON5_PLACE = re.compile(r"<string>:(\d+) (.*) at column (\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A file's text and how to write it back: `bom + text.encode(encoding)` is the file again."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.encoding)


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def decode(data: bytes, path: Path | None = None) -> Decoded:
    """Text of a file in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Raises:
        ConfigError: the file is larger than `MAX_BYTES`.
        ConfigSyntaxError: bytes that are not text in that encoding.
    """
    if len(data) > MAX_BYTES:
        where = f"{path}: " if path else ""
        raise ConfigError(
            f"{where}{len(data):,} bytes is too large for a configuration (limit {MAX_BYTES:,})", path=path
        )
    bom, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", ""))
    encoding = encoding or json.detect_encoding(data)
    try:
        return Decoded(data[len(bom) :].decode(encoding), encoding, bom)
    except UnicodeDecodeError as error:
        before = data[len(bom) : len(bom) + error.start].decode(encoding, "replace")
        _refuse(f"not {encoding.upper()} text: {error.reason}", before, len(before), path)


def parse(source: str | bytes, path: Path | None = None) -> JSON:
    """The value of a JSON, JSON-with-comments or (when small) JSON5 text.

    Raises:
        ConfigSyntaxError: with line and column; also for an empty text and for a key that stands twice in one object.
        ConfigError: too large or nested too deep.
    """
    text = decode(source, path).text if isinstance(source, bytes) else source.removeprefix("\ufeff")
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{_prefix(path)}{len(text):,} characters is too large for a configuration", path=path)
    plain = plain_json(text)
    if plain.is_empty:
        reason = "the file holds only comments" if text.strip() else "the file is empty"
        _refuse(f'{reason}; an empty configuration is {{"mcpServers": {{}}}}', text, 0, path)
    if plain.depth > MAX_DEPTH:
        raise ConfigError(f"{_prefix(path)}nested deeper than {MAX_DEPTH} levels", path=path)
    try:
        return _load(plain, text, path)
    except _DuplicateKeyError as error:
        _refuse(f"the key {json.dumps(error.key)} stands twice in one object", text, _second(text, error.key), path)


def _load(plain: Plain, text: str, path: Path | None) -> JSON:
    try:
        return json.loads(plain.text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        if plain.needs_json5:
            return _load_json5(plain.text, text, path, error)
        _refuse(_explain(error, text), text, error.pos, path)
    except ValueError as error:  # an integer of thousands of digits
        _refuse(f"a number cannot be read: {str(error).split(';', maxsplit=1)[0]}", text, 0, path)
    except RecursionError:
        raise ConfigError(f"{_prefix(path)}nested too deep", path=path) from None


def _load_json5(plain: str, text: str, path: Path | None, first: json.JSONDecodeError) -> JSON:
    if len(plain) > MAX_JSON5_CHARS:
        reason = f"{_explain(first, text)} (JSON5 is read only up to {MAX_JSON5_CHARS:,} characters)"
        _refuse(reason, text, first.pos, path)
    try:
        return json5.loads(plain, object_pairs_hook=_object)
    except RecursionError:
        raise ConfigError(f"{_prefix(path)}nested too deep for JSON5; write plain JSON", path=path) from None
    except ValueError as error:
        place = _JSON5_PLACE.search(str(error))
        line, column = (int(place[1]), int(place[3])) if place else (0, 0)
        is_quote = not text[first.pos : first.pos + 1].isascii()  # a typographic quote: the first error explains it
        if place is None or is_quote or (line, column) <= (first.lineno, first.colno):
            _refuse(_explain(first, text), text, first.pos, path)
        raise ConfigSyntaxError(
            f"{_prefix(path, line, column)}{place[2]}", line=line, column=column, path=path
        ) from None


def _object(pairs: Iterable[tuple[str, JSON]]) -> dict[str, JSON]:
    result: dict[str, JSON] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(key)
        result[key] = value
    return result


def _explain(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()):
        return "the file ends too early: a bracket, brace or value is missing"
    if text.startswith("/*", error.pos):
        return "this comment is never closed"
    character = text[error.pos]
    if not character.isascii():
        name = unicodedata.name(character, "a character that does not show")
        return f"unexpected U+{ord(character):04X} ({name.lower()})"
    return error.msg[0].lower() + error.msg[1:]


def _second(text: str, key: str) -> int:
    """Offset of the second of two equal keys in one object."""
    stack: list[Node] = [node for node in [scan(text)] if node]
    while stack:
        node = stack.pop()
        same = [member for member in node.members if member.key == key]
        if len(same) > 1:
            return same[1].start
        stack.extend(member.value for member in node.members)
        stack.extend(node.items)
    return 0


def _prefix(path: Path | None, line: int | None = None, column: int | None = None) -> str:
    place = f"{path}" if path else ""
    if line is not None:
        place += f":{line}:{column}" if place else f"line {line}, column {column}"
    return f"{place}: " if place else ""


def _refuse(reason: str, text: str, offset: int, path: Path | None) -> NoReturn:
    line, column = line_column(text, offset)
    raise ConfigSyntaxError(f"{_prefix(path, line, column)}{reason}", line=line, column=column, path=path) from None


def reason_of(error: ConfigError) -> str:
    """The text of an error of this file without the place it names (a diagnostic has the place in its fields)."""
    place = (error.line, error.column) if isinstance(error, ConfigSyntaxError) else (None, None)
    return str(error).removeprefix(_prefix(error.path, *place))


def locate(text: str, pointer: str) -> tuple[int, int]:
    """1-based line and column of the value a JSON Pointer names in a text that `parse` accepts; (1, 1) when absent."""
    node = find(scan(text), split_pointer(pointer))
    return line_column(text, node.start) if node else (1, 1)
