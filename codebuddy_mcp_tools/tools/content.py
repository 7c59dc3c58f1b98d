"""What a server answered, as a text (and images) for a model and as plain data for a program.

Policy: the call has run, so its answer is delivered whatever it looks like. The model always gets something readable;
no base64 becomes text; images stay where they stood; nothing is said twice. What comes out here is still the server's
text: `limits` bounds it and `envelope` encloses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codebuddy_mcp_tools.tools.content_blocks import Piece, piece
from codebuddy_mcp_tools.tools.structured import as_text, is_said, kept, mismatch
from codebuddy_mcp_tools.types import JSON, CallResult, ToolInfo

MAX_PICTURES = 20
MAX_PICTURE_CHARS_IN_ALL = 14_000_000
MAX_ATTACHED_CHARS = 200_000
"""Base64 kept beside the message: it enters every checkpoint. What does not fit is named without its data."""
EMPTY = "(no output)"
EMPTY_ERROR = "(the tool reported an error and said nothing about it)"


@dataclass(frozen=True, slots=True)
class Rendered:
    """One result.

    Attributes:
        text: everything that is text, in order; never empty.
        blocks: text pieces and images in the server's order as standard LangChain content blocks, when there is an
            image; else `()`.
        structured: the structured content for programs, plain JSON within a bound, or `None`.
        notes: what is wrong with the content, one line each; `CallResult.notes` are not among them.
        answer_notes: `CallResult.notes`, what was wrong with the answer as such; the model is told both.
        omitted: the kinds of the blocks whose content is not shown (`audio`, `resource`, …), one for each block.
        attachments: blocks for programs: links, and data that is not shown; plain JSON within a bound.
        pieces: what `text` and `blocks` are made of.
    """

    text: str
    blocks: tuple[dict[str, Any], ...] = ()
    structured: JSON | None = None
    notes: tuple[str, ...] = ()
    answer_notes: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    attachments: tuple[dict[str, Any], ...] = ()
    pieces: tuple[Piece, ...] = ()


def render(result: CallResult, tool: ToolInfo) -> Rendered:
    """Renders one answer of a tool. Never raises."""
    pieces, notes = _pieces(result.content)
    structured: JSON | None = None
    if result.structured_content is not None:
        structured, note = kept(result.structured_content)
        notes += [note] if note else []
        texts = [one.text for one in pieces if one.kind == "text" and one.text]
        if not is_said(result.structured_content, texts):
            pieces.append(Piece("structured", as_text(result.structured_content)))
    if not result.is_error and (warning := mismatch(result.structured_content, tool)):
        notes.append(warning)
    pieces = _bounded_pictures(pieces)
    text = joined(pieces)
    if not text or text.isspace():
        pictures = sum(one.picture is not None for one in pieces)
        text = f"({pictures} image{'s' if pictures > 1 else ''})" if pictures else ""
        text = text or (EMPTY_ERROR if result.is_error else EMPTY)
        pieces = [Piece("empty", text), *(one for one in pieces if one.picture is not None)]
    return Rendered(
        text=text,
        blocks=standard_blocks(pieces),
        structured=structured,
        notes=tuple(notes),
        answer_notes=tuple(result.notes),
        omitted=tuple(one.kind for one in pieces if one.placeholder),
        attachments=_bounded_attachments(pieces),
        pieces=tuple(pieces),
    )


def joined(pieces: list[Piece]) -> str:
    """The text of the pieces, one below the other. A single text is passed on as it is, not copied."""
    texts = [one.text for one in pieces if one.text]
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def standard_blocks(pieces: list[Piece]) -> tuple[dict[str, Any], ...]:
    """Text pieces and images in order, neighbouring texts joined; `()` when there is no image."""
    if not any(one.picture for one in pieces):
        return ()
    blocks: list[dict[str, Any]] = []
    waiting: list[Piece] = []
    for one in [*pieces, Piece("end", "", picture={})]:
        waiting.append(one)
        if one.picture is None:
            continue
        if text := joined(waiting):
            blocks.append({"type": "text", "text": text})
        if one.picture:
            blocks.append(one.picture)
        waiting = []
    return tuple(blocks)


def _pieces(content: Any) -> tuple[list[Piece], list[str]]:
    """The blocks, also of an answer whose `content` is not a list of blocks."""
    if isinstance(content, list | tuple):
        wrong = sum(not isinstance(block, Mapping) for block in content)
        notes = [f"{wrong} content block{'s' if wrong > 1 else ''} of the result had the wrong form"] if wrong else []
        return [piece(block) for block in content], notes
    if content is None:
        return [], ["the result has no content list"]
    return [piece(content)], ["the result's content is not a list"]


def _bounded_pictures(pieces: list[Piece]) -> list[Piece]:
    """Images beyond the bounds become placeholders: they would be sent again with every later request."""
    kept_pieces = []
    room, count = MAX_PICTURE_CHARS_IN_ALL, MAX_PICTURES
    for one in pieces:
        if one.picture is None:
            kept_pieces.append(one)
            continue
        size = len(one.picture["base64"])
        if count > 0 and size <= room:
            room, count = room - size, count - 1
            kept_pieces.append(one)
        else:
            named = f"[image: {one.picture['mime_type']}, left out: too many or too large images in one result]"
            kept_pieces.append(Piece(one.kind, f"{one.text}\n{named}".strip(), placeholder=True))
    return kept_pieces


def _bounded_attachments(pieces: list[Piece]) -> tuple[dict[str, Any], ...]:
    attached = []
    room = MAX_ATTACHED_CHARS
    for one in pieces[:200]:
        if one.attachment is None:
            continue
        size = len(one.attachment.get("base64", "")) + 200
        if size <= room:
            attached.append(one.attachment)
        else:
            about = {key: value for key, value in one.attachment.items() if key != "base64"}
            attached.append(about | {"data": "not kept: too large"})
            size = 200
        room = max(room - size, 0)
    return tuple(attached)
