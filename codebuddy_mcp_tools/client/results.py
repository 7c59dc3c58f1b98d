"""What a server answered, read leniently: a call that has run is never lost because its answer is badly formed.

Policy: nothing is validated against the SDK's models or the tool's own output schema here. What has the right shape is
passed on as it came; what has not is salvaged as text, with a note, and counts as an error result (the model must not
take it for its own bad arguments).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from codebuddy_mcp_tools.types import JSON, CallResult, PromptMessage, ResourceContent

_URL_SAFE = str.maketrans("-_", "+/")
INVALID_RESULT = "the server sent an invalid result (the call has run)"


def read_call_result(result: JSON, duration_ms: float) -> CallResult:
    """The answer to `tools/call`. Never raises."""
    if not isinstance(result, dict):
        return _salvaged(result, duration_ms, "it is no object")
    content = result.get("content")
    if type(content) is list and all(type(block) is dict for block in content):
        is_error, notes = _is_error(result)
        return CallResult(
            content=tuple(content),
            structured_content=result.get("structuredContent"),
            is_error=is_error,
            meta=result["_meta"] if isinstance(result.get("_meta"), dict) else {},
            duration_ms=duration_ms,
            notes=notes,
        )
    return _without_proper_content(result, content, duration_ms)


def _without_proper_content(result: dict[str, Any], content: JSON, duration_ms: float) -> CallResult:
    if content is None and ("structuredContent" in result or not result.keys() - {"_meta", "isError"}):
        is_error, notes = _is_error(result)
        note = "the result has no content" if "structuredContent" not in result else "the result has no content blocks"
        return CallResult(
            content=(),
            structured_content=result.get("structuredContent"),
            is_error=is_error,
            duration_ms=duration_ms,
            notes=(*notes, note),
        )
    if isinstance(content, list):
        good = tuple(block if isinstance(block, dict) else _text_block(block) for block in content)
        why = "some of its content is no content block"
        return _invalid(good, result.get("structuredContent"), duration_ms, why)
    if content is None:  # the first revision of the protocol called it toolResult
        return _salvaged(result.get("toolResult", result), duration_ms, "it has no content")
    return _invalid((_text_block(content),), result.get("structuredContent"), duration_ms, "its content is no list")


def _is_error(result: dict[str, Any]) -> tuple[bool, tuple[str, ...]]:
    said = result.get("isError", False)
    if isinstance(said, bool) or said is None:
        return bool(said), ()
    return str(said).lower() not in {"false", "0", ""}, ("isError is not a boolean",)


def _salvaged(value: JSON, duration_ms: float, why: str) -> CallResult:
    content = () if value is None else (_text_block(value),)
    return _invalid(content, None, duration_ms, why)


def _invalid(content: tuple[dict[str, Any], ...], structured: JSON, duration_ms: float, why: str) -> CallResult:
    return CallResult(
        content=content,
        structured_content=structured,
        is_error=True,
        duration_ms=duration_ms,
        notes=(f"{INVALID_RESULT}: {why}",),
    )


def _text_block(value: JSON) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"type": "text", "text": text}


def read_prompt_messages(result: JSON) -> tuple[PromptMessage, ...]:
    """The answer to `prompts/get`; messages of a wrong shape are left out.

    Raises:
        ValueError: there is no list of messages in it.
    """
    found: list[PromptMessage] = []
    for message in _list_in(result, "messages"):
        if not isinstance(message, dict):
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        role = "assistant" if message.get("role") == "assistant" else "user"
        for block in blocks:
            if isinstance(block, str):
                found.append(PromptMessage(role, _text_block(block)))
            elif isinstance(block, dict):
                found.append(PromptMessage(role, block))
    return tuple(found)


def read_resource_contents(result: JSON) -> tuple[tuple[ResourceContent, ...], int]:
    """The answer to `resources/read`, and how many of its parts had neither text nor readable base64.

    Raises:
        ValueError: there is no list of contents in it.
    """
    listed = _list_in(result, "contents")
    read = (_resource_part(part) for part in listed if isinstance(part, dict))
    parts = tuple(part for part in read if part is not None)
    return parts, len(listed) - len(parts)


def _list_in(result: JSON, key: str) -> list[JSON]:
    found = result.get(key) if isinstance(result, dict) else None
    if isinstance(found, list):
        return found
    raise ValueError(f"it holds no list of {key}")


def _resource_part(part: dict[str, Any]) -> ResourceContent | None:
    uri = part["uri"] if isinstance(part.get("uri"), str) else ""
    mime_type = part["mimeType"] if isinstance(part.get("mimeType"), str) else None
    if isinstance(part.get("text"), str):
        return ResourceContent(uri, mime_type, text=part["text"])
    blob = part.get("blob")
    if not isinstance(blob, str):
        return None
    try:
        # RFC 4648 with line breaks, or in its alphabet for URLs: servers send all of these.
        data = base64.b64decode("".join(blob.split()).translate(_URL_SAFE), validate=True)
    except (binascii.Error, ValueError):
        return None
    return ResourceContent(uri, mime_type or "application/octet-stream", blob=data)
