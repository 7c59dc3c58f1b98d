"""`watch=True`: a running provider follows its configuration files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.testing import FaultServer


def listing(*names: str) -> dict[str, Any]:
    return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}


def write(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}))


async def test_a_changed_file_reconnects_only_what_it_concerns_and_announces_the_new_list(tmp_path, monkeypatch):
    home, workspace = tmp_path / "home", tmp_path / "project"
    (home / ".codebuddy").mkdir(parents=True)
    workspace.mkdir()
    monkeypatch.setenv("HOME", str(home))
    file = Path(home / ".codebuddy" / ".mcp.json")
    changed = asyncio.Event()
    with FaultServer(listing("one")) as a, FaultServer(listing("two")) as b:
        write(file, a=a.stdio_config())
        provider = ToolProvider(workspace=workspace, settings=Settings(), state_dir=tmp_path / "state", watch=True)
        async with provider:
            assert [t.name for t in await provider.get_tools_async()] == ["mcp__a__one"]
            loop = asyncio.get_running_loop()
            provider.service.subscribe(
                lambda event: loop.call_soon_threadsafe(changed.set) if event.server == "b" else None
            )
            write(file, a=a.stdio_config(), b=b.stdio_config())
            async with asyncio.timeout(30):
                await changed.wait()
            assert [t.name for t in await provider.get_tools_async()] == ["mcp__a__one", "mcp__b__two"]
            assert len(a.pids()) == 1
        assert a.alive() == b.alive() == []
