"""`add` and `add-json`: writing a server into the file of a scope.

Policy: what stands after `--` is taken verbatim. What is written is checked first with the same reader that will load
it. An entry of that name is not overwritten unless told so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from codebuddy_mcp_tools.cli.output import ExitCode, fail, remark, report, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.config import display_command, display_url, parse, parse_server, set_value, target_of
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import command_argument
from codebuddy_mcp_tools.types import JSON, Scope, Transport

_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # Typer 0.2x has its own copy of Click's UsageError


class WritableScope(StrEnum):
    """Scopes that the command line writes."""

    LOCAL = "local"
    PROJECT = "project"
    USER = "user"

    @property
    def scope(self) -> Scope:
        return Scope(self.value)


ScopeOption = Annotated[
    WritableScope,
    typer.Option("--scope", "-s", help="local and user are yours alone; project is .mcp.json."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Overwrite an entry of that name.")]


class _AddCommand(TyperCommand):
    """Says what is wrong when an option of the server's own command is taken for one of ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            if "--" not in given and hasattr(error, "option_name"):
                hint = 'put "--" before the command of the server: add NAME -- COMMAND [ARGS]'
                raise typer.BadParameter(f"{error.message}; {hint}", ctx) from None
            raise


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("add", cls=_AddCommand)(add)
    app.command("add-json")(add_json)


def add(  # noqa: PLR0917 - Typer reads options from the signature
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="NAME [--] COMMAND [ARGS]... | NAME URL", help="Its name, and how to reach it."),
    ],
    scope: ScopeOption = WritableScope.LOCAL,
    transport: Annotated[
        str | None,
        typer.Option("--transport", "-t", metavar="stdio|sse|http", help="Default: by what follows."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="KEY=VALUE", help="Variable; may be repeated."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="HTTP header; may be repeated.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Add a server. Everything after -- is the server's command, verbatim.

    add -s user -e API_KEY=x github -- npx -y @scope/server

    add --transport sse events https://example.com/sse
    """
    name, *rest = arguments
    raw = _entry(rest, transport, _pairs(env or [], "=", "--env"), _pairs(header or [], ":", "--header"))
    _store(session_of(context), scope.scope, name, raw, force=force)


def add_json(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The server's name.")],
    entry: Annotated[str, typer.Argument(metavar="JSON", help="The entry, as it stands in a file.")],
    scope: ScopeOption = WritableScope.LOCAL,
    force: ForceOption = False,
) -> None:
    """Add a server given as JSON."""
    try:
        raw = parse(entry)
    except ConfigError as error:
        raise fail(f"the JSON cannot be read: {error}", ExitCode.USAGE) from None
    if not isinstance(raw, Mapping):
        raise fail("the JSON must be an object, the entry of one server", ExitCode.USAGE)
    _store(session_of(context), scope.scope, name, raw, force=force)


def _pairs(texts: Sequence[str], separator: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, found, value = text.partition(separator)
        if not found or not key.strip():
            example = "KEY=VALUE" if separator == "=" else "'NAME: VALUE'"
            raise fail(f"{option} takes {example}", ExitCode.USAGE)  # the text itself may hold a credential
        pairs[key.strip()] = value if separator == "=" else value.strip()
    return pairs


def _entry(
    rest: Sequence[str], transport: str | None, env: Mapping[str, str], headers: Mapping[str, str]
) -> dict[str, JSON]:
    if not rest:
        raise fail("say how to reach the server: add NAME -- COMMAND [ARGS], or add NAME URL", ExitCode.USAGE)
    first, *args = rest
    is_url = first.lower().startswith(("http://", "https://")) and not args
    kind = transport or ("http" if is_url else "stdio")
    if kind.lower() == "stdio":
        if headers:
            raise fail("--header is for servers with a URL; stdio servers take --env", ExitCode.USAGE)
        return {"type": "stdio", "command": first, "args": list(args)} | ({"env": dict(env)} if env else {})
    if args:
        raise fail(f"a server of type {kind} takes a URL and nothing after it", ExitCode.USAGE)
    entry: dict[str, JSON] = {"type": kind.lower(), "url": first}
    return entry | ({"headers": dict(headers)} if headers else {}) | ({"env": dict(env)} if env else {})


def _store(session: Session, scope: Scope, name: str, raw: Mapping[str, JSON], *, force: bool) -> None:
    target = target_of(session.places, scope)
    config, said = parse_server(name, raw, base=session.places.workspace)
    report(said)
    if name in target.servers and target.servers[name] != raw and not force:
        raise fail(f'"{name}" is already in {target.path}; remove it first, or use --force')
    changed = set_value(target.path, (*target.keys, name), raw)
    where = display_command(config.command, config.args) if isinstance(config, StdioServer) else display_url(config.url)
    verb = "Added" if changed else "Already there:"
    say(f'{verb} {config.transport.value} server "{name}" ({where}) in {scope.value} scope: {target.path}')
    _hint(session, scope, name, config.transport, raw)


def _hint(session: Session, scope: Scope, name: str, transport: Transport, raw: Mapping[str, JSON]) -> None:
    if scope is not Scope.PROJECT:
        return
    approve = f"codebuddy-mcp approve {command_argument(name)}"
    remark(f"A server of a project starts only after approval: {approve}", style="dim")
    values = raw.get("env" if transport is Transport.STDIO else "headers")
    literal = [key for key, value in values.items() if "${" not in str(value)] if isinstance(values, Mapping) else []
    if literal:
        names = ", ".join(literal)
        remark(f"note: {names}: the value stands in a file of the project; ${{VARIABLES}} keep secrets out of it")
    if name in session.settings.disabled_mcpjson_servers:
        remark(f'note: your settings name "{name}" in disabledMcpjsonServers')
