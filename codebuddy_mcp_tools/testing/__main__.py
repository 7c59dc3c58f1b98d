"""`python -m codebuddy_mcp_tools.testing SCRIPT [--http] [--port N]`: play a script; log and ledger go beside it."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from codebuddy_mcp_tools.testing.errors import ScriptError
from codebuddy_mcp_tools.testing.protocol import Protocol
from codebuddy_mcp_tools.testing.script import Script
from codebuddy_mcp_tools.testing.state import StateDirectory

USAGE = "usage: python -m codebuddy_mcp_tools.testing SCRIPT.json [--http] [--port N]"


def main(arguments: list[str]) -> None:
    """Play the script until the client is done. Wrong usage and wrong scripts end with one line and code 2."""
    port = 0
    rest = list(arguments)
    try:
        if "--port" in rest:
            at = rest.index("--port")
            port = int(rest[at + 1])
            del rest[at : at + 2]
        over_http = "--http" in rest
        (name,) = [word for word in rest if word != "--http"]
    except (ValueError, IndexError):
        _refuse(USAGE)
    path = os.path.realpath(name)
    try:
        protocol = Protocol(Script.load(path), StateDirectory(os.path.dirname(path)))
    except ScriptError as error:
        _refuse(str(error))
    # Each transport is imported only when it is used: a stdio server must start fast.
    if over_http:
        from codebuddy_mcp_tools.testing import web  # noqa: PLC0415

        web.serve(protocol, port)
    else:
        from codebuddy_mcp_tools.testing import stdio  # noqa: PLC0415

        stdio.serve(protocol)


def _refuse(line: str) -> NoReturn:
    sys.stderr.write(f"{line}\n")
    raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
