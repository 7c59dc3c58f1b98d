"""`FaultServer`: one script, its temporary directory, and the processes that play it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codebuddy_mcp_tools.testing.errors import ScriptError
from codebuddy_mcp_tools.testing.script import Script
from codebuddy_mcp_tools.testing.state import StateDirectory

POLL = 0.005


class HttpEndpoint:
    """The script served over HTTP by a process of its own; `with` or `async with` it to get the URL.

    Attributes:
        url: where it can be reached, once started.
        port: the port, kept over `restart()`.
    """

    def __init__(self, server: FaultServer, path: str, port: int) -> None:
        self._server = server
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:<port>/mcp` or `/sse`."""
        return f"http://127.0.0.1:{self.port}{self._path}"

    @property
    def pid(self) -> int | None:
        """The process that serves it, or `None`."""
        return self._process.pid if self._process else None

    def start(self) -> str:
        """Start the process and wait until it listens.

        Raises:
            ScriptError: it ended before it listened.
        """
        argv = [sys.executable, *self._server.arguments(), "--http", "--port", str(self.port)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None  # noqa: S101 - narrows the type: it is a pipe
        line = process.stdout.readline()
        self._process = process
        if not line.startswith(b"PORT "):
            self.stop()
            raise ScriptError(f"the server ended with code {process.returncode} before it listened")
        self.port = int(line.split()[1])
        return self.url

    def stop(self) -> None:
        """Kill the process; connections are cut. Does nothing when it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def restart(self) -> str:
        """Kill the process and start another one on the same port: every session is forgotten."""
        self.stop()
        return self.start()

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> str:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_exc: object) -> None:
        await asyncio.to_thread(self.stop)


class FaultServer:
    """A small MCP server that does what a script says. The script's keys and steps are in the module's documentation.

    Args:
        script: the script, plain JSON.
        directory: where script, log and ledger go; a temporary one that is removed at the end, if not given.

    Raises:
        ScriptError: the script says something that does not exist; also at the end of the `with` block when a running
            server met a step that it could not carry out.
    """

    def __init__(self, script: Mapping[str, Any], *, directory: Path | None = None) -> None:
        Script.parse(script)
        self._temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="fault-server-")) if directory is None else directory
        self.state = StateDirectory(str(self.directory))
        self.script_path = self.directory / "script.json"
        self._script: dict[str, Any] = {}
        self._endpoints: list[HttpEndpoint] = []
        self.update(**script)

    def update(self, **changes: Any) -> None:
        """Replace keys of the script: servers that start from now on play the new one."""
        script = {**self._script, **changes}
        Script.parse(script)
        self._script = script
        fresh = self.script_path.with_suffix(".new")
        fresh.write_text(json.dumps(script))
        fresh.replace(self.script_path)

    def arguments(self) -> list[str]:
        """What follows the Python interpreter on the command line."""
        return ["-m", "codebuddy_mcp_tools.testing", str(self.script_path)]

    def stdio_config(self, **extra: Any) -> dict[str, Any]:
        """An entry for `mcpServers`: each session starts a process of its own. `extra` keys are added to the entry."""
        return {"command": sys.executable, "args": self.arguments(), **extra}

    def http(self, port: int = 0) -> HttpEndpoint:
        """The script over streamable HTTP, at `/mcp`; port 0 takes a free one."""
        return self._endpoint("/mcp", port)

    def sse(self, port: int = 0) -> HttpEndpoint:
        """The script over the older HTTP with SSE, at `/sse`."""
        return self._endpoint("/sse", port)

    def _endpoint(self, path: str, port: int) -> HttpEndpoint:
        endpoint = HttpEndpoint(self, path, port)
        self._endpoints.append(endpoint)
        return endpoint

    def log(self) -> list[dict[str, Any]]:
        """Everything that happened so far, in order, over all processes: `event`, `pid`, `time` (seconds) and more.

        Events: `start`, `message` (`message`: what the client sent), `garbage` (`raw`), `connection`, `http` (`method`,
        `target`, `headers`), `spawn` (`child`), `exit` (`code`), `kill` (`signal`), `eof`, `client_gone`,
        `undelivered`, `script_error` (`error`).
        """
        return self.state.log()

    def messages(self, method: str | None = None) -> list[dict[str, Any]]:
        """The JSON-RPC messages received so far, those with this method only if one is given."""
        received = [entry["message"] for entry in self.log() if entry["event"] == "message"]
        return [message for message in received if method is None or message.get("method") == method]

    def calls(self, tool: str | None = None) -> list[dict[str, Any]]:
        """The `tools/call` requests received so far: `name`, `arguments`, `id`, `meta`, `pid`, `time`."""
        found = []
        for entry in self.log():
            message = entry.get("message") or {}
            params = message.get("params") or {}
            if message.get("method") == "tools/call" and tool in (None, params.get("name")):
                found.append({
                    "name": params.get("name"), "arguments": params.get("arguments"), "id": message.get("id"),
                    "meta": params.get("_meta"), "pid": entry["pid"], "time": entry["time"],
                })  # fmt: skip
        return found

    def ledger(self) -> list[str]:
        """The lines that `ledger` steps wrote: what was really done."""
        return self.state.ledger()

    def pids(self) -> list[int]:
        """The ids of all processes that played the script, in the order of their start."""
        return [entry["pid"] for entry in self.log() if entry["event"] == "start"]

    def spawned(self) -> list[int]:
        """The ids of the processes that `spawn` steps started."""
        return [entry["child"] for entry in self.log() if entry["event"] == "spawn"]

    def gate(self, name: str) -> Path:
        """The file that `{"wait_file": name}` waits for and `{"touch": name}` makes; `.touch()` it to open the gate."""
        return self.directory / name

    async def seen(self, method: str, count: int = 1, *, timeout: float = 20.0) -> list[dict[str, Any]]:
        """Wait until so many messages with this method have arrived, and return them.

        Raises:
            TimeoutError: they did not arrive.
        """
        async with asyncio.timeout(timeout):
            while len(found := self.messages(method)) < count:  # noqa: ASYNC110 - another process writes the log
                await asyncio.sleep(POLL)
        return found

    def wait_until_seen(self, method: str, count: int = 1, *, timeout: float = 20.0) -> list[dict[str, Any]]:
        """The same as `seen` for synchronous code."""
        deadline = time.monotonic() + timeout
        while len(found := self.messages(method)) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method}: {len(found)} of {count} after {timeout:g} s")
            time.sleep(POLL)
        return found

    def alive(self) -> list[int]:
        """Those of `pids()` and `spawned()` that still run (a process that has ended but was not reaped does not)."""
        return [pid for pid in self.pids() + self.spawned() if _runs(pid)]

    def close(self) -> None:
        """Stop the HTTP processes and remove the temporary directory. May be called twice."""
        for endpoint in self._endpoints:
            endpoint.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        wrong = [entry["error"] for entry in self.log() if entry["event"] == "script_error"]
        self.close()
        if wrong and kind is None:
            raise ScriptError(f"the running server says: {wrong[0]}")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc/self").exists()
    return state not in ("Z", "X")
