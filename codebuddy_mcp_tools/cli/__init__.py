"""The command line, `codebuddy-mcp`: looking after servers, and trying their tools.

Policy: Typer and Rich come with the `cli` extra and are imported only here, when a command runs. What a command prints
never holds the value of a variable, header, credential or URL query, and no text of a server acts on the terminal.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

INSTALL = """\
The command line needs Typer and Rich, which are not installed. Install them with

    pip install "codebuddy-mcp-tools[cli]"
"""


def main() -> None:
    """Run the command line of this process; ends it with an exit code (see `codebuddy-mcp --help`)."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.stderr.write(INSTALL)
        raise SystemExit(1)
    from codebuddy_mcp_tools.cli.app import run  # noqa: PLC0415 - not before Typer is known to be there

    run()
