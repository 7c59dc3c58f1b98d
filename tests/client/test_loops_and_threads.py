"""One session for several event loops, threads, synchronous code; and none for a forked child."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient, OwnerLoop
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.testing import FaultServer

SCRIPT = {
    "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
    "calls": {"t": [{"counter": True}], "wait": [{"wait_file": "gate"}, {"text": "waited"}]},
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(SCRIPT) as server:
        yield server


@pytest.fixture
def client(server: FaultServer) -> Iterator[MCPClient]:
    client = MCPClient(ConnectionSpec("s", StdioServer(**server.stdio_config())))
    yield client
    asyncio.run(client.aclose())


async def count(client: MCPClient) -> str:
    return str((await client.call_tool("t", {})).content[0]["text"])


@pytest.mark.case("B43")
def test_one_session_serves_several_runs_of_asyncio(client: MCPClient, server: FaultServer) -> None:
    assert [asyncio.run(count(client)) for _ in range(3)] == ["1", "2", "3"]
    assert len(server.pids()) == 1


@pytest.mark.case("B43")
def test_one_session_serves_two_threads_at_once(client: MCPClient, server: FaultServer) -> None:
    results: list[str] = []

    def work() -> None:
        for _ in range(20):
            results.append(asyncio.run(count(client)))  # noqa: PERF401

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, results)) == list(range(1, 41))
    assert len(server.pids()) == 1


@pytest.mark.case("B43")
def test_a_second_loop_calls_while_the_first_one_idles_and_after_it_is_closed(client: MCPClient) -> None:
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    assert first.run_until_complete(count(client)) == "1"
    assert second.run_until_complete(count(client)) == "2"
    first.close()
    assert second.run_until_complete(count(client)) == "3"
    second.close()


def test_a_call_waits_in_one_loop_while_another_loop_calls(client: MCPClient, server: FaultServer) -> None:
    results: list[object] = []
    waiting = threading.Thread(target=lambda: results.append(asyncio.run(client.call_tool("wait", {}))))
    waiting.start()
    server.wait_until_seen("tools/call")
    assert asyncio.run(count(client)) == "1"
    server.gate("gate").touch()
    waiting.join()
    assert len(results) == 1


@pytest.mark.case("B41")
def test_synchronous_code_uses_the_same_session(client: MCPClient, server: FaultServer) -> None:
    owner = OwnerLoop.shared()
    assert owner.run_sync(count(client)) == "1"

    async def notebook_cell() -> str:
        return owner.run_sync(count(client))

    assert asyncio.run(notebook_cell()) == "2"
    assert len(server.pids()) == 1


def test_an_interrupted_loop_leaves_the_session_to_the_others(client: MCPClient, server: FaultServer) -> None:
    async def give_up() -> None:
        await client.connect()
        async with asyncio.timeout(0.2):
            await client.call_tool("wait", {})

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    server.wait_until_seen("notifications/cancelled")
    assert asyncio.run(count(client)) == "1"


QUIET = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
"""Newer Pythons warn of every fork beside a thread; what matters here is that nothing else is heard."""

FORK = """
    import asyncio, os, sys
    from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient
    from codebuddy_mcp_tools.config.models import StdioServer

    entry = StdioServer(command=sys.executable, args=["-m", "codebuddy_mcp_tools.testing", sys.argv[1]])
    client = MCPClient(ConnectionSpec("s", entry))

    def call():
        return asyncio.run(client.call_tool("t", {})).content[0]["text"]

    assert call() == "1"
    parent = client.snapshot().pid
    pid = os.fork()
    if pid == 0:
        good = call() == "1" and call() == "2" and client.snapshot().pid != parent
        asyncio.run(client.aclose())
        os._exit(0 if good else 1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert call() == "2", "the parent's session was disturbed"
    assert client.snapshot().pid == parent
    child = os.fork()
    if child == 0:
        import time
        time.sleep(600)      # idle: it must not hold the parent's pipes open
    asyncio.run(client.aclose())
    os.kill(child, 9)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_forked_child_gets_a_process_of_its_own_and_leaves_the_parents_alone(server: FaultServer) -> None:
    command = [sys.executable, *QUIET, "-c", textwrap.dedent(FORK), str(server.script_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(set(server.pids())) == 2
    assert [entry["event"] for entry in server.log()].count("eof") == 2
    assert server.alive() == []
