"""`watch=True`: a running provider follows its configuration files."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.config import ConfigWatcher
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.tools import provider as provider_module
from codebuddy_mcp_tools.types import Exposure


def listing(*names: str) -> dict[str, Any]:
    return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}


def write(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    home = tmp_path / "home"
    (home / ".codebuddy").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(provider_module, "ConfigWatcher", partial(ConfigWatcher, interval=0.02))
    return home


@pytest.fixture
def servers(home) -> Path:
    return home / ".codebuddy" / ".mcp.json"


@pytest.fixture
def rules(home) -> Path:
    return home / ".codebuddy" / "settings.json"


def watching(home: Path, **options: Any) -> ToolProvider:
    return ToolProvider(workspace=home.parent / "project", state_dir=home.parent / "state", watch=True, **options)


class Told(logging.Handler):
    """Waits for what the provider says in its log: a change of a file has no other event."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.said: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.loop.call_soon_threadsafe(self.said.put_nowait, record.getMessage())

    async def wait(self, text: str) -> str:
        async with asyncio.timeout(30):
            while text not in (said := await self.said.get()):
                pass
        return said


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    logger, handler = logging.getLogger("codebuddy_mcp_tools.tools"), Told()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


TAKEN_OVER = "configuration taken over"


async def names(provider: ToolProvider) -> list[str]:
    return [t.name for t in await provider.get_tools_async()]


async def test_a_changed_file_reconnects_only_what_it_concerns_and_announces_the_new_list(home, servers):
    changed = asyncio.Event()
    with FaultServer(listing("one")) as a, FaultServer(listing("two")) as b:
        write(servers, a=a.stdio_config())
        async with watching(home, settings=Settings()) as provider:
            assert await names(provider) == ["mcp__a__one"]
            loop = asyncio.get_running_loop()
            provider.service.subscribe(
                lambda event: loop.call_soon_threadsafe(changed.set) if event.server == "b" else None
            )
            write(servers, a=a.stdio_config(), b=b.stdio_config())
            async with asyncio.timeout(30):
                await changed.wait()
            assert await names(provider) == ["mcp__a__one", "mcp__b__two"]
            assert len(a.pids()) == 1
        assert a.alive() == b.alive() == []


async def test_a_deny_rule_written_while_the_provider_runs_holds_for_its_tools_and_for_those_of_its_views(
    home, servers, rules, told
):
    with FaultServer(listing("one", "two")) as a:
        write(servers, a=a.stdio_config())
        async with watching(home) as provider:
            view = provider.view(tools=["mcp__a__one"])
            held, _ = await provider.get_tools_async()
            (viewed,) = await view.get_tools_async()
            rules.write_text('{"permissions": {"deny": ["mcp__a__one"]}}')
            await told.wait(TAKEN_OVER)
            for tool in (held, viewed):
                message = await tool.ainvoke({"name": tool.name, "args": {}, "id": "1", "type": "tool_call"})
                assert message.status == "error"
                assert "permissions.deny" in message.content
            assert await names(provider) == ["mcp__a__two"]
            assert await names(view) == []
            assert len(a.pids()) == 1


async def test_what_an_entry_says_of_its_tools_is_followed(home, servers, told):
    with FaultServer(listing("one")) as a:
        write(servers, a=a.stdio_config())
        async with watching(home) as provider:
            assert await names(provider) == ["mcp__a__one"]
            assert provider.catalog.levels()["mcp__a__one"] is Exposure.FULL
            write(servers, a={**a.stdio_config(), "defer_loading": True})
            await told.wait(TAKEN_OVER)
            assert provider.catalog.levels()["mcp__a__one"] is Exposure.DEFERRED


async def test_exposure_in_the_settings_is_followed_and_a_modifier_that_cannot_be_read_changes_nothing(
    home, servers, rules, told
):
    with FaultServer(listing("one")) as a:
        write(servers, a=a.stdio_config())
        async with watching(home) as provider:
            await provider.get_tools_async()
            rules.write_text('{"toolExposure": "stub"}')
            await told.wait(TAKEN_OVER)
            assert provider.catalog.levels()["mcp__a__one"] is Exposure.STUB
            rules.write_text('{"toolExposure": "full", "defer": ["Postpone(mcp__a)"]}')
            await told.wait("Postpone(mcp__a)")
            await told.wait(TAKEN_OVER)
            assert provider.catalog.levels()["mcp__a__one"] is Exposure.STUB


@pytest.mark.parametrize("broken", ["servers", "rules"])
async def test_a_file_that_is_broken_in_the_middle_of_an_edit_takes_nothing_away(broken, home, servers, rules, told):
    with FaultServer(listing("one", "two")) as a:
        write(servers, a=a.stdio_config())
        rules.write_text('{"permissions": {"deny": ["mcp__a__one"]}}')
        async with watching(home) as provider:
            assert await names(provider) == ["mcp__a__two"]
            file = {"servers": servers, "rules": rules}[broken]
            file.write_text(file.read_text()[:-2])
            assert str(file) in await told.wait("until it can be read, the configuration stays as it was")
            assert await names(provider) == ["mcp__a__two"]
            rules.write_text('{"permissions": {"deny": ["mcp__a__two"]}}')
            write(servers, a=a.stdio_config())
            await told.wait(TAKEN_OVER)
            assert await names(provider) == ["mcp__a__one"]
