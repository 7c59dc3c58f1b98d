"""What there is to say about one server entry while it is being read."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON, Diagnostic


class EntryReader:
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


def kind_of(value: JSON) -> str:
    """What a JSON value is, in a word for people."""
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return next((text for cls, text in names.items() if type(value) is cls), "an object")


def quoted(text: str, limit: int = 60) -> str:
    """Text of a file in quotes, on one line, cut at `limit` characters."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) + '"'
