"""What differs between two JSON definitions, for a person: a line for each place, long texts cut to the difference.

Policy: linear in the size of the definitions, bounded output, and safe for a terminal: invisible characters are
written out, because they are often the whole difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from codebuddy_mcp_tools.policy.text import show
from codebuddy_mcp_tools.types import JSON, JSONObject

_MOST_LINES = 40
_DEEPEST = 12
_CONTEXT = 30
_LONGEST = 160


def describe_difference(before: JSONObject | None, after: JSONObject | None) -> str:
    """Lines of `+ place: value`, `- place: value` and `~ place: old → new`.

    Args:
        before: the accepted definition; `None` when there was none, or it was too large to keep.
        after: the definition now; `None` when it is too large to show.
    """
    if after is None:
        return "~ the definition is too large to show"
    old, new = dict(_leaves(before or {})), dict(_leaves(after))
    lines = [
        line
        for place in dict.fromkeys([*old, *new])
        if (line := _line(place, old.get(place), new.get(place))) is not None
    ]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"… and {len(lines) - _MOST_LINES} more places"]
    return "\n".join(lines) or "~ only the order or form of the JSON differs"


def _leaves(value: JSON, place: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every place of a JSON value that holds no further places, with its text."""
    if depth < _DEEPEST and isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}[{index}]", depth + 1)
    elif place or value:
        yield place, value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _line(place: str, old: str | None, new: str | None) -> str | None:
    if old == new:
        return None
    where = show(place[:_LONGEST])
    if old is None:
        return f"+ {where}: {_cut(new or '')}"
    if new is None:
        return f"- {where}: {_cut(old)}"
    return f"~ {where}: {_excerpt(old, new)}"


def _excerpt(old: str, new: str) -> str:
    """Both texts round the part that differs."""
    shortest = min(len(old), len(new))
    start = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    end = next(
        (index for index in range(shortest - start) if old[-1 - index] != new[-1 - index]),
        shortest - start,
    )
    return f"{_part(old, start, len(old) - end)} → {_part(new, start, len(new) - end)}"


def _part(text: str, start: int, end: int) -> str:
    begin, stop = max(start - _CONTEXT, 0), min(end + _CONTEXT, len(text))
    body = _cut(text[begin:stop])
    return f"{'…' if begin else ''}{body}{'…' if stop < len(text) else ''}"


def _cut(text: str) -> str:
    return show(text) if len(text) <= _LONGEST else f"{show(text[:_LONGEST])}… ({len(text)} characters)"
