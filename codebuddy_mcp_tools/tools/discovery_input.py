"""What a model meant by the arguments of ToolSearch, describe_tool and execute_tool.

Policy: a wrong name, a number as text or a list in the place of a text has one sensible reading, and gets it. What has
none is refused by whoever asked, in one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_RESULTS = 50
DEFAULT_RESULTS = 5
_NAMES = ("name", "tool", "tool_name")
_OTHER_ARGUMENTS = ("args", "input", "parameters", "params")


def search_arguments(given: Mapping[str, Any]) -> tuple[str, int]:
    """Query (empty when there is none) and number of results, 1 to `MAX_RESULTS`."""
    rest = {key: value for key, value in given.items() if key not in ("query", "max_results")}
    query = _text(given.get("query")) or next((t for v in rest.values() if _number(v) is None and (t := _text(v))), "")
    numbers = [given["max_results"]] if "max_results" in given else [v for v in rest.values() if _number(v) is not None]
    wanted = _number(numbers[0]) if numbers else None
    return query, DEFAULT_RESULTS if wanted is None else max(1, min(wanted, MAX_RESULTS))


def described_name(given: Mapping[str, Any]) -> str:
    """The name that describe_tool is asked about; empty when there is none."""
    return _text(given.get("name")) or next(filter(None, map(_text, given.values())), "")


def execute_arguments(given: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Name and arguments of the tool that execute_tool is to call; `None` for arguments that are no object.

    Arguments that stand beside the name, instead of in an object of their own, are taken as they stand.
    """
    named = next((key for key in _NAMES if isinstance(given.get(key), str)), "")
    name = str(given.get(named, ""))
    rest = {key: value for key, value in given.items() if key != named}
    if "arguments" in rest:
        return name, _object(rest["arguments"])
    alone = next(iter(rest)) if len(rest) == 1 else ""
    inner = _object(rest[alone]) if alone in _OTHER_ARGUMENTS else None
    return name, rest if inner is None else inner


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return None
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else None


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        parts = [part.strip() for part in value if isinstance(part, str)]
        if any(part.startswith("select:") for part in parts):
            return "select:" + ",".join(part.removeprefix("select:") for part in parts)
        return " ".join(parts)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()


def _number(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None
