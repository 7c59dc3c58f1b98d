"""Resources of servers as LangChain `Blob`s.

Policy: a URI is an opaque name that goes back to the server it came from; nothing of it is ever opened here. Text
reaches a program through a `Blob` as the server wrote it, cleaned of invisible characters; `resource_text` gives it
enveloped, for a model.
"""

from __future__ import annotations

from langchain_core.documents.base import Blob

from codebuddy_mcp_tools.policy import clean, envelope
from codebuddy_mcp_tools.types import ResourceContent


def to_blob(server: str, content: ResourceContent) -> Blob:
    """One part of a resource; its server and uri are in the metadata."""
    data: str | bytes = content.blob if content.blob is not None else clean(content.text or "").text
    default = "application/octet-stream" if content.blob is not None else "text/plain"
    return Blob(
        data=data,
        mimetype=content.mime_type or default,
        metadata={"serverName": server, "uri": content.uri, "trust": "untrusted"},
    )


def resource_text(server: str, blob: Blob) -> str:
    """A text resource as a model may be shown it: in an envelope of its own.

    Raises:
        ValueError: the blob holds bytes that are not text.
    """
    return envelope(server, str(blob.metadata.get("uri", "")), blob.as_string())
