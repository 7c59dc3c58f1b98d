"""`tools`, `describe` and `search`: what the servers offer, and what it costs a model to be shown it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebuddy_mcp_tools.cli.listing import JsonOption
from codebuddy_mcp_tools.cli.names import find_tool
from codebuddy_mcp_tools.cli.output import ExitCode, print_json, print_table, remark, report, say
from codebuddy_mcp_tools.cli.session import session_of
from codebuddy_mcp_tools.cli.status import is_broken, load, provider_of
from codebuddy_mcp_tools.policy import effect_of

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import MCPTool, ToolProvider


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("tools")(list_tools)
    app.command("describe")(describe_tool)
    app.command("search")(search)


def list_tools(
    context: typer.Context,
    server: Annotated[str | None, typer.Argument(help="Only the tools of this server.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List tools: read or write, how much a model is shown, and the tokens of the full schema and of the stub."""
    session = session_of(context)
    report(session.unlogged)
    name = session.server_name(server) if server is not None else None
    with provider_of(session) as provider:
        tools = [tool for tool in load(provider, name) if hasattr(tool, "info")]
        rows = list(_rows(provider, tools))
        broken = _is_any_broken(provider, name)
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("tool", "server", "effect", "rule", "exposure", "full", "stub"),
            [
                (r["name"], r["server"], r["effect"], r["rule"], r["exposure"], str(r["full"]), str(r["stub"]))
                for r in rows
            ],
        )
        full, stub = sum(r["full"] for r in rows), sum(r["stub"] for r in rows)
        remark(f"{len(rows)} tools; tokens, characters / 4: full {full:,}, stubs {stub:,}", style="dim")
    if broken:
        raise typer.Exit(ExitCode.FAILED)


def describe_tool(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool; any spelling that rules accept.")],
    as_json: JsonOption = False,
) -> None:
    """Show one tool: description, schema, the rules that touch it."""
    session = session_of(context)
    with provider_of(session) as provider:
        found = find_tool(session, provider, tool)
        if as_json:
            print_json({**next(_rows(provider, [found])), "definition": dict(found.info.definition)})
            return
        say(provider.catalog.describe(found.name))
        say("")
        say(provider.permissions.explain(found.info))


def search(
    context: typer.Context,
    query: Annotated[list[str], typer.Argument(help="Words, +required words, or select:A,B.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="At most so many.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Search the tools as a model does with ToolSearch. Exit code 1: nothing was found."""
    session = session_of(context)
    with provider_of(session) as provider:
        load(provider)
        rows: list[dict[str, Any]] = [
            {
                "name": hit.name,
                "server": hit.server,
                "tool": hit.tool.info.name,
                "score": round(hit.score, 3),
                "fields": hit.fields,
                "description": _first_line(hit.tool.info.description),
            }
            for hit in provider.catalog.search(" ".join(query), limit)
        ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("tool", "score", "description"), [(r["name"], str(r["score"]), r["description"]) for r in rows])
    else:
        remark("nothing was found")
    if not rows:
        raise typer.Exit(ExitCode.FAILED)


def _rows(provider: ToolProvider, tools: Sequence[MCPTool]) -> Iterator[dict[str, Any]]:
    costs = {cost.name: cost for cost in provider.catalog.cost().tools}
    for tool in tools:
        own = costs[tool.name]
        yield {
            "name": tool.name,
            "server": tool.info.server,
            "tool": tool.info.name,
            "effect": effect_of(tool.info).value,
            "rule": tool.decision().effect,
            "exposure": own.exposure.value,
            "full": own.full,
            "stub": own.stub,
            "description": _first_line(tool.info.description),
        }


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 200 else line[:199] + "…"


def _is_any_broken(provider: ToolProvider, server: str | None) -> bool:
    """Whether a server that was asked for does not run; the log has said why."""
    return any(is_broken(status) for status in provider.status() if server in (None, status.name))
