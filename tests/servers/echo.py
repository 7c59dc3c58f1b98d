"""The smallest server the SDK makes, for benchmarks: one tool that answers with its argument."""

from __future__ import annotations

from mcp.server.fastmcp import FastMCP

from codebuddy_mcp_tools.demo.servers.serving import argument_parser, serve


def build_server() -> FastMCP[None]:
    server: FastMCP[None] = FastMCP("echo", log_level="CRITICAL")

    @server.tool(structured_output=False)
    def echo(text: str) -> str:
        """Answer with the text."""
        return text

    return server


if __name__ == "__main__":
    options = argument_parser("echo").parse_args()
    serve(build_server(), options.transport, options.port)
