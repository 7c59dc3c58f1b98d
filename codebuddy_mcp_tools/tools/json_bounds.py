"""What may travel as JSON: finite numbers, valid Unicode, text keys, within a size and a depth.

Policy: a value that JSON cannot carry is refused with the place where it stands, before anything is sent. One lone
surrogate in an argument would otherwise end the whole session, because it cannot be encoded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from codebuddy_mcp_tools.types import JSON

_MAX_INTEGER_BITS = 1_024
_Path = tuple["_Path | None", str | int]
"""The way to a value, from its end: cheap to make for every value, read only when one is wrong."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Size of a JSON value.

    Attributes:
        values: parts of it, containers included.
        chars: characters of its texts and keys, and four for each other part.
        depth: nesting of containers, 0 for a scalar.
    """

    values: int
    chars: int
    depth: int


class NotJSON(ValueError):  # noqa: N818 - says what the value is
    """A value cannot be sent.

    Attributes:
        path: keys and indexes from the root to the place.
    """

    def __init__(self, message: str, path: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.path = path


def measure(value: JSON, *, max_chars: int, max_depth: int) -> Measured:
    """Walks a value once.

    Raises:
        NotJSON: at a place that JSON cannot carry, or where a bound is passed.
    """
    waiting: list[tuple[JSON, _Path | None, int]] = [(value, None, 0)]
    values = chars = deepest = 0
    while waiting:
        item, path, depth = waiting.pop()
        values += 1
        if isinstance(item, str):
            if not item.isascii():
                _check_text(item, path)
            chars += len(item)
        elif isinstance(item, Mapping):
            chars += 2 + _push_items(item, path, depth + 1, waiting)
            deepest = max(deepest, depth + 1)
        elif isinstance(item, list | tuple):
            chars += 2
            waiting.extend((part, (path, index), depth + 1) for index, part in enumerate(item))
            deepest = max(deepest, depth + 1)
        else:
            if item is not None and not isinstance(item, bool):
                _check_number(item, path)
            chars += 4
        if deepest > max_depth:
            raise NotJSON(f"is nested deeper than {max_depth} levels", _steps(path)[:1])
        if chars > max_chars:
            raise NotJSON(f"is larger than {max_chars:,} characters in all", ())
    return Measured(values, chars, deepest)


def is_carriable(value: JSON) -> bool:
    """Whether JSON can carry a value; depth and size are not looked at."""
    try:
        measure(value, max_chars=sys.maxsize, max_depth=sys.maxsize)
    except NotJSON:
        return False
    return True


def _push_items(
    item: Mapping[str, JSON], path: _Path | None, depth: int, waiting: list[tuple[JSON, _Path | None, int]]
) -> int:
    """Queues the values of an object; returns the characters of its keys."""
    chars = 0
    for key, part in item.items():
        if not isinstance(key, str):
            raise NotJSON(f"has a key of type {type(key).__name__}; keys are text", _steps(path))
        if not key.isascii():
            _check_text(key, path)
        chars += len(key)
        waiting.append((part, (path, key), depth))
    return chars


def _steps(path: _Path | None) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))


def _check_text(text: str, path: _Path | None) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJSON("holds half a character (a lone surrogate), which cannot be sent as text", _steps(path)) from None


def _check_number(item: JSON, path: _Path | None) -> None:
    if isinstance(item, float):
        if not math.isfinite(item):
            name = "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
            raise NotJSON(f"is {name}, which JSON has no number for", _steps(path))
    elif not isinstance(item, int):
        raise NotJSON(f"is a {type(item).__name__}, expected plain JSON", _steps(path))
    elif item.bit_length() > _MAX_INTEGER_BITS:
        raise NotJSON("is a whole number of more than 300 digits", _steps(path))
