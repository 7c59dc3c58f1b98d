"""`login` and `logout`: the OAuth login of a remote server.

Policy: nothing is dialled for a server that has not been approved. The address of the login is always shown in full;
a browser opens it only where there is one. Tokens are never printed.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebuddy_mcp_tools.cli.output import ExitCode, fail, remark, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.policy import Redactor, command_argument
from codebuddy_mcp_tools.types import Admission

if TYPE_CHECKING:
    from codebuddy_mcp_tools.client import ConnectionSpec

NameArgument = Annotated[str, typer.Argument(help="The server's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("login")(login)
    app.command("logout")(logout)


def login(
    context: typer.Context,
    name: NameArgument,
    headless: Annotated[
        bool, typer.Option("--headless", help="Only show the address, and take the one the browser ends at.")
    ] = False,
    scope: Annotated[str | None, typer.Option("--oauth-scope", metavar="SCOPES", help="What to ask for.")] = None,
) -> None:
    """Log in to a remote server that wants OAuth."""
    from codebuddy_mcp_tools.client.login import LoginPrompt  # noqa: PLC0415 - the MCP SDK is slow to import
    from codebuddy_mcp_tools.client.login import login as log_in  # noqa: PLC0415

    session = session_of(context)
    redactor = Redactor()
    spec = _spec(session, name, redactor)
    prompt = LoginPrompt(remark, open_browser=None, paste=_paste) if headless else LoginPrompt(remark)
    result = asyncio.run(log_in(spec, prompt, redactor=redactor, scope=scope))
    if result is None:
        say(f'"{spec.name}" asks for no login.')
        return
    until = f", until {result.expires_at:%Y-%m-%d %H:%M} UTC" if result.expires_at else ""
    say(f'Logged in to "{spec.name}" at {result.issuer}{until}{", renewable" if result.renewable else ""}.')


def logout(context: typer.Context, name: NameArgument) -> None:
    """Forget the login of a remote server."""
    from codebuddy_mcp_tools.client.login import logout as log_out  # noqa: PLC0415 - the MCP SDK is slow to import

    spec = _spec(session_of(context), name, Redactor())
    say(f'Logged out of "{spec.name}".' if log_out(spec) else f'There was no login for "{spec.name}".')


async def _paste() -> str:
    text: Any = await asyncio.to_thread(typer.prompt, "The address the browser ended at", err=True)
    return str(text)


def _spec(session: Session, name: str, redactor: Redactor) -> ConnectionSpec:
    from codebuddy_mcp_tools.service.server import connection_spec  # noqa: PLC0415 - brings the MCP SDK

    entry = session.configuration.entry(name)
    if entry.config is not None and entry.config.transport.value == "stdio":
        raise fail(f'"{entry.name}" is a local program: there is nothing to log in to', ExitCode.USAGE)
    admission = session.admission(entry)
    if admission in (Admission.PENDING, Admission.REJECTED):
        hint = f"codebuddy-mcp approve {command_argument(entry.name)}"
        raise fail(f'"{entry.name}" has not been approved; nothing was sent: {hint}', ExitCode.NEEDS_ANSWER)
    return connection_spec(
        entry,
        session.configuration.settings,
        workspace=session.places.workspace,
        environ=os.environ,
        redactor=redactor,
        state_dir=session.state_dir,
    )
