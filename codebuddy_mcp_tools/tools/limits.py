"""How much of a result enters the conversation.

Policy: a limit that the user wrote truncates; a limit that keeps the context usable saves the whole result to a file
and says where it is. In this order the first that is set counts:

1. `maxResultChars` of the tool, then of the server: truncation, with the total size;
2. `_meta["anthropic/maxResultSizeChars"]` of the tool, up to 500,000: saved to a file;
3. `MAX_MCP_OUTPUT_TOKENS` × 4 characters: saved to a file.

Instead of being saved a result is truncated when it has images, when there is no session, when saving is switched off
and when writing fails. Only text is measured: an image costs a model about the same whatever its base64 is long.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from codebuddy_mcp_tools.config import ServerConfig
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.content import Rendered, joined, standard_blocks
from codebuddy_mcp_tools.tools.content_blocks import Piece
from codebuddy_mcp_tools.tools.saved_lines import first_lines
from codebuddy_mcp_tools.tools.spill import SavedResult, SpillStore
from codebuddy_mcp_tools.types import ToolInfo

logger = logging.getLogger(__name__)

CHARS_PER_TOKEN = 4
MAX_DECLARED_CHARS = 500_000
DECLARED_KEY = "anthropic/maxResultSizeChars"
PREVIEW_LINES = 20
PREVIEW_CHARS = 2_000
_TEXT_KINDS = frozenset({"text", "structured", "empty", "resource", "resource_link"})


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that counts for one tool.

    Attributes:
        chars: characters of text.
        saves: whether a longer result is saved to a file where that is possible.
    """

    chars: int
    saves: bool


@dataclass(frozen=True, slots=True)
class Limited:
    """A result that fits.

    Attributes:
        text: what is left of the text; the first lines when the whole was saved.
        blocks: text pieces and images as standard content blocks when there is an image, else `()`.
        truncated: a part of the text is gone for good.
        saved_to: the file that holds the whole text, or `None`.
        notes: lines of our own about the size, for the model.
        warnings: lines of our own about the answer and its content (`Rendered.notes`, `.answer_notes`), for the model.
    """

    text: str
    blocks: tuple[dict[str, Any], ...] = ()
    truncated: bool = False
    saved_to: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class OutputLimits:
    """Applies the limits.

    Args:
        max_chars: `maxResultChars` for servers that state none; `None`: no such limit.
        max_tokens: `MAX_MCP_OUTPUT_TOKENS`.
        spill: where long results are saved; `None`: they are truncated.
    """

    def __init__(self, max_chars: int | None = None, max_tokens: int = 20_000, spill: SpillStore | None = None) -> None:
        self._max_chars = max_chars
        self._max_tokens = max_tokens
        self._spill = spill

    def limit_of(self, tool: ToolInfo, server_config: ServerConfig | None = None) -> Limit:
        """The limit that counts for a tool."""
        if server_config is not None:
            own = server_config.tools.get(tool.name)
            stated = own.max_result_chars if own is not None else None
            stated = server_config.max_result_chars if stated is None else stated
            if stated is not None:
                return Limit(stated, saves=False)
        if self._max_chars is not None:
            return Limit(self._max_chars, saves=False)
        declared = tool.meta.get(DECLARED_KEY)
        if isinstance(declared, int) and not isinstance(declared, bool) and declared > 0:
            return Limit(min(declared, MAX_DECLARED_CHARS), saves=True)
        return Limit(self._max_tokens * CHARS_PER_TOKEN, saves=True)

    def apply(
        self,
        rendered: Rendered,
        tool: ToolInfo,
        *,
        server_config: ServerConfig | None = None,
        session_id: str | None = None,
    ) -> Limited:
        """Bounds one result. Never raises for what the result is or for a disk that cannot be written.

        Args: rendered: the result. tool: whose it is. server_config: its server's entry. session_id: the conversation
            the result belongs to (LangGraph's `thread_id`); without one nothing is written.
        """
        limit = self.limit_of(tool, server_config)
        if len(rendered.text) <= limit.chars:
            return Limited(rendered.text, rendered.blocks, warnings=rendered.answer_notes + rendered.notes)
        if limit.saves and self._spill is not None and session_id is not None and not rendered.blocks:
            try:
                saved = self._spill.save(session_id, tool.server, tool.name, rendered.text)
            except OSError as error:
                logger.warning("server %r: a result could not be saved: %s", tool.server, error.strerror or error)
            else:
                return _saved(rendered, saved)
        return _truncated(rendered, limit)


def _saved(rendered: Rendered, saved: SavedResult) -> Limited:
    preview, shown = first_lines(rendered.text, PREVIEW_LINES, PREVIEW_CHARS)
    call = f"read_mcp_result(path={saved.path.name!r}, offset={shown + 1}, limit=200); search with pattern"
    pick = ", pick a part with json_path" if saved.is_json else ""
    notes = (
        f"The result is long and was saved whole: {saved.chars:,} characters in {saved.lines:,} lines, {saved.format}",
        f"File: {saved.path}",
        f"Above: {'line 1' if shown == 1 else f'lines 1 to {shown}'}. Read on in parts with {call}{pick}",
    )
    return Limited(preview, saved_to=str(saved.path), notes=notes, warnings=rendered.answer_notes + rendered.notes)


def _truncated(rendered: Rendered, limit: Limit) -> Limited:
    pieces, dropped = _cut(rendered.pieces or (Piece("text", rendered.text),), limit.chars)
    text = joined(pieces)
    shown, total = f"{len(text):,}", f"{len(rendered.text):,}"
    if limit.saves:
        notes = [
            f"OUTPUT TRUNCATED - exceeded {limit.chars // CHARS_PER_TOKEN} token limit",
            f"Shown: the first {shown} of {total} characters. Ask for less at a time: use paging or filter arguments",
        ]
    else:
        notes = [f"Result truncated: the first {shown} of {total} characters are shown (maxResultChars)"]
    notes += [
        f"Dropped {count} {clean_line(kind, 40).replace('_', ' ')} block{'s' if count > 1 else ''} due to size limit"
        for kind, count in dropped.items()
    ]
    return Limited(
        text,
        standard_blocks(pieces),
        truncated=True,
        notes=tuple(notes),
        warnings=rendered.answer_notes + rendered.notes,
    )


def _cut(pieces: tuple[Piece, ...], room: int) -> tuple[list[Piece], Counter[str]]:
    """The pieces whose text fits, images in their place, and how many of which kind are gone."""
    kept: list[Piece] = []
    dropped: Counter[str] = Counter()
    for one in _without_placeholders(pieces, dropped):
        text = one.text[: max(room, 0)]
        if one.text and not text and one.kind not in {"text", "structured"}:
            dropped[one.kind] += 1
        if text or one.picture is not None:
            kept.append(Piece(one.kind, text, one.picture))
        room -= len(one.text) + bool(one.text)
    return kept, dropped


def _without_placeholders(pieces: tuple[Piece, ...], dropped: Counter[str]) -> Iterator[Piece]:
    for one in pieces:
        if one.placeholder or (one.kind not in _TEXT_KINDS and one.picture is None):
            dropped[one.kind] += 1
        else:
            yield one
