"""Binary data in a result: base64 text that is measured, checked and never shown.

Policy: a picture reaches the model as a picture only when every provider takes its kind, and under the kind it really
has: one picture with a wrong media type makes the provider refuse the whole conversation from then on.
"""

from __future__ import annotations

import base64
import binascii
import re

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import JSON

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
UNKNOWN_TYPE = "application/octet-stream"
MAX_TEXT_BYTES = 1_000_000

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_URL_SAFE = str.maketrans("-_", "+/")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,100};base64,")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]{0,100}/[\w.+-]{1,100}")


class Binary:
    """The data of one block.

    Attributes:
        base64: the data as strict base64, `""` when it was none.
        media_type: the stated type, or what the data shows it is, or `application/octet-stream`.
        size: bytes when decoded, roughly when `valid` is false.
        valid: whether it was base64.
    """

    __slots__ = ("base64", "media_type", "size", "valid")

    def __init__(self, data: JSON, media_type: JSON) -> None:
        text = data if isinstance(data, str) else ""
        stated = media_type if isinstance(media_type, str) and _MEDIA_TYPE.fullmatch(media_type.strip()) else ""
        head = _DATA_URL.match(text[:200])
        if head is not None:
            stated = stated or head[1] or ""
            text = text[head.end() :]
        normal = _normal(text)
        self.valid = bool(text) and normal is not None
        self.base64 = normal or ""
        self.size = len(self.base64) * 3 // 4 - self.base64[-2:].count("=") if self.valid else len(text)
        self.media_type = _sniffed(self.base64) or stated.strip().lower() or UNKNOWN_TYPE

    @property
    def is_picture(self) -> bool:
        """Whether all providers take it as an image."""
        return self.valid and self.media_type in PICTURE_TYPES

    def as_text(self) -> str | None:
        """The text it holds, when its type says text and it is valid UTF-8 of a moderate size."""
        if not (self.valid and self.size <= MAX_TEXT_BYTES and is_text_type(self.media_type)):
            return None
        try:
            return base64.b64decode(self.base64).decode()
        except (UnicodeDecodeError, binascii.Error):
            return None

    def __str__(self) -> str:
        return f"{self.media_type}, {size_text(self.size)}"


def is_text_type(media_type: str) -> bool:
    """Whether a media type names text that a model can read."""
    return (
        media_type.startswith("text/")
        or media_type in {"application/json", "application/xml", "application/yaml", "application/javascript"}
        or media_type.endswith(("+json", "+xml"))
    )


def size_text(size: JSON) -> str:
    """A number of bytes as people write it; `""` when it is no number."""
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 <= size < 2**80:
        return ""
    if size < 1_000:
        return f"{int(size)} byte{'' if size == 1 else 's'}"
    for unit in ("kB", "MB", "GB"):
        size /= 1_000
        if size < 1_000:
            return f"{size:.1f} {unit}"
    return f"{size:,.0f} GB"


def media_type_text(value: JSON) -> str:
    """A stated media type for a reader, `""` when there is none."""
    return clean_line(value, 100) if isinstance(value, str) else ""


def _normal(text: str) -> str | None:
    """Strict base64 with padding, or `None`. Line breaks and the URL-safe alphabet are put right."""
    if not text.isascii():
        return None
    if _BASE64.fullmatch(text) is None:
        text = "".join(text.split()).translate(_URL_SAFE)
        if _BASE64.fullmatch(text) is None:
            return None
    bare = text.rstrip("=")
    if len(bare) % 4 == 1:
        return None
    return text if len(text) % 4 == 0 else bare + "=" * (-len(bare) % 4)


def _sniffed(data: str) -> str | None:
    """The picture type that the first bytes show."""
    try:
        head = base64.b64decode(data[:32])
    except binascii.Error:
        return None
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None
