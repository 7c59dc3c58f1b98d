"""`clean`: removing saved results of this workspace."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

import typer

from codebuddy_mcp_tools.cli.output import ExitCode, fail, say
from codebuddy_mcp_tools.cli.session import session_of

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("clean")(clean)


def clean(
    context: typer.Context,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Only older ones: 30m, 12h, 7d, 2w. Default all.")
    ] = None,
) -> None:
    """Remove the results that were too large for a model and were saved to disk."""
    from codebuddy_mcp_tools.tools.spill import SpillStore  # noqa: PLC0415 - tools import LangChain, which is slow

    session = session_of(context)
    removed = SpillStore(session.state_dir, session.places.workspace).clean(_age(older_than))
    say(f"Removed {removed.files} saved results, {removed.bytes:,} bytes.")


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})\s*([mhdw])", text.strip().lower())
    if match is None:
        raise fail("--older-than takes a number and a unit: 30m, 12h, 7d, 2w", ExitCode.USAGE)
    return timedelta(**{_UNITS[match[2]]: int(match[1])})
