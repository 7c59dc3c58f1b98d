"""`call`: running one tool, under the same rules as a model's call.

Policy: a rule that denies is not overruled here; a rule that asks is put to the person at the terminal, or answered by
`--yes`. What the server answers is printed in its envelope, without control characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebuddy_mcp_tools.cli.names import find_tool
from codebuddy_mcp_tools.cli.output import ExitCode, fail, print_json, remark, say
from codebuddy_mcp_tools.cli.session import session_of
from codebuddy_mcp_tools.cli.status import provider_of
from codebuddy_mcp_tools.config import parse
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.request import ApprovalRequest

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools import MCPTool

_CALL_ID = "codebuddy-mcp-call"


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("call")(call)


def call(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="The tool; any spelling that rules accept.")],
    given: Annotated[
        str | None, typer.Argument(metavar="[ARGS]", help='Arguments as a JSON object; "-" reads standard input.')
    ] = None,
    *,
    option: Annotated[str | None, typer.Option("--json", metavar="ARGS", help="The same, as an option.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer the question of an ask rule.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print content and artifact as JSON.")] = False,
) -> None:
    """Call one tool and print its result. Exit code 1: the tool failed or the call was denied."""
    session = session_of(context)
    if given is not None and option is not None:
        raise fail("the arguments are given twice; leave one out", ExitCode.USAGE)
    arguments = _arguments(given or option or "{}")
    with provider_of(session) as provider:
        found = find_tool(session, provider, tool)
        _permit(found, arguments, yes=yes)
        message = _run(found, arguments)
    if raw:
        print_json({"status": message.status, "content": message.content, "artifact": message.artifact})
    else:
        say(_text(message.content))
    if message.status == "error":
        raise typer.Exit(ExitCode.FAILED)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = parse(sys.stdin.read() if text == "-" else text)
    except ConfigError as error:
        raise fail(f"the arguments cannot be read: {error}", ExitCode.USAGE) from None
    if not isinstance(value, Mapping):
        raise fail("the arguments must be a JSON object", ExitCode.USAGE)
    return value


def _permit(tool: MCPTool, arguments: Mapping[str, Any], *, yes: bool) -> None:
    decision = tool.decision()
    if decision.effect == "deny":
        raise fail(f"{tool.name} is denied: {decision.reason}")
    if decision.effect == "allow" or yes:
        return
    question = ApprovalRequest.for_tool(tool.info, arguments, reason=decision.reason).text()
    remark(question)
    if not sys.stdin.isatty():
        raise fail(f"{tool.name} needs a confirmation; repeat with --yes", ExitCode.NEEDS_ANSWER)
    if not typer.confirm("Call it?", default=False, err=True):
        raise fail("not called")


def _run(tool: MCPTool, arguments: Mapping[str, Any]) -> Any:
    from codebuddy_mcp_tools.tools.grants import grant  # noqa: PLC0415 - tools import LangChain, which is slow

    with grant([_CALL_ID]):
        return tool.invoke({"type": "tool_call", "id": _CALL_ID, "name": tool.name, "args": dict(arguments)})


def _text(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_block(block) for block in content)


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if block.get("type") == "text":
        return str(block.get("text", ""))
    kind = block.get("mime_type") or "unknown"
    size = len(str(block.get("base64", ""))) * 3 // 4
    return f"[{block.get('type')}: {kind}, {size:,} bytes]" if size else json.dumps(block, ensure_ascii=False)
