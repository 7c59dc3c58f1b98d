"""`demo`: an agent over real servers, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebuddy_mcp_tools.cli.output import console


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("demo")(demo)


def demo(
    model: Annotated[str | None, typer.Option("--model", "-m", help="provider:name; default a scripted model.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A file with mcpServers to use.")] = None,
    question: Annotated[str | None, typer.Option("--question", "-q", help="What to ask the model.")] = None,
) -> None:
    """Watch an agent work with two small servers: search, approval, a write and its check."""
    from codebuddy_mcp_tools.demo.run import run_demo  # noqa: PLC0415 - LangGraph is slow to import

    raise typer.Exit(run_demo(model=model, config=config, question=question, console=console()))
