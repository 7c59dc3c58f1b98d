"""What one call costs: `tool.ainvoke` against the raw `ClientSession.call_tool`, in the same run.

`python -m tests.benchmarks.calls [--rounds N] [--calls N]` prints, for stdio and http: milliseconds per call one after
another, calls per second of 32 callers, microseconds of client CPU per call, and for http the connections per call;
each with its ratio to the raw SDK. langchain-mcp-adapters on a held session stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.benchmarks.measure import Sample, Work, interleaved, one_by_one, table, together
from tests.servers.listening import saying_port

CALLERS = 32
ARGUMENTS = {"text": "hello"}
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
ECHO_SERVER = [sys.executable, "-m", "tests.servers.echo"]


@asynccontextmanager
async def session_of(entry: Mapping[str, Any]) -> AsyncIterator[ClientSession]:
    """A raw SDK session for an `mcpServers` entry."""
    if "command" in entry:
        opened: Any = stdio_client(StdioServerParameters(command=entry["command"], args=list(entry["args"])))
    else:
        opened = streamable_http_client(entry["url"])
    async with opened as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


@asynccontextmanager
async def ways_to_call(entry: Mapping[str, Any]) -> AsyncIterator[dict[str, Work]]:
    """The same call, three ways, each on a session of its own that is open already."""
    async with AsyncExitStack() as stack:
        raw = await stack.enter_async_context(session_of(entry))
        held = await stack.enter_async_context(session_of(entry))
        (theirs,) = [tool for tool in await load_mcp_tools(held) if tool.name == "echo"]
        provider = await stack.enter_async_context(ToolProvider({"bench": entry}))
        (ours,) = [tool for tool in await provider.get_tools_async() if tool.name == "mcp__bench__echo"]
        checked = await ours.ainvoke(ARGUMENTS)
        if "hello" not in str(checked):
            raise RuntimeError(f"the echo server did not answer: {checked}")
        yield {
            "raw SDK": lambda: raw.call_tool("echo", ARGUMENTS),
            "this package": lambda: ours.ainvoke(ARGUMENTS),
            "langchain-mcp-adapters": lambda: theirs.ainvoke(ARGUMENTS),
        }


async def compare(entry: Mapping[str, Any], rounds: int, calls: int) -> list[list[str]]:
    """One row for each way."""
    async with ways_to_call(entry) as ways:
        alone = await interleaved({name: one_by_one(call, calls) for name, call in ways.items()}, rounds)
        many = await interleaved({name: together(call, calls * 2, CALLERS) for name, call in ways.items()}, rounds)
    return [_row(name, alone, many, calls) for name in ways]


def _row(name: str, alone: Mapping[str, Sample], many: Mapping[str, Sample], calls: int) -> list[str]:
    one, all_at_once = alone[name], many[name]
    raw_one, raw_all = alone["raw SDK"], many["raw SDK"]
    done = calls * 2 // CALLERS * CALLERS
    return [
        name,
        f"{one.wall / calls * 1e3:.2f}",
        f"{one.wall / raw_one.wall:.2f}x",
        f"{done / all_at_once.wall:.0f}",
        f"{raw_all.wall / all_at_once.wall:.2f}x",
        f"{one.cpu / calls * 1e6:.0f}",
        f"{one.cpu / raw_one.cpu:.2f}x",
    ]


async def connections(calls: int) -> list[list[str]]:
    """Connections that a server which answers by SSE sees for each call."""
    rows = []
    for name in ("raw SDK", "this package", "langchain-mcp-adapters"):
        script = {"tools": [ECHO], "calls": {"echo": [{"echo": True}]}}
        with FaultServer(script) as server, server.http() as url:
            async with ways_to_call({"url": url}) as ways:
                before = _connections(server)
                await one_by_one(ways[name], calls)()
                rows.append([name, f"{(_connections(server) - before) / calls:.2f}"])
    return rows


def _connections(server: FaultServer) -> int:
    return sum(entry["event"] == "connection" for entry in server.log())


async def main(rounds: int, calls: int) -> None:
    """Measure and print."""
    columns = ["", "ms/call", "ratio", f"calls/s, {CALLERS} callers", "ratio", "CPU us/call", "ratio"]
    entry: dict[str, Any] = {"command": ECHO_SERVER[0], "args": ECHO_SERVER[1:]}
    print(table("stdio", columns, await compare(entry, rounds, calls)), "\n")
    with saying_port([*ECHO_SERVER, "--transport", "http"]) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        print(table("http, answers by SSE", columns, await compare({"url": url}, rounds, calls)), "\n")
    print(table("http, answers by SSE: connections", ["", "per call"], await connections(calls)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    asyncio.run(main(options.rounds, options.calls))
