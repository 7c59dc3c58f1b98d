"""How long it takes from nothing to listed tools: a provider against raw SDK sessions opened at the same time.

`python -m tests.benchmarks.loading [--rounds N] [--servers 1 5 20]` prints milliseconds and ratios over stdio (servers
that start fast, and servers written with the SDK) and http, and what a hanging server costs those who do not need it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.benchmarks.calls import ECHO_SERVER, session_of
from tests.benchmarks.measure import interleaved, table, timed

SCRIPT = {"tools": [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(10)]}
Entries = Mapping[str, Mapping[str, Any]]


async def raw(entries: Entries) -> None:
    """Open all sessions at once, list, close."""

    async def one(entry: Mapping[str, Any]) -> None:
        async with session_of(entry) as session:
            await session.list_tools()

    await asyncio.gather(*(one(entry) for entry in entries.values()))


async def ours(entries: Entries) -> None:
    """The same through a provider."""
    async with ToolProvider(entries) as provider:
        tools = await provider.get_tools_async()
    if len(tools) < len(entries):
        raise RuntimeError(f"only {len(tools)} tools from {len(entries)} servers")


@contextmanager
def light(count: int) -> Iterator[Entries]:
    """Servers over stdio that start fast."""
    with FaultServer(SCRIPT) as server:
        yield {f"s{n}": server.stdio_config() for n in range(count)}


@contextmanager
def sdk(count: int) -> Iterator[Entries]:
    """Servers over stdio that are written with the SDK."""
    yield {f"s{n}": {"command": sys.executable, "args": ECHO_SERVER[1:]} for n in range(count)}


@contextmanager
def http(count: int) -> Iterator[Entries]:
    """Servers over http, all running already."""
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer(SCRIPT))
        yield {f"s{n}": {"url": stack.enter_context(server.http())} for n in range(count)}


async def compare(kind: Any, rounds: int, counts: Sequence[int]) -> list[list[str]]:
    """One row for each number of servers."""
    rows = []
    for count in counts:
        with kind(count) as entries:
            ways = {"raw": lambda e=entries: raw(e), "ours": lambda e=entries: ours(e)}
            taken = await interleaved(ways, rounds)
        wall = [taken[name].wall for name in ("raw", "ours")]
        rows.append([str(count), *(f"{seconds * 1e3:.0f}" for seconds in wall), f"{wall[1] / wall[0]:.2f}x"])
    return rows


async def beside_a_hanging_server() -> list[list[str]]:
    """Three good servers next to one that never answers."""
    hanging = FaultServer({"init": [{"hang": True}]})
    async with AsyncExitStack() as stack:
        stack.enter_context(hanging)
        entries = dict(stack.enter_context(light(3)))
        entries["silent"] = hanging.stdio_config(timeout=2000)
        provider = await stack.enter_async_context(ToolProvider(entries))
        one = await timed(lambda: provider.get_tools_async("s0"))
        rest = await timed(provider.get_tools_async)
    return [["tools of one good server", f"{one.wall * 1e3:.0f}"], ["all tools", f"{rest.wall * 1e3:.0f}"]]


async def main(rounds: int, counts: Sequence[int]) -> None:
    """Measure and print."""
    columns = ["servers", "raw SDK ms", "this package ms", "ratio"]
    print(table("stdio, servers that start fast", columns, await compare(light, rounds, counts)), "\n")
    print(table("stdio, servers written with the SDK", columns, await compare(sdk, max(1, rounds // 3), counts)), "\n")
    print(table("http", columns, await compare(http, rounds, counts)), "\n")
    title = "beside a server that hangs at start (its start timeout is 2 s)"
    print(table(title, ["", "ms"], await beside_a_hanging_server()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 5, 20])
    options = parser.parse_args()
    asyncio.run(main(options.rounds, options.servers))
