"""Spellings: what other hosts and people write, turned into the keys and types of the models.

Policy: what can be understood in only one way is read, with a note.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from codebuddy_mcp_tools.config.entry_reader import EntryReader, kind_of
from codebuddy_mcp_tools.config.models import ToolConfig
from codebuddy_mcp_tools.types import JSON

_SYNONYMS = {
    "serverUrl": "url",
    "server_url": "url",
    "httpUrl": "url",
    "http_url": "url",
    "tool_allowlist": "toolAllowlist",
    "allowedTools": "toolAllowlist",
    "includeTools": "toolAllowlist",
    "max_result_chars": "maxResultChars",
    "always_load": "alwaysLoad",
    "deferLoading": "defer_loading",
    "tool_timeout": "toolTimeout",
    "breaker_threshold": "breakerThreshold",
    "breaker_cooldown": "breakerCooldown",
}
"""Spellings of other hosts, and of Python, that mean exactly one key."""


def settle_keys(raw: Mapping[str, JSON], reader: EntryReader) -> dict[str, JSON]:
    """The entry with one spelling for every key; `null` says nothing and is left out."""
    values: dict[str, JSON] = {}
    for key, value in raw.items():
        name = _SYNONYMS.get(str(key), str(key))
        if name != key and name in raw:
            reader.say("warning", f'"{key}" is ignored beside "{name}"', str(key))
            continue
        if name != key:
            reader.say("note", f'"{key}" is read as "{name}"', str(key))
        if value is not None or name in ("command", "url"):
            values[name] = value.total_seconds() * 1000 if isinstance(value, timedelta) else value
    return values


def settle_enabled(values: dict[str, JSON], reader: EntryReader) -> None:
    """`disabled` becomes `enabled`; when the two contradict each other the server stays off."""
    if "disabled" not in values:
        return
    disabled = values.pop("disabled")
    if not isinstance(disabled, bool):
        reader.refuse(f'"disabled" must be true or false, found {kind_of(disabled)}', "disabled")
    if disabled and values.get("enabled") is True:
        reader.say("warning", '"disabled" and "enabled" contradict each other; it stays disabled', "disabled")
    if disabled or "enabled" not in values:
        values["enabled"] = not disabled


def settle_texts(values: dict[str, JSON], reader: EntryReader) -> None:
    """Numbers and booleans where text is meant become the text one would write (`"PORT": 8080`)."""
    for key in ("command", "cwd", "url"):
        if isinstance(values.get(key), os.PathLike):
            values[key] = os.fspath(values[key])
    command, args = values.get("command"), values.get("args")
    if isinstance(command, (list, tuple)):
        reader.refuse('"command" must be text, the executable alone; put the rest into "args"', "command")
    if isinstance(args, str):
        reader.refuse('"args" must be a list of texts, for example ["-y", "package"]', "args")
    if isinstance(args, (list, tuple)):
        values["args"] = tuple(_text(item, reader, "args", str(index)) for index, item in enumerate(args))
    for key in ("env", "headers"):
        table = values.get(key)
        if isinstance(table, Mapping):
            values[key] = {str(name): _text(value, reader, key, str(name)) for name, value in table.items()}
        elif table is not None:
            reader.refuse(f'"{key}" must be an object of texts, found {kind_of(table)}', key)


def _text(value: JSON, reader: EntryReader, *keys: str) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if not isinstance(value, (str, bool, int, float)):
        reader.refuse(f"{'.'.join(keys)} must be text, found {kind_of(value)}", *keys)
    if isinstance(value, str):
        return value
    reader.say("note", f"{'.'.join(keys)} is {kind_of(value)} and is read as text", *keys)
    return str(value).lower() if isinstance(value, bool) else str(value)


def settle_tools(values: dict[str, JSON], reader: EntryReader) -> None:
    """`tools` as an object of settings; a list of names (GitHub Copilot's form) is an allowlist."""
    tools = values.get("tools")
    if isinstance(tools, (list, tuple)):
        values.pop("tools")
        if "*" not in tools and "toolAllowlist" not in values:
            values["toolAllowlist"] = tools
        reader.say("note", '"tools" is a list and is read as "toolAllowlist"', "tools")
    elif isinstance(tools, Mapping):
        values["tools"] = {str(name): _tool_settings(str(name), settings, reader) for name, settings in tools.items()}


def _tool_settings(name: str, settings: JSON, reader: EntryReader) -> JSON:
    if isinstance(settings, bool):
        reader.say("note", f'tools.{name} is read as {{"enabled": {str(settings).lower()}}}', "tools", name)
        return {"enabled": settings}
    if not isinstance(settings, Mapping):
        return settings
    renamed = {_SYNONYMS.get(str(key), str(key)): value for key, value in settings.items() if value is not None}
    disabled = renamed.pop("disabled", None)
    if isinstance(disabled, bool):
        renamed["enabled"] = not disabled and renamed.get("enabled", True)
    known = known_keys(ToolConfig)
    for key in renamed:
        near = difflib.get_close_matches(key, known, 1, 0.75)
        if key not in known and near:
            reader.say("warning", f'unknown key "{key}" in tools.{name}; did you mean "{near[0]}"?', "tools", name, key)
    return renamed


def settle_oauth(values: dict[str, JSON], reader: EntryReader) -> None:
    """`oauth` as an object; `true`, which some hosts write, means what happens anyway: everything is discovered."""
    oauth = values.get("oauth")
    if isinstance(oauth, bool):
        values.pop("oauth")
    elif isinstance(oauth, Mapping):
        settings = dict(oauth)
        scopes = settings.pop("scopes", None)
        if scopes and "scope" not in settings:
            settings["scope"] = scopes if isinstance(scopes, str) else " ".join(str(scope) for scope in scopes)
        values["oauth"] = settings
    elif oauth is not None:
        reader.refuse(f'"oauth" must be an object, found {kind_of(oauth)}', "oauth")


def known_keys(model: type[Any]) -> list[str]:
    """Every key of a model, as files write it."""
    return [info.alias or name for name, info in model.model_fields.items()]
