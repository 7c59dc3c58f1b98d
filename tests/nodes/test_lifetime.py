"""An agent that nobody refers to any more is collected with its provider, as when a notebook cell is run again."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes.scenarios import GO, TOOLS, answers, call, model, turn, with_state


async def used(place: Any, entry: dict[str, Any], folder: Any, *, sync: bool) -> weakref.ref[ToolProvider]:
    """Let an agent make its calls, the first of which connects, and keep nothing of it."""
    provider = ToolProvider({"s": entry}, state_dir=folder)
    turns = [turn(call("read", "1"), call("write", "2")), turn(call("read", "3")), "done"]
    graph = place(model(*turns), provider)
    state = graph.invoke(GO) if sync else await graph.ainvoke(GO)
    assert [message.status for message in answers(state)] == ["success"] * 3
    return weakref.ref(provider)


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
@with_state
async def test_an_agent_that_was_used_is_collected(place, sync, transport, tmp_path):
    with FaultServer({"tools": TOOLS}) as server:
        if transport == "stdio":
            provider = await used(place, server.stdio_config(), tmp_path, sync=sync)
        else:
            async with server.http() if transport == "http" else server.sse() as url:
                provider = await used(place, {"type": transport, "url": url}, tmp_path, sync=sync)
        gc.collect()
        assert provider() is None
