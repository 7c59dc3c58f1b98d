"""The reference servers of the MCP project: three from npm, one in a Python environment of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from codebuddy_mcp_tools import ClientState, ToolProvider
from tests.servers import own_environment
from tests.servers.listening import on_free_port
from tests.servers.npm import Servers


async def call(provider: ToolProvider, name: str, **arguments: Any) -> ToolMessage:
    (tool,) = [tool for tool in await provider.get_tools_async() if tool.name == name]
    message = await tool.ainvoke({"name": name, "args": arguments, "id": "c1", "type": "tool_call"})
    assert isinstance(message, ToolMessage)
    return message


@pytest.fixture(params=["stdio", "sse", "streamableHttp"])
def everything(request: pytest.FixtureRequest, npm_servers: Servers) -> Iterator[dict[str, Any]]:
    """server-everything as an `mcpServers` entry."""
    if request.param == "stdio":
        yield npm_servers.config("everything", "stdio")
        return
    with on_free_port(npm_servers.command("everything", request.param)) as port:
        path = "sse" if request.param == "sse" else "mcp"
        yield {"type": request.param.lower().removeprefix("streamable"), "url": f"http://127.0.0.1:{port}/{path}"}


@pytest.fixture
async def provider(everything: dict[str, Any]) -> AsyncIterator[ToolProvider]:
    async with ToolProvider({"everything": everything}) as provider:
        yield provider


@pytest.mark.npm
class TestServerEverything:
    async def test_text_numbers_and_structured_content_arrive(self, provider: ToolProvider) -> None:
        echo = await call(provider, "mcp__everything__echo", message="héllo 👋")
        assert "héllo 👋" in echo.text
        total = await call(provider, "mcp__everything__get-sum", a=2, b=40)
        assert "42" in total.text
        weather = await call(provider, "mcp__everything__get-structured-content", location="Chicago")
        assert weather.artifact["structured_content"]["temperature"]

    async def test_an_image_stays_an_image_beside_its_text(self, provider: ToolProvider) -> None:
        message = await call(provider, "mcp__everything__get-tiny-image")
        assert isinstance(message.content, list)
        kinds = [block["type"] for block in message.content if isinstance(block, dict)]
        assert "image" in kinds
        assert str(message.content[0]["text"]).startswith("<mcp_response ")

    async def test_resources_and_links_are_named_to_the_model(self, provider: ToolProvider) -> None:
        links = await call(provider, "mcp__everything__get-resource-links", count=2)
        assert "demo://resource" in links.text
        resources = await provider.resources("everything")
        assert any(not resource.is_template for resource in resources)

    async def test_a_long_call_with_progress_is_answered(self, provider: ToolProvider) -> None:
        message = await call(provider, "mcp__everything__trigger-long-running-operation", duration=1, steps=4)
        assert message.status == "success"

    async def test_prompts_are_rendered_with_their_arguments(self, provider: ToolProvider) -> None:
        names = [command.name for command in await provider.commands()]
        assert "/everything:args-prompt" in names
        messages = await provider.run_command("/everything:args-prompt", {"city": "Paris", "state": "Texas"})
        assert "Paris" in str(messages[0].text)

    async def test_the_status_is_good(self, provider: ToolProvider) -> None:
        await provider.get_tools_async()
        (status,) = provider.status()
        assert status.state is ClientState.CONNECTED
        assert status.tools_total > 8


@pytest.mark.npm
class TestServerFilesystem:
    @pytest.fixture
    async def provider(self, npm_servers: Servers, tmp_path: Path) -> AsyncIterator[ToolProvider]:
        (tmp_path / "a.txt").write_text("first\nsecond\n")
        entry = npm_servers.config("filesystem", str(tmp_path))
        async with ToolProvider({"fs": entry}) as provider:
            yield provider

    @pytest.mark.case("B04")
    async def test_a_null_for_an_optional_argument_is_left_out(self, provider: ToolProvider, tmp_path: Path) -> None:
        message = await call(provider, "mcp__fs__read_text_file", path=str(tmp_path / "a.txt"), head=None)
        assert message.status == "success"
        assert "second" in message.text

    async def test_a_file_is_written_and_read_back(self, provider: ToolProvider, tmp_path: Path) -> None:
        path = str(tmp_path / "b.txt")
        written = await call(provider, "mcp__fs__write_file", path=path, content="third")
        assert written.artifact["effect"] == "write"
        assert "third" in (await call(provider, "mcp__fs__read_text_file", path=path)).text

    @pytest.mark.case("B16")
    async def test_a_sound_file_ends_in_no_exception(self, provider: ToolProvider, tmp_path: Path) -> None:
        (tmp_path / "a.wav").write_bytes(b"RIFF\x24\x00\x00\x00WAVE")
        message = await call(provider, "mcp__fs__read_media_file", path=str(tmp_path / "a.wav"))
        assert message.status == "success"
        assert "audio" in str(message.content)

    async def test_what_lies_outside_is_refused_by_the_server(self, provider: ToolProvider) -> None:
        message = await call(provider, "mcp__fs__read_text_file", path="/etc/hostname")
        assert message.status == "error"


@pytest.mark.npm
async def test_server_memory_keeps_what_it_is_told(npm_servers: Servers, tmp_path: Path) -> None:
    entry = npm_servers.config("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}
    async with ToolProvider({"memory": entry}) as provider:
        await call(provider, "mcp__memory__create_entities", entities=[entity])
    async with ToolProvider({"memory": entry}) as provider:
        graph = await call(provider, "mcp__memory__read_graph")
    assert graph.artifact["structured_content"]["entities"][0]["name"] == "Ada"


async def test_a_server_built_on_the_next_sdk_fits_the_wire() -> None:
    entry = own_environment.config("mcp-server-time", "mcp_server_time", "--local-timezone", "Europe/Berlin")
    async with ToolProvider({"time": entry}) as provider:
        now = await call(provider, "mcp__time__get_current_time", timezone="Asia/Tokyo")
        assert "Asia/Tokyo" in now.text
        wrong = await call(provider, "mcp__time__get_current_time", timezone="Nowhere/At_All")
        assert wrong.status == "error"


async def test_servers_that_cannot_work_cost_only_their_own_tools() -> None:
    servers = {
        "missing": {"command": "no-such-cmd-xyz"},
        "down": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "good": own_environment.config("mcp-server-time", "mcp_server_time"),
    }
    async with ToolProvider(servers) as provider:
        tools = await provider.get_tools_async()
        status = {status.name: status for status in provider.status()}
    assert {tool.metadata["serverName"] for tool in tools if tool.metadata} == {"good"}
    assert "no-such-cmd-xyz" in str(status["missing"].message)
    assert len(str(status["down"].message).splitlines()) == 1
