"""What the store and the reader both know of a saved result: its name, its lines, whose words it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import JSON

WRAP = 2_000
"""Characters of one line as it is counted and shown; a longer one counts as several, so that any file can be paged."""
RESULT_NAME = re.compile(r"mcp-[A-Za-z0-9_-]{1,100}-\d{8}T\d{6}-[0-9a-f]{16}\.txt")
MAX_DESCRIBED = 2_000_000
_NOT_SLUG = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose words a file holds, kept beside it so that a reader can say so."""

    server: str
    tool: str
    chars: int = 0
    lines: int = 0
    format: str = "text"

    def as_json(self) -> dict[str, Any]:
        """A plain JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: JSON) -> Provenance:
        """What was kept; a damaged record gives an unknown origin, never a trusted one."""
        fields = value if isinstance(value, Mapping) else {}
        return cls(
            server=_text(fields.get("server")) or "unknown",
            tool=_text(fields.get("tool")) or "unknown",
            chars=_count(fields.get("chars")),
            lines=_count(fields.get("lines")),
            format=_text(fields.get("format")) or "text",
        )


def file_slug(name: str) -> str:
    """A name as part of a file name: letters, digits, `_` and `-`, at most 40."""
    return _NOT_SLUG.sub("_", name)[:40].strip("_") or "x"


def describe_format(text: str) -> tuple[str, bool]:
    """What a text is, in words, and whether it is JSON."""
    if text[:1_000].lstrip()[:1] == "<":
        return "XML or HTML", False
    if text[:1_000].lstrip()[:1] not in {"{", "["}:
        return "plain text", False
    if len(text) > MAX_DESCRIBED:
        return "JSON, to judge by its beginning", True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "plain text", False
    if isinstance(value, list):
        return f"a JSON array of {len(value):,} items", True
    keys = ", ".join(clean_line(key, 30) for key in list(value)[:8])
    return f"a JSON object with the keys {keys}{', …' if len(value) > 8 else ''}", True


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
