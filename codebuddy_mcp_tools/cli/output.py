"""Printing: two consoles, plain JSON, and the exit codes.

Policy: results go to standard output, everything else to standard error. Colour and boxes only in a terminal; otherwise
one line is one record, however long. Text of files and servers is printed as text, never as markup, without
control characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from codebuddy_mcp_tools.policy import clean
from codebuddy_mcp_tools.types import Diagnostic

PLAIN_WIDTH = 100_000
_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}


class ExitCode(IntEnum):
    """How a command ends."""

    OK = 0
    FAILED = 1
    """It could not be done, or something that was looked at is broken."""
    USAGE = 2
    """The command line is wrong."""
    NEEDS_ANSWER = 3
    """Somebody has to approve something first."""


def console(*, stderr: bool = False) -> Console:
    """A console on what standard output or error is now."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty())


def safe(text: object) -> str:
    """A text that cannot act on the terminal."""
    return clean(str(text)).text


def say(text: str, *, style: str | None = None) -> None:
    """A line on standard output."""
    console().print(Text(safe(text), style=style or ""))


def remark(text: str, *, style: str | None = None) -> None:
    """A line on standard error."""
    console(stderr=True).print(Text(safe(text), style=style or ""))


def fail(text: str, code: ExitCode = ExitCode.FAILED) -> typer.Exit:
    """Print an error; raise what this returns to end the command."""
    remark(f"error: {text}", style="red")
    return typer.Exit(code)


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """Diagnostics on standard error, one line each."""
    for diagnostic in diagnostics:
        remark(f"{diagnostic.severity}: {diagnostic}", style=_COLOURS.get(diagnostic.severity))


def print_json(value: Any) -> None:
    """A value as JSON on standard output; what does not print is written as an escape, which JSON reads back."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    typer.echo("".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text))


def _plain(value: object) -> Any:
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no JSON")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: with a header rule in a terminal, tab-separated lines elsewhere."""
    out = console()
    if not out.is_terminal:
        for row in (columns, *rows):
            typer.echo("\t".join(safe(cell).replace("\t", " ").replace("\n", " ") for cell in row))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    out.print(table)


def as_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as a JSON object."""
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "path": diagnostic.path,
        "pointer": diagnostic.pointer,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "server": diagnostic.server,
    }
