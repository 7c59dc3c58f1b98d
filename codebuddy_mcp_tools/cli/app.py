"""The application: options that every command knows, and where the commands are.

Exit codes: 0 done; 1 it could not be done, or something that was looked at is broken; 2 the command line is wrong;
3 somebody has to approve something first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from codebuddy_mcp_tools.cli import add, approve, call, clean, demo, doctor, listing, login, remove, status, tools
from codebuddy_mcp_tools.cli.output import ExitCode, remark
from codebuddy_mcp_tools.cli.session import Session, parse_modifiers
from codebuddy_mcp_tools.errors import MCPToolsError

PROGRAM = "codebuddy-mcp"
HELP = """Look after MCP servers, and try their tools.

Exit codes: 0 done; 1 it could not be done, or something that was looked at is broken; 2 the command line is wrong;
3 somebody has to approve something first.
"""
_COMMANDS = (add, listing, remove, approve, status, tools, call, doctor, demo, login, clean)
_EPILOG = "Reading commands take --json. Set NO_COLOR to get no colours."


class _Commands(TyperGroup):
    """Turns this package's errors into one line and an exit code, wherever a command was started from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MCPToolsError as error:
            remark(f"error: {error}", style="red")
            raise typer.Exit(ExitCode.FAILED) from None


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"{PROGRAM} {version('codebuddy-mcp-tools')}")
        raise typer.Exit


def start(
    context: typer.Context,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-C", help="The project's folder; default the current one.")
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="JSON|FILE", help="Settings that go before those of files.")
    ] = None,
    modifiers: Annotated[
        str | None,
        typer.Option("--tools", metavar="MODIFIERS", help='For this run, as in "default,Defer(mcp__github__*)".'),
    ] = None,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more on standard error.")] = 0,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if workspace is not None and not workspace.is_dir():
        raise typer.BadParameter(f"{workspace} is not a folder", param_hint="--workspace")
    _log_to_stderr(verbose)
    chosen = tuple(parse_modifiers(modifiers)) if modifiers else ()
    context.obj = Session((workspace or Path.cwd()).absolute(), settings, chosen)


def build() -> typer.Typer:
    """The application, every command registered."""
    app = typer.Typer(
        name=PROGRAM, cls=_Commands, help=HELP, epilog=_EPILOG, no_args_is_help=True, pretty_exceptions_enable=False
    )
    app.callback()(start)
    alias = typer.Typer(no_args_is_help=True, cls=_Commands)
    for target in (app, alias):
        for room in _COMMANDS:
            room.register(target)
    app.add_typer(alias, name="mcp", hidden=True, help="The same commands, as other hosts spell them.")
    return app


def run() -> None:
    """Run the command line of this process and end it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # a replaced stream has none
    try:
        build()(prog_name=PROGRAM)
    except BrokenPipeError:  # `| head`: nobody reads any more, and flushing at exit would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(ExitCode.FAILED) from None


class _ConsoleHandler(logging.Handler):
    """Log records as remarks on standard error, wherever that leads when they come."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            remark(f"{record.levelname.lower()}: {record.getMessage()}")
        except Exception:  # noqa: BLE001 - the rule of logging: a record that cannot be shown must not end the program
            self.handleError(record)


def _log_to_stderr(verbose: int) -> None:
    logger = logging.getLogger("codebuddy_mcp_tools")
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(_ConsoleHandler())
    logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG))
