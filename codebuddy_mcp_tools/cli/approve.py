"""`approve` and `reset-approvals`: letting a project's servers in.

Policy: what is approved is shown completely first. Without a terminal nothing is approved unless `--yes` says that
somebody has looked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from codebuddy_mcp_tools.cli.output import ExitCode, fail, remark, report, say
from codebuddy_mcp_tools.cli.session import Session, session_of
from codebuddy_mcp_tools.config import ServerEntry, choose
from codebuddy_mcp_tools.errors import UnknownServerError
from codebuddy_mcp_tools.policy import AuditLog, ToolPins, show
from codebuddy_mcp_tools.policy.approvals import needs_approval
from codebuddy_mcp_tools.policy.audit import log_path
from codebuddy_mcp_tools.types import Admission


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("approve")(approve)
    app.command("reset-approvals")(reset_approvals)


def approve(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Servers; default all that wait.", metavar="[NAME]...")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; what is approved is still shown.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Refuse the servers instead.")] = False,
    tools: Annotated[
        bool,
        typer.Option(
            "--tools", help="Accept tool definitions that changed since the approval, after showing the change."
        ),
    ] = False,
) -> None:
    """Approve servers that the project's own files define, after showing what they run."""
    session = session_of(context)
    if tools and deny:
        raise fail("--tools and --deny cannot go together: what is not accepted stays waiting", ExitCode.USAGE)
    if tools:
        _accept_tools(session, names or [], yes=yes)
        return
    entries = _asked(session, names or [])
    if not entries:
        say("No server waits for approval.")
        return
    if not yes and not deny and not sys.stdin.isatty():
        for entry in entries:
            say(session.approvals.request(entry).text())
        raise fail("there is no terminal to ask; look at the above and repeat with --yes", ExitCode.NEEDS_ANSWER)
    kept = [_answer(session, entry, yes=yes, deny=deny) for entry in entries]
    report(session.approvals.diagnostics)
    if not all(kept):
        raise fail("the answer could not be kept, so it does not count after this command")


def _asked(session: Session, names: Iterable[str]) -> list[ServerEntry]:
    """The entries the question is about: those named, or all that wait."""
    found = session.configuration
    wanted = [session.server_name(name) for name in names]
    entries = [
        entry
        for name in (wanted or found.candidates)
        for entry in found.candidates[name]
        if needs_approval(entry, found.settings)
    ]
    if not wanted:
        return [entry for entry in entries if session.admission(entry) is Admission.PENDING]
    for name in wanted:
        own = [entry for entry in entries if entry.name == name]
        if not own:
            remark(f'"{name}" needs no approval: the project\'s files do not define it')
        for entry in own:
            if entry.config is None:
                raise fail(entry.error or f'"{name}" cannot be used')
    return entries


def _answer(session: Session, entry: ServerEntry, *, yes: bool, deny: bool) -> bool:
    """Shows, asks and records; whether the answer was kept."""
    say(session.approvals.request(entry).text())
    approved = not deny and (yes or typer.confirm("Approve?", default=False))
    kept = session.approvals.record(entry, approved)
    fingerprint = session.approvals.fingerprint(entry)
    _audit(session).write(
        "approval", server=entry.name, approved=approved, fingerprint=fingerprint, scope=entry.scope.value
    )
    say(f'"{entry.name}" ({entry.scope.value} scope) is {"approved" if approved else "refused"}.')
    state = session.admission(entry)
    if approved and state is not Admission.ADMITTED:
        remark(f'note: "{entry.name}" does not start all the same: {_why(session, entry, state)}')
    elif approved and (winner := _winner(session, entry)) is not entry:
        remark(f'note: the {winner.scope.value} scope has a "{entry.name}" as well; that one counts, and this does not')
    return kept


def _audit(session: Session) -> AuditLog:
    workspace = session.places.workspace if session.configuration.settings.audit else None
    return AuditLog(log_path(workspace))


def _winner(session: Session, entry: ServerEntry) -> ServerEntry:
    """The entry of this name that counts after the answers just given."""
    unanswered = (Admission.PENDING, Admission.REJECTED)
    return choose(
        session.configuration.candidates[entry.name], lambda found: session.admission(found) not in unanswered
    )


def _why(session: Session, entry: ServerEntry, state: Admission) -> str:
    if state is Admission.DISABLED:
        return "it is disabled"
    if entry.name in session.settings.disabled_mcpjson_servers:
        return "your settings name it in disabledMcpjsonServers"
    return state.value


def _accept_tools(session: Session, names: Iterable[str], *, yes: bool) -> None:
    """Shows what changed, server by server, and takes exactly that as accepted."""
    pins = ToolPins(session.state_dir, session.places.workspace)
    wanted = [session.server_name(name) for name in names]
    waiting = [pins.waiting(name) for name in wanted or session.configuration.entries]
    for found in waiting:
        if found.problem:
            remark(f"warning: {found.problem}")
        if found.changed:
            say(found.text())
        elif wanted:
            say(f'No changed definition of "{found.server}" waits.')
    changed = [found for found in waiting if found.changed]
    if changed and not yes and not sys.stdin.isatty():
        raise fail("there is no terminal to ask; look at the above and repeat with --yes", ExitCode.NEEDS_ANSWER)
    for found in changed:
        if yes or typer.confirm(f'Accept these definitions of "{found.server}"?', default=False):
            accepted = ", ".join(map(show, pins.accept(found.server, found.changed)))
            _audit(session).write("pin", server=found.server, message=f"accepted: {accepted}")
            say(f'Accepted for "{found.server}": {accepted}')


def reset_approvals(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One server; default all of this workspace.")] = None,
) -> None:
    """Forget the answers, so that every server of the project is asked about again."""
    session = session_of(context)
    known = _known_spelling(session, name) if name else None
    session.approvals.reset(known)
    pins = ToolPins(session.state_dir, session.places.workspace)
    for server in [known] if known else session.configuration.entries:
        pins.forget(server)
    report(session.approvals.diagnostics)
    say(f'Forgot the approval of "{known}".' if known else "Forgot all approvals of this workspace.")


def _known_spelling(session: Session, name: str) -> str:
    """The configured spelling, or what was typed: an answer may be stored about a server that is gone."""
    try:
        return session.server_name(name)
    except UnknownServerError:
        return name
