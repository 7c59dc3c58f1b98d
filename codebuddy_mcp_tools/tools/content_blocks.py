"""One content block of a result as a piece that a model can read: every kind a server can send, known or not.

Policy: nothing is lost in silence and nothing raises. What a model cannot take is named with its kind, type and size;
the data itself goes beside the message, within a bound. A link is a name to give back to the server, never something
to fetch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.base64_data import UNKNOWN_TYPE, Binary, media_type_text, size_text
from codebuddy_mcp_tools.tools.json_bounds import is_carriable
from codebuddy_mcp_tools.types import JSON

MAX_PICTURE_CHARS = 7_000_000
"""Base64 of one image: Anthropic refuses more than 5 MB, and then every later request of the conversation."""
_LONG_VALUE = 200
_MAX_URI = 1_000
_MAX_COPY = 4_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A block as it is shown.

    Attributes:
        kind: the block's `type` as the server sent it (`text`, `image`, `audio`, `resource`, `resource_link`, …), or
            `structured`.
        text: what stands for it in the text; `""` for an image that is shown.
        picture: a standard LangChain image block, or `None`.
        attachment: the block for programs: plain JSON, standard LangChain keys; its `base64` may be large.
        placeholder: the text only names the block; its content is not in it.
    """

    kind: str
    text: str
    picture: dict[str, Any] | None = None
    attachment: dict[str, Any] | None = None
    placeholder: bool = False


def piece(block: JSON) -> Piece:
    """Turns one block into a piece. Never raises, whatever the block is."""
    if isinstance(block, str):
        return Piece("text", block)
    if not isinstance(block, Mapping):
        return Piece("text", _as_json(block))
    kind = block.get("type")
    if kind == "text" or (kind is None and isinstance(block.get("text"), str)):
        text = block.get("text")
        return Piece("text", text if isinstance(text, str) else _as_json(text))
    if kind in ("image", "audio"):
        return _media(kind, block)
    if kind == "resource_link":
        return _link(block)
    if kind == "resource":
        return _resource(block)
    return _unknown(block)


def _media(kind: str, block: Mapping[str, JSON]) -> Piece:
    data = Binary(block.get("data"), _media_type(block))
    if kind == "image" and data.is_picture and len(data.base64) <= MAX_PICTURE_CHARS:
        return Piece(kind, "", picture=_picture(data))
    why = "not shown"
    if not data.valid:
        why = "no valid data"
    elif kind == "image" and data.is_picture:
        why = "too large to show"
    return Piece(kind, f"[{kind}: {data}, {why}]", attachment=_attachment(kind, data), placeholder=True)


def _picture(data: Binary) -> dict[str, Any]:
    return {"type": "image", "base64": data.base64, "mime_type": data.media_type}


def _attachment(kind: str, data: Binary, **more: JSON) -> dict[str, Any]:
    about = {"type": kind, "mime_type": data.media_type, "size": data.size, **{k: v for k, v in more.items() if v}}
    return {**about, "base64": data.base64} if data.valid else about


def _link(block: Mapping[str, JSON]) -> Piece:
    details = [media_type_text(_media_type(block)), size_text(block.get("size"))]
    text = _headline("resource link", block, details)
    return Piece("resource_link", text, attachment=_small_copy(block))


def _resource(block: Mapping[str, JSON]) -> Piece:
    inner = block.get("resource")
    resource: Mapping[str, JSON] = inner if isinstance(inner, Mapping) else block
    names = {key: resource.get(key) or block.get(key) for key in ("uri", "name", "title", "description")}
    text, blob = resource.get("text"), resource.get("blob")
    if isinstance(text, str):
        head = _headline("resource", names, [media_type_text(_media_type(resource))])
        return Piece("resource", f"{head}\n{text}", attachment=_small_copy({"type": "resource", **resource}))
    if blob is None:
        return Piece("resource", _headline("resource", names, ["without content"]), placeholder=True)
    data = Binary(blob, _media_type(resource))
    head = _headline("resource", names, [data.media_type, size_text(data.size)])
    if data.is_picture and len(data.base64) <= MAX_PICTURE_CHARS:
        return Piece("resource", head, picture=_picture(data))
    if (decoded := data.as_text()) is not None:
        return Piece("resource", f"{head}\n{decoded}")
    attachment = _attachment("file", data, **{key: value for key, value in names.items() if _is_small(value)})
    return Piece("resource", f"{head}\n[binary data, not shown]", attachment=attachment, placeholder=True)


def _headline(what: str, block: Mapping[str, JSON], details: list[str]) -> str:
    """`[resource link] Title (name) <uri> (type, size): description`, without the parts that are not there."""
    title, name = _line(block.get("title"), 200), _line(block.get("name"), 200)
    label = f"{title} ({name})" if title and name and title != name else title or name
    uri = _line(block.get("uri"), _MAX_URI)
    facts = ", ".join(detail for detail in details if detail)
    description = _line(block.get("description"), 1_000)
    parts = [f"[{what}]", label, uri, f"({facts})" if facts else ""]
    head = " ".join(part for part in parts if part)
    return f"{head}: {description}" if description else head


def _unknown(block: Mapping[str, JSON]) -> Piece:
    """A kind this package does not know: its small fields are shown, its large ones named."""
    kind = _line(block.get("type"), 40) or "unknown"
    if isinstance(block.get("data"), str) or isinstance(block.get("blob"), str):
        data = Binary(block.get("data") or block.get("blob"), _media_type(block))
        return Piece(kind, f"[{kind}: {data}, not shown]", attachment=_attachment(kind, data), placeholder=True)
    shown = {key: _shortened(value) for key, value in block.items() if isinstance(key, str)}
    text = block.get("text")
    if isinstance(text, str):
        return Piece(kind, f"[{kind}] {text}")
    return Piece(kind, f"[content block of unknown type {kind!r}] {_as_json(shown)}", placeholder=True)


def _shortened(value: JSON) -> JSON:
    text = value if isinstance(value, str) else _as_json(value)
    return value if len(text) <= _LONG_VALUE else f"({len(text):,} characters)"


def _media_type(block: Mapping[str, JSON]) -> JSON:
    return block.get("mimeType") or block.get("mime_type")


def _small_copy(block: Mapping[str, JSON]) -> dict[str, Any]:
    """The block as the server sent it, without what is in the text already or would be large."""
    copy = {key: value for key, value in block.items() if isinstance(key, str) and key not in {"text", "blob", "data"}}
    if len(_as_json(copy)) <= _MAX_COPY and is_carriable(copy):
        return copy
    return {key: value for key, value in copy.items() if _is_small(value) and is_carriable(value)}


def _is_small(value: JSON) -> bool:
    """Whether a field may be kept beside the message as it is."""
    return (isinstance(value, str) and 0 < len(value) <= _MAX_URI) or (
        isinstance(value, int | float) and not isinstance(value, bool)
    )


def _line(value: JSON, limit: int) -> str:
    return clean_line(value, limit) if isinstance(value, str) else ""


def _as_json(value: JSON) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__} that cannot be shown)"


__all__ = ["MAX_PICTURE_CHARS", "UNKNOWN_TYPE", "Piece", "piece"]
