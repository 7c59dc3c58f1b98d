"""From what a file says about one server to a model, with one clear line for everything that is not as it should be.

Policy: what can be understood in only one way is read, with a note (other hosts' spellings, numbers where text is meant);
what can be understood in two ways is an error for that server alone. No message shows a value that could be a secret.
"""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from codebuddy_mcp_tools.config.display import display_args
from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.config.env import unsupported_placeholders
from codebuddy_mcp_tools.config.models import HttpServer, ServerConfig, SseServer, StdioServer, ToolConfig
from codebuddy_mcp_tools.config.names import name_problem
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON, Diagnostic

_TYPES = {
    "stdio": "stdio",
    "local": "stdio",
    "sse": "sse",
    "http": "http",
    "streamablehttp": "http",
}
_ADAPTER: TypeAdapter[ServerConfig] = TypeAdapter(ServerConfig)
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
_MEANINGS = {"cmd": "command", "executable": "command", "arguments": "args", "argv": "args", "environment": "env",
             "endpoint": "url", "uri": "url", "baseUrl": "url", "header": "headers"}  # fmt: skip
_IGNORED = frozenset(
    {"$schema", "name", "id", "title", "icon", "version", "autoApprove", "alwaysAllow", "trust", "note"}
)
_COMMENT_KEYS = ("_", "//", "#", "x-", "$")
_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


class _Reader:
    """One entry while it is being read: collects the notes, knows how to complain."""

    def __init__(self, name: str, path: Path | None, pointer: str) -> None:
        self.name = name
        self.path = path
        self.pointer = pointer
        self.diagnostics: list[Diagnostic] = []

    def say(self, severity: str, message: str, *keys: str) -> None:
        self.diagnostics.append(
            Diagnostic(
                severity,
                f'server "{self.name}": {message}',
                path=self.path,
                pointer=self.pointer + join_pointer(*keys),
                server=self.name,
            )
        )

    def refuse(self, message: str, *keys: str) -> NoReturn:
        raise ConfigError(
            f'server "{self.name}": {message}', path=self.path, pointer=self.pointer + join_pointer(*keys)
        ) from None


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
    reader = _Reader(name, path, pointer)
    problem = name_problem(name)
    if problem:
        reader.refuse(problem)
    if not isinstance(raw, Mapping):
        reader.refuse(f"expected an object, found {_kind(raw)}")
    values = _rename(dict(raw), reader)
    kind = _take_type(values, reader)
    _settle_enabled(values, reader)
    _settle_texts(values, reader)
    _settle_tools(values, reader)
    _settle_oauth(values, reader)
    config = _validate({**values, "type": kind}, reader)
    _check_transport(config, reader, base)
    _check_placeholders(config, reader)
    _report_unknown(config, reader)
    _report_short_timeouts(config, reader)
    return config, reader.diagnostics


def _kind(value: JSON) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return next((text for kind, text in names.items() if type(value) is kind), "an object")


def _rename(raw: dict[str, JSON], reader: _Reader) -> dict[str, JSON]:
    values: dict[str, JSON] = {}
    for key, value in raw.items():
        name = _SYNONYMS.get(str(key), str(key))
        if name != key and name in raw:
            reader.say("warning", f'"{key}" is ignored beside "{name}"', str(key))
            continue
        if name != key:
            reader.say("note", f'"{key}" is read as "{name}"', str(key))
        if value is None and name not in ("command", "url"):
            continue  # null says nothing
        values[name] = value
    return values


def _take_type(values: dict[str, JSON], reader: _Reader) -> str:
    written = [(key, values.pop(key)) for key in ("type", "transport") if key in values]
    kinds = {key: _read_type(key, value, reader) for key, value in written}
    if len(set(kinds.values())) > 1:
        reader.refuse(f'"type" says {kinds["type"]} and "transport" says {kinds["transport"]}; keep one', "type")
    has_command, has_url = bool(values.get("command")), bool(values.get("url"))
    if kinds:
        return _check_type(next(iter(kinds.values())), values, reader)
    if has_command and has_url:
        reader.refuse('has both "command" (stdio) and "url" (http); keep one, or say which with "type"')
    if not has_command and not has_url:
        near = next((key for key in values if key in _MEANINGS), None)
        hint = f'; did you mean "{_MEANINGS[near]}" instead of "{near}"?' if near else ""
        reader.refuse(f'has neither "command" (stdio) nor "url" (http){hint}')
    return "stdio" if has_command else "http"


def _read_type(key: str, value: JSON, reader: _Reader) -> str:
    choices = "stdio, http (also streamable-http) or sse"
    if not isinstance(value, str):
        reader.refuse(f'"{key}" must be {choices}, found {_kind(value)}', key)
    kind = _TYPES.get(re.sub(r"[-_\s]", "", value).lower())
    if kind is None:
        reader.refuse(f'"{key}" is {_quoted(value)}, expected {choices}', key)
    return kind


def _quoted(text: str, limit: int = 60) -> str:
    shown = text if len(text) <= limit else text[:limit] + "…"
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) + '"'


def _check_type(kind: str, values: dict[str, JSON], reader: _Reader) -> str:
    wanted, other = ("command", "url") if kind == "stdio" else ("url", "command")
    if not values.get(wanted):
        suggestion = ', or "type": "http"' if kind == "stdio" and values.get("url") else ""
        reader.refuse(f'a server of type {kind} needs "{wanted}"{suggestion}', wanted if wanted in values else "type")
    if values.get(other):
        reader.say("warning", f'"{other}" is ignored for a server of type {kind}', other)
    values.pop(other, None)
    return kind


def _settle_enabled(values: dict[str, JSON], reader: _Reader) -> None:
    if "disabled" not in values:
        return
    disabled = values.pop("disabled")
    if not isinstance(disabled, bool):
        reader.refuse(f'"disabled" must be true or false, found {_kind(disabled)}', "disabled")
    if disabled and values.get("enabled") is True:
        reader.say(
            "warning", '"disabled": true and "enabled": true contradict each other; it stays disabled', "disabled"
        )
    if disabled or "enabled" not in values:
        values["enabled"] = not disabled


def _settle_texts(values: dict[str, JSON], reader: _Reader) -> None:
    """Numbers and booleans where text is meant become the text one would write (`"PORT": 8080`)."""
    args = values.get("args")
    if isinstance(args, str):
        reader.refuse('"args" must be a list of texts, for example ["-y", "package"]', "args")
    if isinstance(args, (list, tuple)):
        values["args"] = tuple(_text(item, reader, "args", str(index)) for index, item in enumerate(args))
    for key in ("env", "headers"):
        table = values.get(key)
        if isinstance(table, Mapping):
            values[key] = {str(name): _text(value, reader, key, str(name)) for name, value in table.items()}
        elif table is not None:
            reader.refuse(f'"{key}" must be an object of texts, found {_kind(table)}', key)


def _text(value: JSON, reader: _Reader, *keys: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        reader.say("note", f"{'.'.join(keys)} is {_kind(value)} and is read as text", *keys)
        return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    reader.refuse(f"{'.'.join(keys)} must be text, found {_kind(value)}", *keys)


def _settle_tools(values: dict[str, JSON], reader: _Reader) -> None:
    tools = values.get("tools")
    if isinstance(tools, (list, tuple)):  # GitHub Copilot's form: a list of the tools that are offered
        values.pop("tools")
        if "*" not in tools and "toolAllowlist" not in values:
            values["toolAllowlist"] = tools
        reader.say("note", '"tools" is a list and is read as "toolAllowlist"', "tools")
    elif isinstance(tools, Mapping):
        values["tools"] = {str(name): _tool_settings(str(name), settings, reader) for name, settings in tools.items()}


def _tool_settings(name: str, settings: JSON, reader: _Reader) -> JSON:
    if isinstance(settings, bool):
        reader.say("note", f'tools.{name} is read as {{"enabled": {str(settings).lower()}}}', "tools", name)
        return {"enabled": settings}
    if not isinstance(settings, Mapping):
        return settings
    renamed = {_SYNONYMS.get(key, key): value for key, value in settings.items() if value is not None}
    disabled = renamed.pop("disabled", None)
    if isinstance(disabled, bool):
        renamed["enabled"] = not disabled and renamed.get("enabled", True)
    known = _known_keys(ToolConfig)
    for key in renamed.keys() - known:
        near = difflib.get_close_matches(key, known, 1, 0.75)
        if near:
            reader.say("warning", f'unknown key "{key}" in tools.{name}; did you mean "{near[0]}"?', "tools", name, key)
    return renamed


def _settle_oauth(values: dict[str, JSON], reader: _Reader) -> None:
    oauth = values.get("oauth")
    if isinstance(oauth, bool):
        values.pop("oauth")  # some hosts write `true` for "discover everything", which is what happens anyway
    elif isinstance(oauth, Mapping):
        settings = dict(oauth)
        scopes = settings.pop("scopes", None)
        if isinstance(scopes, (list, tuple)) and "scope" not in settings:
            settings["scope"] = " ".join(str(scope) for scope in scopes)
        elif isinstance(scopes, str):
            settings.setdefault("scope", scopes)
        values["oauth"] = settings
    elif oauth is not None:
        reader.refuse(f'"oauth" must be an object, found {_kind(oauth)}', "oauth")


def _validate(values: Mapping[str, JSON], reader: _Reader) -> ServerConfig:
    try:
        return _ADAPTER.validate_python(values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    keys = [str(part) for part in first["loc"]][1:]  # the first is the discriminator
    message = str(first["msg"])
    reader.refuse(f"{'.'.join(keys) or 'entry'}: {message[0].lower()}{message[1:]}", *keys)


def _check_transport(config: ServerConfig, reader: _Reader, base: Path | None) -> None:
    for keys, text in _texts(config):
        if _UNSENDABLE.search(text):
            reader.refuse(f"{'.'.join(keys)} holds a NUL character or half a surrogate pair", *keys)
    for name in config.env:
        if not name or "=" in name or _UNSENDABLE.search(name):
            reader.refuse('env: a variable name must not be empty or hold "="', "env")
    if isinstance(config, StdioServer):
        _check_command(config, reader, base)
    else:
        _check_url(config, reader)


def _texts(config: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from ((("env", name), value) for name, value in config.env.items())
    if isinstance(config, StdioServer):
        yield ("command",), config.command
        yield ("cwd",), config.cwd or ""
        yield from ((("args", str(index)), arg) for index, arg in enumerate(config.args))
    else:
        yield ("url",), config.url
        yield from ((("headers", name), value) for name, value in config.headers.items())


def _check_command(config: StdioServer, reader: _Reader, base: Path | None) -> None:
    command = config.command
    if not command.strip():
        reader.refuse('"command" is empty', "command")
    if not re.search(r"\s", command) or "${" in command:
        return
    if Path(base or "", command).exists() or shutil.which(command):
        return  # a real path with spaces
    first, *rest = command.split()
    reader.refuse(
        f'"command" is one executable, and no file has this name; if it holds arguments, put them into "args": '
        f'"command": {_quoted(first)}, "args": [{", ".join(_shown_args(rest))}{", …" if config.args else ""}]',
        "command",
    )


def _shown_args(args: list[str]) -> list[str]:
    return [_quoted(arg) for arg in display_args(args)]


def _check_url(config: SseServer | HttpServer, reader: _Reader) -> None:
    url = config.url
    if url != url.strip() or re.search(r"[\x00-\x20\x7f]", url):
        reader.refuse('"url" holds white space or control characters', "url")
    if not url.startswith("${"):
        scheme = _URL_SCHEME.match(url)
        found = scheme[1].lower() if scheme else ""
        if found not in ("http", "https") or not url[len(found) :].startswith("://"):
            what = f'begins with "{found}:"' if found else "has no scheme"
            reader.refuse(f'"url" must begin with http:// or https://; it {what}', "url")
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            reader.refuse(f"headers: {_quoted(name)} is not a header name", "headers", name)
        if re.search(r"[\r\n]", value):
            reader.refuse(f"headers.{name} holds a line break", "headers", name)


def _check_placeholders(config: ServerConfig, reader: _Reader) -> None:
    found = dict.fromkeys(place for _, text in _texts(config) for place in unsupported_placeholders(text))
    for place in found:
        variable = place[2:-1].partition(":")[2] or "NAME"
        wanted = re.sub(r"[^A-Z0-9_]", "_", variable.upper())
        reader.say(
            "warning",
            f'{place} belongs to another host and is not filled in; use "${{{wanted}}}" and set that variable',
        )


def _known_keys(model: type[Any]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _report_unknown(config: ServerConfig, reader: _Reader) -> None:
    known = [*_known_keys(type(config)), "disabled", "transport"]
    for key in config.unknown_keys:
        if key in _IGNORED or key.startswith(_COMMENT_KEYS):
            continue
        meant = _MEANINGS.get(key) or next(iter(difflib.get_close_matches(key, known, 1, 0.75)), None)
        hint = f'; did you mean "{meant}"?' if meant else " (kept, not used)"
        reader.say("warning" if meant else "note", f'unknown key "{key}"{hint}', key)


def _report_short_timeouts(config: ServerConfig, reader: _Reader) -> None:
    for key, value in (("timeout", config.timeout), ("toolTimeout", config.tool_timeout)):
        if value is not None and value < 1000:
            reader.say("warning", f'"{key}" is in milliseconds: {value:g} is less than a second', key)
