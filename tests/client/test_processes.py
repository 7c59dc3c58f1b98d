"""Processes: what cannot be started, and that nothing that was started stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.client.process import describe_exit
from codebuddy_mcp_tools.errors import ConnectError
from codebuddy_mcp_tools.testing import FaultServer
from tests.client.conftest import MakeClient
from tests.client.fake import until

SLEEPER = ["$python", "-c", "import time; time.sleep(600)"]
STUBBORN = ["$python", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups")


def executable(path: Path, content: str, mode: int = 0o755) -> str:
    path.write_text(content)
    path.chmod(mode)
    return str(path)


# -- what cannot be started ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"command": "no-such-cmd-xyz"}, r"^s: command not found: no-such-cmd-xyz$"),
        ({"command": "/no/such/cmd"}, r"^s: command not found: /no/such/cmd$"),
        ({"command": "/tmp"}, "the command is a directory, not a program: /tmp"),
        ({"command": "npx -y pkg"}, 'write "command": "npx", "args": \\["-y", "pkg"\\]'),
        ({"command": "sh", "cwd": "/no/such/folder"}, "the working directory does not exist: /no/such/folder"),
        ({"command": "sh", "args": ["a\0b"]}, "holds a character that no process can be given"),
        ({"command": "x", "env": {"PATH": ""}}, "command not found: x; the server's environment has no PATH"),
        (
            {"command": "docker", "args": ["mcp", "gateway", "run"], "env": {"PATH": "/no/such"}},
            "command not found: docker; 'docker mcp gateway run' needs Docker",
        ),
    ],
)
async def test_the_reason_is_one_line_that_says_what_to_change(
    client_of: MakeClient, entry: dict[str, Any], reason: str
) -> None:
    client = client_of(entry)
    with pytest.raises(ConnectError, match=reason) as caught:
        await client.connect()
    assert "\n" not in str(caught.value)
    assert not caught.value.retryable
    assert client.snapshot().attempts == 1


async def test_a_file_that_is_not_executable_is_named_so(client_of: MakeClient, tmp_path: Path) -> None:
    path = executable(tmp_path / "server", "#!/bin/sh\n", mode=0o644)
    with pytest.raises(ConnectError, match=r"not executable: .*server \(chmod \+x it"):
        await client_of({"command": path}).connect()


async def test_a_script_without_a_first_line_is_named_so(client_of: MakeClient, tmp_path: Path) -> None:
    path = executable(tmp_path / "server", "echo hello\n")
    with pytest.raises(ConnectError, match=r"is no program: .*needs a #! line"):
        await client_of({"command": path}).connect()


async def test_a_script_whose_interpreter_is_missing_is_named_so(client_of: MakeClient, tmp_path: Path) -> None:
    path = executable(tmp_path / "server", "#!/no/such/interpreter\n")
    with pytest.raises(ConnectError, match="names an interpreter in its #! line that does not exist"):
        await client_of({"command": path}).connect()


async def test_a_relative_command_is_looked_for_in_the_working_directory(client_of: MakeClient, tmp_path: Path) -> None:
    executable(tmp_path / "server", "#!/bin/sh\necho started >&2\nexit 9\n")
    with pytest.raises(ConnectError, match=r"exited with code 9.*started"):
        await client_of({"command": "./server", "cwd": str(tmp_path)}).connect()


def test_how_a_process_ended_is_told_in_words() -> None:
    assert describe_exit(0) == "exited with code 0"
    assert describe_exit(-9) == "was ended by SIGKILL"
    assert describe_exit(-200) == "was ended by signal 200"


# -- nothing stays ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "on_start",
    [
        [],
        [{"ignore_eof": True}],
        [{"ignore_eof": True}, {"ignore_sigterm": True}],
        [{"spawn": SLEEPER}],
        [{"spawn": STUBBORN}],
        [{"spawn": STUBBORN}, {"ignore_eof": True}, {"ignore_sigterm": True}],
    ],
    ids=["good", "deaf", "deaf and stubborn", "child", "stubborn child", "all of it"],
)
async def test_closing_ends_the_process_and_its_children(client_of: MakeClient, on_start: list[Any]) -> None:
    with FaultServer({"tools": [], "on_start": on_start}) as server:
        client = client_of(server, timeouts={"close": 0.9})
        await client.connect()
        assert server.alive()
        await client.aclose()
        assert server.alive() == []
        assert client.snapshot().pid is None


async def test_the_children_of_a_crashed_process_are_ended_too(client_of: MakeClient) -> None:
    with FaultServer({"tools": [], "on_start": [{"spawn": SLEEPER}], "on": {"ping": [{"exit": 1}]}}) as server:
        client = client_of(server, timeouts={"close": 0.9}, reconnect_delays=(30.0,), breaker_threshold=1)
        await client.connect()
        with pytest.raises(Exception, match="exited with code 1"):
            await client.ping()
        await until(lambda: server.alive() == [])


async def test_descriptors_are_given_back(client_of: MakeClient) -> None:
    with FaultServer({"tools": []}) as server:
        await _one_session(client_of, server)
        before = _descriptors()
        for _ in range(3):
            await _one_session(client_of, server)
        assert _descriptors() <= before


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


async def _one_session(client_of: MakeClient, server: FaultServer) -> None:
    client = client_of(server)
    await client.connect()
    await client.aclose()


HOST = """
    import asyncio, os, signal, sys
    from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient
    from codebuddy_mcp_tools.config.models import StdioServer

    async def main():
        entry = StdioServer(command=sys.executable, args=["-m", "codebuddy_mcp_tools.testing", sys.argv[1]])
        client = MCPClient(ConnectionSpec("s", entry))
        await client.connect()
        print("connected", flush=True)
        if sys.argv[2] == "leave":
            return
        await asyncio.Event().wait()

    asyncio.run(main())
"""


def host(server: FaultServer, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(HOST), str(server.script_path), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_when_the_host_is_killed_everything_it_started_ends(number: signal.Signals) -> None:
    deaf = [{"ignore_eof": True}, {"ignore_sigterm": True}, {"spawn": SLEEPER}, {"spawn": STUBBORN}]
    with FaultServer({"tools": [], "on_start": deaf}) as server:
        with host(server, "stay") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            assert len(server.alive()) == 3
            process.send_signal(number)
            process.wait()
        await until(lambda: server.alive() == [])


async def test_a_host_that_ends_without_closing_leaves_nothing() -> None:
    with FaultServer({"tools": [], "on_start": [{"spawn": SLEEPER}]}) as server:
        with host(server, "leave") as process:
            process.wait()
            assert process.returncode == 0
        assert server.alive() == []


async def test_no_watcher_stays_when_the_last_server_is_gone(client_of: MakeClient) -> None:
    with FaultServer({"tools": []}) as server:
        one, two = client_of(server), client_of(server)
        await one.connect()
        await two.connect()
        watchers = _children_named("codebuddy-mcp-lifeline")
        assert len(watchers) == 1
        await one.aclose()
        assert _children_named("codebuddy-mcp-lifeline") == watchers
        await two.aclose()
        assert _children_named("codebuddy-mcp-lifeline") == []


def _children_named(name: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if name.encode() in words and parent == str(os.getpid()):
            found.append(int(entry.name))
    return found
