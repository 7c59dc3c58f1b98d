"""`structuredContent`: whether the text already says it, how it is shown, whether it matches the tool's output schema.

Policy: the call has run, so nothing here can fail it. What the text already says is not said twice; a result that
breaks the tool's own `outputSchema` is delivered with a short warning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.json_bounds import NotJSON, measure
from codebuddy_mcp_tools.tools.schema_check import check_of
from codebuddy_mcp_tools.types import JSON, ToolInfo

MAX_KEPT_CHARS = 50_000
"""Characters of structured content that are kept in the artifact, and so in every checkpoint."""
_MAX_COMPARED = 1_000_000
_MAX_CHECKED = 1_000_000
_MAX_DEPTH = 100
_ONE_LINE = 2_000


def is_said(structured: JSON, texts: Sequence[str]) -> bool:
    """Whether the text blocks already hold the structured content, as JSON or, for a wrapped scalar, as it is.

    FastMCP servers wrap a result that is no object as `{"result": …}` and send one text block for each list item.
    """
    if not texts:
        return False
    forms = [structured]
    if isinstance(structured, Mapping) and len(structured) == 1 and "result" in structured:
        forms.append(structured["result"])
    if any(form in (texts[0], list(texts)) for form in forms):
        return True
    if sum(map(len, texts)) > _MAX_COMPARED:  # too long to parse only for this: JSON beside JSON is taken for the same
        return texts[0][:1_000].lstrip()[:1] in {"{", "["}
    if any(_says(text, form) for text in texts for form in forms):
        return True
    parsed = [_parsed(text) for text in texts]
    lists = [form for form in forms if isinstance(form, list) and len(form) == len(texts)]
    return any(_equal_items(form, parsed, texts) for form in lists)


def _says(text: str, form: JSON) -> bool:
    if isinstance(form, str):
        return text == form or _parsed(text) == form
    if isinstance(form, Mapping | list) and text.lstrip()[:1] not in {"{", "["}:
        return False
    parsed = _parsed(text)
    return bool(parsed == form) and (isinstance(form, Mapping) or type(parsed) is type(form))


def _equal_items(form: list[JSON], parsed: list[JSON], texts: Sequence[str]) -> bool:
    return all(item in (value, text) for item, value, text in zip(form, parsed, texts, strict=True))


def _parsed(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_text(structured: JSON) -> str:
    """JSON for a reader: one line when short, indented when long, so that it can be read in parts."""
    try:
        text = json.dumps(structured, ensure_ascii=False, default=str)
        if not _ONE_LINE < len(text) <= _MAX_COMPARED:
            return text
        return json.dumps(structured, ensure_ascii=False, default=str, indent=2)
    except (TypeError, ValueError, RecursionError):
        return f"({type(structured).__name__} that cannot be shown)"


def kept(structured: JSON) -> tuple[JSON, str | None]:
    """What of it may stand in the artifact, and a note when that is not all of it."""
    try:
        measure(structured, max_chars=MAX_KEPT_CHARS, max_depth=_MAX_DEPTH)
    except NotJSON as error:
        if not error.path and "larger" in str(error):
            return None, f"structuredContent is larger than {MAX_KEPT_CHARS:,} characters and is not in the artifact"
        return _carriable(structured, 0), "structuredContent held values that JSON cannot carry; they were replaced"
    return structured, None


def _carriable(value: JSON, depth: int) -> Any:
    """A copy with only what JSON can carry; `None` and replacement characters stand for the rest."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_carriable(str(key), 0)): _carriable(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_carriable(part, depth + 1) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | type(None)) else str(value)


def mismatch(structured: JSON, tool: ToolInfo) -> str | None:
    """One line when the result breaks the tool's `outputSchema`, `None` when it fits or was not checked."""
    if tool.output_schema is None:
        return None
    if structured is None:
        return "the tool declares an outputSchema, but the result has no structuredContent"
    try:
        measured = measure(structured, max_chars=_MAX_CHECKED, max_depth=_MAX_DEPTH)
    except NotJSON:
        return None
    errors = check_of(tool.output_schema).errors(structured, measured, limit=1)
    if not errors:
        return None
    place = "/".join(str(step) for step in errors[0].instance_path)
    where = f" at {clean_line(place, 80)}" if place else ""
    return f"structuredContent does not match the tool's outputSchema{where}: {clean_line(errors[0].message, 160)}"
