"""Questions about the files of one folder, as a read-only MCP server.

`python -m codebuddy_mcp_tools.demo.servers.files --root FOLDER [--transport stdio|http|sse] [--port N]`
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

from codebuddy_mcp_tools.demo.servers.serving import argument_parser, serve
from codebuddy_mcp_tools.demo.servers.tree import Hit, Tree

READ = ToolAnnotations(readOnlyHint=True, openWorldHint=False)

Pattern = Annotated[str, Field(description="A glob pattern for the file's name, such as *.md")]


def build_server(tree: Tree) -> FastMCP[None]:
    """The server over a tree."""
    server: FastMCP[None] = FastMCP(
        "files", log_level="WARNING", instructions="Read-only questions about the files of one folder."
    )

    @server.tool(title="List files", annotations=READ)
    def list_files(
        folder: Annotated[str, Field(description="Relative to the root")] = ".",
        pattern: Pattern = "*",
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> list[str]:
        """List the files below a folder."""
        return tree.files(folder, pattern)[:limit]

    @server.tool(title="Read a file", annotations=READ)
    def read_file(
        path: Annotated[str, Field(description="Relative to the root")],
        first_line: Annotated[int, Field(ge=1)] = 1,
        max_lines: Annotated[int, Field(ge=1, le=2000)] = 200,
    ) -> str:
        """Read lines of a text file."""
        return tree.read(path, first_line, max_lines)

    @server.tool(title="Search in files", annotations=READ)
    def search_text(
        text: Annotated[str, Field(min_length=1, description="The text to look for, in any case")],
        pattern: Pattern = "*",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> list[Hit]:
        """Find lines that contain a text."""
        return tree.search(text, pattern, limit)

    return server


def main() -> None:
    """Read the command line and serve."""
    parser = argument_parser("Questions about the files of one folder, as an MCP server")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder; the current one if not given")
    options = parser.parse_args()
    serve(build_server(Tree(options.root)), options.transport, options.port)


if __name__ == "__main__":
    main()
