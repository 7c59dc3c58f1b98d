"""From what a file says about one server to a model, with one clear line for everything that is not as it should be.

Policy: what can be understood in only one way is read, with a note (`entry_fields`); what can be understood in two
ways, or cannot work, is an error for that server alone (`entry_checks`). No message shows a value that could be a
secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from codebuddy_mcp_tools.config.entry_checks import MEANINGS, check_entry
from codebuddy_mcp_tools.config.entry_fields import (
    settle_enabled,
    settle_keys,
    settle_oauth,
    settle_texts,
    settle_tools,
)
from codebuddy_mcp_tools.config.entry_reader import EntryReader, kind_of, quoted
from codebuddy_mcp_tools.config.models import ServerConfig
from codebuddy_mcp_tools.config.names import name_problem
from codebuddy_mcp_tools.types import JSON, Diagnostic

_TYPES = {"stdio": "stdio", "local": "stdio", "sse": "sse", "http": "http", "streamablehttp": "http"}
_CHOICES = "stdio, http (also streamable-http) or sse"
_ADAPTER: TypeAdapter[ServerConfig] = TypeAdapter(ServerConfig)


def parse_server(
    name: str, raw: Mapping[str, JSON], *, path: Path | None = None, pointer: str = "", base: Path | None = None
) -> tuple[ServerConfig, list[Diagnostic]]:
    """The model of one entry, and what there is to say about it.

    Args:
        name: the key the entry stands under.
        raw: the entry as parsed from JSON, or as given in code.
        path: the file, for messages.
        pointer: JSON Pointer of the entry in that file.
        base: the folder a relative command is looked up from (the workspace).

    Raises:
        ConfigError: the entry cannot be used; `.pointer` leads to the value at fault.
    """
    reader = EntryReader(name, path, pointer)
    problem = name_problem(name)
    if problem:
        reader.refuse(problem)
    if not isinstance(raw, Mapping):
        reader.refuse(f"expected an object, found {kind_of(raw)}")
    values = settle_keys(raw, reader)
    kind = _take_type(values, reader)
    settle_enabled(values, reader)
    settle_texts(values, reader)
    settle_tools(values, reader)
    settle_oauth(values, reader)
    config = _validated({**values, "type": kind}, reader)
    check_entry(config, reader, base)
    return config, reader.diagnostics


def _take_type(values: dict[str, JSON], reader: EntryReader) -> str:
    """The transport an entry asks for, or that follows from what it has (CodeBuddy Code page, "Note")."""
    written = [(key, values.pop(key)) for key in ("type", "transport") if key in values]
    kinds = {key: _read_type(key, value, reader) for key, value in written}
    if len(set(kinds.values())) > 1:
        reader.refuse(f'"type" says {kinds["type"]} and "transport" says {kinds["transport"]}; keep one', "type")
    if kinds:
        return _agreeing(next(iter(kinds.values())), values, reader)
    has_command, has_url = bool(values.get("command")), bool(values.get("url"))
    if has_command and has_url:
        reader.refuse('has both "command" (stdio) and "url" (http); keep one, or say which with "type"')
    if not has_command and not has_url:
        near = next((key for key in values if key in MEANINGS), None)
        hint = f'; did you mean "{MEANINGS[near]}" instead of "{near}"?' if near else ""
        reader.refuse(f'has neither "command" (stdio) nor "url" (http){hint}')
    return "stdio" if has_command else "http"


def _read_type(key: str, value: JSON, reader: EntryReader) -> str:
    if not isinstance(value, str):
        reader.refuse(f'"{key}" must be {_CHOICES}, found {kind_of(value)}', key)
    kind = _TYPES.get(re.sub(r"[-_\s]", "", value).lower())
    if kind is None:
        reader.refuse(f'"{key}" is {quoted(value)}, expected {_CHOICES}', key)
    return kind


def _agreeing(kind: str, values: dict[str, JSON], reader: EntryReader) -> str:
    wanted, other = ("command", "url") if kind == "stdio" else ("url", "command")
    if not values.get(wanted):
        suggestion = ', or "type": "http"' if kind == "stdio" and values.get("url") else ""
        reader.refuse(f'a server of type {kind} needs "{wanted}"{suggestion}', wanted if wanted in values else "type")
    if values.get(other):
        reader.say("warning", f'"{other}" is ignored for a server of type {kind}', other)
    values.pop(other, None)
    return kind


def _validated(values: Mapping[str, JSON], reader: EntryReader) -> ServerConfig:
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        keys = [str(part) for part in first["loc"]][1:]  # the first is the discriminator
        message = str(first["msg"])
        reader.refuse(f"{'.'.join(keys) or 'entry'}: {message[0].lower()}{message[1:]}", *keys)
