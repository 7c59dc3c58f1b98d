"""How the demo servers are started: over stdio, or on loopback over streamable HTTP or SSE.

Over HTTP the first line on stdout is `PORT n`; the server can be reached from then on.
"""

from __future__ import annotations

import argparse
import socket
import sys

from mcp.server.fastmcp import FastMCP


def argument_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all demo servers have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--transport", choices=["stdio", "http", "sse"], default="stdio")
    parser.add_argument("--port", type=int, default=0, help="for http and sse; 0 takes a free one")
    return parser


def serve(server: FastMCP[None], transport: str, port: int) -> None:
    """Serve until the client is done (stdio) or the process is ended (http at `/mcp`, sse at `/sse`)."""
    if transport == "stdio":
        server.run()
        return
    import uvicorn  # noqa: PLC0415 - stdio servers must start fast

    app = server.streamable_http_app() if transport == "http" else server.sse_app()
    with _listener(port) as listener:
        sys.stdout.write(f"PORT {listener.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def _listener(port: int) -> socket.socket:
    # Not `socket.create_server`: asyncio turns Nagle's algorithm off only where it reads TCP as the protocol, and an
    # event stream on a kept connection then waits 40 ms for each acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    return listener
