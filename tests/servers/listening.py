"""Servers that listen: started as a process, waited for without guessing, ended with the block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SHIPPED = {
    "tasks": ("codebuddy_mcp_tools.demo.servers.tasks", "--sample"),
    "files": ("codebuddy_mcp_tools.demo.servers.files",),
}


@contextmanager
def shipped(name: str, transport: str, *arguments: str) -> Iterator[str]:
    """The URL of one of the package's own servers over `"http"` or `"sse"`."""
    module, *fixed = SHIPPED[name]
    with saying_port([sys.executable, "-m", module, *fixed, *arguments, "--transport", transport]) as port:
        yield f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else 'sse'}"


@contextmanager
def saying_port(command: Sequence[str]) -> Iterator[int]:
    """A server that prints `PORT n` as its first line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("PORT "):
                raise RuntimeError(f"{command[0]} ended before it listened")
            yield int(line.split()[1])
        finally:
            process.kill()


@contextmanager
def on_free_port(command: Sequence[str], timeout: float = 60) -> Iterator[int]:
    """A server that takes its port from the environment variable `PORT`; waits until it accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env={**os.environ, "PORT": str(port)}, **quiet) as process:
        try:
            _wait_until_open(port, process, time.monotonic() + timeout)
            yield port
        finally:
            process.kill()


def _wait_until_open(port: int, process: subprocess.Popen[bytes], deadline: float) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
