"""Picks a part of a JSON value by a simple path: `items[0].name`, `$.a["odd key"]`, `[2]`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from codebuddy_mcp_tools.types import JSON

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"']+)|\[(?P<index>-?\d{1,9})\]|\.?\[(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')\]"""
)
MAX_STEPS = 100
_MAX_PATH = 2_000


class NoSuchPart(LookupError):  # noqa: N818 - says what happened
    """A step of the path leads nowhere.

    Attributes:
        place: the path up to where it still led somewhere.
        offered: what is there: a container's kind with its keys or length, as text of the server's.
    """

    def __init__(self, place: str, offered: str) -> None:
        super().__init__(place)
        self.place = place
        self.offered = offered


def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path; `()` for the whole value.

    Raises:
        ValueError: it is not a path.
    """
    rest = path.strip()
    if len(rest) > _MAX_PATH:
        raise ValueError(f"the path is longer than {_MAX_PATH} characters")
    rest = rest[1:] if rest.startswith("$") else rest
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None or len(steps) >= MAX_STEPS:
            raise ValueError(f"cannot read {rest[position : position + 40]!r}; write a path such as items[0].name")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["quoted"] is None:
        return match["name"].strip()
    return str(json.loads(match["quoted"])) if match["quoted"][0] == '"' else match["quoted"][1:-1]


def select(value: JSON, steps: Sequence[str | int]) -> JSON:
    """The part that the steps lead to.

    Raises:
        NoSuchPart: one of them leads nowhere.
    """
    here, place = value, "$"
    for step in steps:
        if isinstance(here, Mapping) and str(step) in here:
            here, place = here[str(step)], f"{place}.{step}"
        elif isinstance(here, list) and isinstance(step, int) and -len(here) <= step < len(here):
            here, place = here[step], f"{place}[{step}]"
        else:
            raise NoSuchPart(place, outline(here))
    return here


def outline(value: JSON) -> str:
    """What a value is, in a line: `object with 3 keys: a, b, c`, `array of 12 items`, `string of 40 characters`."""
    if isinstance(value, Mapping):
        keys = ", ".join(list(value)[:30])
        return f"object with {len(value):,} keys: {keys}{', …' if len(value) > 30 else ''}"
    if isinstance(value, list):
        return f"array of {len(value):,} items"
    if isinstance(value, str):
        return f"string of {len(value):,} characters"
    return f"the value {json.dumps(value)}"
