"""Which names a server may have.

Policy (DESIGN section 2): letters, digits, `_`, `.`, `-` and spaces, and no `__`, because `mcp__<server>__<tool>` is
split at double underscores by every permission rule. Two names that fold to the same rule spelling are legal and a
warning.
"""

from __future__ import annotations

import re
import unicodedata

MAX_NAME_LENGTH = 128
_FOLDED = re.compile(r"[^a-z0-9_]")


def name_problem(name: str) -> str | None:
    """Why `name` cannot be a server name, as the end of a sentence, or `None` when it can."""
    if not name.strip():
        return "a server needs a name"
    if name != name.strip():
        return "the name begins or ends with a space"
    if len(name) > MAX_NAME_LENGTH:
        return f"the name is longer than {MAX_NAME_LENGTH} characters"
    if "__" in name:
        return 'the name holds "__", which separates server and tool in mcp__<server>__<tool>; use a single "_" or "-"'
    wrong = next((character for character in name if not _is_allowed(character)), None)
    if wrong is not None:
        shown = f'"{wrong}"' if wrong.isprintable() else f"U+{ord(wrong):04X}"
        return f"the name holds {shown}; letters, digits, spaces and _ . - are allowed"
    if not any(character.isalnum() for character in name):
        return "the name needs at least one letter or digit"
    return None


def _is_allowed(character: str) -> bool:
    return character in "_.- " or unicodedata.category(character)[0] in "LMN"


def fold_name(name: str) -> str:
    """The spelling under which permission rules see a name: lower case, every other character `_`."""
    return _FOLDED.sub("_", name.lower())
