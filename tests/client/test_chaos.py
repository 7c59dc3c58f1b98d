"""Five servers that are killed, stopped, slowed and that talk garbage, with calls all the while.

Afterwards every call has exactly one outcome, and that outcome agrees with what the servers really did: what they wrote
down. The long version runs with `pytest -m soak tests/client/test_chaos.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient, OwnerLoop, Timeouts
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.errors import (
    CallTimeoutError,
    CircuitOpenError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
)
from codebuddy_mcp_tools.testing import FaultServer
from tests.client.fake import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

SERVERS = 5
CALLERS = 4
"""At the same time, for each server."""
DEADLINE = 0.5

WRITE = [{"ledger": "$args"}, {"echo": True}]
SCRIPT = {
    "calls": {
        "write": WRITE,
        "slow_write": [{"sleep": 0.01}, *WRITE],
        "write_and_die": [{"ledger": "$args"}, {"exit": 1}],
        "die_and_never_write": [{"exit": 3}],
        "write_in_noise": [{"raw": "\xff\xfe garbage\n[]\n{\n"}, *WRITE, {"stderr": "words\n", "repeat": 50}],
        "write_and_hang": [{"ledger": "$args"}, {"hang": True}],
        "write_and_garble": [{"ledger": "$args"}, {"raw": '{"jsonrpc":"2.0","id":$id,"result":{"content":[}\n'}],
        "fail": [{"error": {"code": -32602, "message": "bad arguments"}}],
    }
}
WEIGHTS = {
    "write": 60,
    "slow_write": 15,
    "write_in_noise": 8,
    "fail": 6,
    "write_and_garble": 4,
    "write_and_die": 3,
    "die_and_never_write": 2,
    "write_and_hang": 2,
}


@dataclass
class Outcomes:
    """What became of each call of one server: `ok`, `no` (provably not run) or `maybe`."""

    by_call: dict[str, list[str]] = field(default_factory=dict)

    def note(self, call: str, outcome: str) -> None:
        self.by_call.setdefault(call, []).append(outcome)


async def one_call(client: MCPClient, tool: str, call: str, outcomes: Outcomes) -> None:
    """Make one call and note its one outcome; anything that is no error of ours fails the test."""
    try:
        result = await client.call_tool(tool, {"call": call})
    except ConnectionLostError as error:
        outcomes.note(call, "maybe" if error.sent else "no")
    except CallTimeoutError:
        outcomes.note(call, "maybe")
    except (CircuitOpenError, ConnectError):
        outcomes.note(call, "no")
    except ProtocolError as error:
        outcomes.note(call, "maybe" if error.ran else "no")
    else:
        assert call in result.content[0]["text"], "the answer to another call"
        outcomes.note(call, "ok")


async def caller(client: MCPClient, dice: random.Random, calls: list[str], outcomes: Outcomes) -> None:
    tools, weights = list(WEIGHTS), list(WEIGHTS.values())
    while calls:
        (tool,) = dice.choices(tools, weights)
        await one_call(client, tool, calls.pop(), outcomes)


async def tormentor(client: MCPClient, dice: random.Random) -> None:
    """Kill or stop the server's process at random moments, until cancelled."""
    while True:
        await asyncio.sleep(dice.uniform(0.02, 0.3))
        pid = client.snapshot().pid
        if pid is None:
            continue
        if dice.random() < 0.4:
            hit(pid, signal.SIGKILL)
            continue
        hit(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(dice.uniform(0.01, 2 * DEADLINE))
        finally:
            hit(pid, signal.SIGCONT)


def hit(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


async def torment(server: FaultServer, seed: int, count: int) -> tuple[MCPClient, Outcomes]:
    """Run `count` calls against one server in trouble."""
    dice = random.Random(seed)
    spec = ConnectionSpec(
        name=f"s{seed}",
        config=StdioServer(**server.stdio_config()),
        timeouts=Timeouts(connect=10.0, call=DEADLINE, close=1.5, write=DEADLINE, ping=DEADLINE),
        reconnect_delays=(0.01, 0.02, 0.04),
        breaker_threshold=5,
        breaker_cooldown=0.05,
    )
    client, outcomes = MCPClient(spec), Outcomes()
    calls = [f"{seed}-{number}." for number in range(count)]
    trouble = asyncio.create_task(tormentor(client, random.Random(seed)))
    try:
        await asyncio.gather(*(caller(client, dice, calls, outcomes) for _ in range(CALLERS)))
    finally:
        trouble.cancel()
        await asyncio.wait({trouble})
        await client.aclose()
    assert not isinstance(trouble.exception() if not trouble.cancelled() else None, Exception)
    return client, outcomes


def agrees(server: FaultServer, outcomes: Outcomes, count: int) -> Counter[str]:
    """Compare outcomes with what the server wrote down; returns how often each outcome came."""
    written = Counter(server.ledger())
    assert len(outcomes.by_call) == count
    for call, noted in outcomes.by_call.items():
        times = sum(n for line, n in written.items() if f'"{call}"' in line)
        assert len(noted) == 1, f"{call}: {noted}"
        assert times <= 1, f"{call} ran {times} times"
        if noted == ["ok"]:
            assert times == 1, f"{call} is said to have run"
        elif noted == ["no"]:
            assert times == 0, f"{call} is said not to have run"
    return Counter(noted[0] for noted in outcomes.by_call.values())


async def chaos(seed: int, count: int) -> Counter[str]:
    """`count` calls on each of the servers at once, and all the checks."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(FaultServer(SCRIPT)) for _ in range(SERVERS)]
        runs = (torment(server, SERVERS * seed + number, count) for number, server in enumerate(servers))
        finished = await asyncio.gather(*runs)
        total: Counter[str] = Counter()
        for server, (_, outcomes) in zip(servers, finished, strict=True):
            total += agrees(server, outcomes, count)
            assert server.alive() == []
        return total


async def nothing_is_left(before: tuple[int, int]) -> None:
    """No task on the owner loop, no descriptor, no thread and no child that was not there before."""
    await until(lambda: resources() <= before or resources() == before)
    assert await OwnerLoop.shared().run(tasks()) == []
    assert children() == []


def resources() -> tuple[int, int]:
    """Descriptors and threads; the owner loop's own pool, in which processes are started, is bounded and stays."""
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")]
    return len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0, len(threads)


def children() -> list[int]:
    of_threads = Path("/proc/self/task").glob("*/children")
    return [int(pid) for found in of_threads for pid in found.read_text().split()]


async def tasks() -> list[Any]:
    own = asyncio.current_task()
    return [task for task in asyncio.all_tasks() if task is not own]


async def warm_up() -> None:
    """Whatever is made once and stays (the owner thread, its descriptors) is made before anything is counted."""
    await OwnerLoop.shared().run(asyncio.sleep(0))


@pytest.mark.parametrize("seed", [1, 2])
async def test_outcomes_agree_with_what_the_servers_did_and_nothing_is_left(seed: int) -> None:
    await warm_up()
    before = resources()
    outcomes = await chaos(seed, 150)
    assert outcomes["ok"] > outcomes["maybe"] > 0
    await nothing_is_left(before)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_thousand_calls_leave_nothing_and_memory_is_flat() -> None:
    await warm_up()
    before = resources()
    await chaos(100, 200)
    settled = memory()
    for seed in range(101, 111):
        await chaos(seed, 600)
    await nothing_is_left(before)
    assert memory() < settled + 20_000_000


def memory() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
