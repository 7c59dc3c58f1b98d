"""A provider that was not closed ends its processes when nobody can reach it any more, and not before."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="waits for the end of a process with pidfd_open")
SCRIPT: dict[str, Any] = {
    "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
    "calls": {"t": [[{"text": "x"}]]},
}


async def started(server: FaultServer, state_dir: Path, **options: Any) -> ToolProvider:
    provider = ToolProvider({"s": server.stdio_config()}, state_dir=state_dir, **options)
    await provider.get_tools_async()
    return provider


async def ended(*pids: int) -> None:
    """Wait until these processes have ended."""
    async with asyncio.timeout(30):
        await asyncio.gather(*map(end_of, pids))


async def end_of(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # ended, and its status collected
        return
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


async def test_making_a_provider_again_ends_the_processes_of_the_one_before(tmp_path):
    with FaultServer(SCRIPT) as server:
        provider = await started(server, tmp_path)
        (first,) = server.pids()
        provider = await started(server, tmp_path)
        gc.collect()
        await ended(first)
        (tool,) = await provider.get_tools_async()
        assert "x" in await tool.ainvoke({})
        assert len(server.pids()) == 2
        await provider.aclose()


async def test_a_provider_that_follows_its_files_ends_as_well(tmp_path):
    with FaultServer(SCRIPT) as server:
        provider = await started(server, tmp_path, workspace=tmp_path, settings=Settings(), watch=True)
        del provider
        gc.collect()
        await ended(*server.pids())


async def test_a_tool_keeps_the_session_it_needs(tmp_path):
    with FaultServer(SCRIPT) as server:
        (tool,) = await (await started(server, tmp_path)).get_tools_async()
        gc.collect()
        assert "x" in await tool.ainvoke({})
        assert len(server.pids()) == 1
        pid = server.pids()[0]
        del tool
        gc.collect()
        await ended(pid)


async def test_a_view_keeps_the_sessions_of_the_provider_it_was_made_from(tmp_path):
    with FaultServer(SCRIPT) as server:
        view = (await started(server, tmp_path)).view(servers=["s"])
        gc.collect()
        (tool,) = await view.get_tools_async()
        assert "x" in await tool.ainvoke({})
        assert len(server.pids()) == 1
        del view, tool
        gc.collect()
        await ended(*server.pids())


def test_a_provider_that_never_connected_goes_without_a_trace(tmp_path):
    with FaultServer(SCRIPT) as server:
        ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path)
        gc.collect()
        assert server.pids() == []


def test_each_run_of_a_cell_may_have_an_event_loop_of_its_own(tmp_path):
    with FaultServer(SCRIPT) as server:
        for _ in range(2):
            provider = asyncio.run(started(server, tmp_path))
        gc.collect()
        asyncio.run(ended(server.pids()[0]))
        assert provider.get_tools()[0].invoke({})
        assert len(server.pids()) == 2
        provider.close()
