"""What a model cannot know: whether an entry that has the right shape can work.

Policy: an entry that is bound to fail, or that does something else than it seems to, is refused here with the remedy in
the message; what merely looks odd is a warning. No value of an environment variable or header is shown.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from codebuddy_mcp_tools.config.display import display_args
from codebuddy_mcp_tools.config.entry_fields import known_keys
from codebuddy_mcp_tools.config.entry_reader import EntryReader, quoted
from codebuddy_mcp_tools.config.env import unsupported_placeholders
from codebuddy_mcp_tools.config.models import HttpServer, ServerConfig, SseServer, StdioServer

MEANINGS = {
    "cmd": "command",
    "executable": "command",
    "arguments": "args",
    "argv": "args",
    "environment": "env",
    "endpoint": "url",
    "uri": "url",
    "baseUrl": "url",
    "header": "headers",
}
"""Keys that look like nothing of ours and are still plainly meant as one."""
_IGNORED = frozenset({"name", "id", "title", "icon", "version", "autoApprove", "alwaysAllow", "trust", "note"})
_COMMENT_KEYS = ("_", "//", "#", "x-", "$")
_URL_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


def check_entry(config: ServerConfig, reader: EntryReader, base: Path | None) -> None:
    """Refuse or remark on what the model lets through; `base` is where a relative command is looked up.

    Raises:
        ConfigError: the entry cannot be used.
    """
    for keys, text in _texts(config):
        if _UNSENDABLE.search(text):
            reader.refuse(f"{'.'.join(keys)} holds a NUL character or half a surrogate pair", *keys)
    for name in config.env:
        if not name or "=" in name or _UNSENDABLE.search(name):
            reader.refuse('env: the name of a variable must not be empty or hold "="', "env")
    if isinstance(config, StdioServer):
        _check_command(config, reader, base)
    else:
        _check_url(config, reader)
    _report_placeholders(config, reader)
    _report_unknown(config, reader)
    _report_short_timeouts(config, reader)


def _texts(config: ServerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from ((("env", name), value) for name, value in config.env.items())
    if isinstance(config, StdioServer):
        yield ("command",), config.command
        yield ("cwd",), config.cwd or ""
        yield from ((("args", str(index)), arg) for index, arg in enumerate(config.args))
    else:
        yield ("url",), config.url
        yield from ((("headers", name), value) for name, value in config.headers.items())


def _check_command(config: StdioServer, reader: EntryReader, base: Path | None) -> None:
    command = config.command
    if not command.strip():
        reader.refuse('"command" is empty', "command")
    if not re.search(r"\s", command) or "${" in command:
        return
    if os.path.exists(Path(base or "", command)) or shutil.which(command):
        return  # a real path with spaces
    first, *rest = command.split()
    shown = quoted(" ".join(display_args(command.split())))
    args = [quoted(arg) for arg in display_args([*rest, *config.args])]
    reader.refuse(
        f'"command" is one executable, and there is no file {shown}; if it holds arguments, put '
        f'them into "args": "command": {quoted(first)}, "args": [{", ".join(args)}]',
        "command",
    )


def _check_url(config: SseServer | HttpServer, reader: EntryReader) -> None:
    url = config.url
    if re.search(r"[\x00-\x20\x7f]", url) or url != url.strip():
        reader.refuse('"url" holds white space or control characters', "url")
    if not url.startswith("${"):
        scheme = _URL_SCHEME.match(url)
        found = scheme[1].lower() if scheme else ""
        if found not in ("http", "https") or not url[len(found) :].startswith("://"):
            what = f'begins with "{found}:"' if found else "has no scheme"
            reader.refuse(f'"url" must begin with http:// or https://; it {what}', "url")
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            reader.refuse(f"headers: {quoted(name)} is not a header name", "headers", name)
        if re.search(r"[\r\n]", value):
            reader.refuse(f"headers.{name} holds a line break", "headers", name)


def _report_placeholders(config: ServerConfig, reader: EntryReader) -> None:
    for place in dict.fromkeys(place for _, text in _texts(config) for place in unsupported_placeholders(text)):
        wanted = re.sub(r"[^A-Z0-9_]", "_", (place[2:-1].rpartition(":")[2] or "name").upper())
        wanted = wanted if not wanted[:1].isdigit() else f"_{wanted}"
        reader.say(
            "warning",
            f"{place} is another host's placeholder: it is not supported and not filled in; "
            f"use ${{{wanted}}} and set that environment variable",
        )


def _report_unknown(config: ServerConfig, reader: EntryReader) -> None:
    known = [*known_keys(type(config)), "disabled", "transport"]
    for key in config.unknown_keys:
        if key in _IGNORED or key.startswith(_COMMENT_KEYS):
            continue
        meant = MEANINGS.get(key) or next(iter(difflib.get_close_matches(key, known, 1, 0.75)), None)
        hint = f'; did you mean "{meant}"?' if meant else " (kept, not used)"
        reader.say("warning" if meant else "note", f'unknown key "{key}"{hint}', key)


def _report_short_timeouts(config: ServerConfig, reader: EntryReader) -> None:
    for key, value in (("timeout", config.timeout), ("toolTimeout", config.tool_timeout)):
        if value is not None and value < 1000:
            reader.say("warning", f'"{key}" is in milliseconds: {value:g} is less than a second', key)
