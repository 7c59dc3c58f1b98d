"""The package's own servers over every transport, through the provider."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from codebuddy_mcp_tools import ClientState, ToolProvider
from tests.servers.listening import shipped


@pytest.fixture(params=["stdio", "http", "sse"])
def entry(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The task list as an `mcpServers` entry."""
    if request.param == "stdio":
        yield {"command": sys.executable, "args": ["-m", "codebuddy_mcp_tools.demo.servers.tasks", "--sample"]}
        return
    with shipped("tasks", request.param) as url:
        yield {"type": request.param, "url": url}


@pytest.fixture
async def provider(entry: dict[str, Any]) -> AsyncIterator[ToolProvider]:
    async with ToolProvider({"tasks": entry}) as provider:
        yield provider


async def tools_of(provider: ToolProvider) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in await provider.get_tools_async()}


async def test_tools_are_listed_and_called(provider: ToolProvider) -> None:
    tools = await tools_of(provider)
    assert set(tools) == {
        f"mcp__tasks__{name}"
        for name in (
            "list_tasks",
            "search_tasks",
            "get_task",
            "add_task",
            "update_task",
            "complete_task",
            "delete_task",
        )
    }
    call = {"name": "mcp__tasks__add_task", "args": {"title": "x"}, "id": "c1", "type": "tool_call"}
    message = await tools["mcp__tasks__add_task"].ainvoke(call)
    assert isinstance(message, ToolMessage)
    assert message.status == "success"
    assert message.text.startswith('<mcp_response server="tasks" tool="add_task" trust="untrusted">')
    assert message.artifact["structured_content"]["title"] == "x"
    assert (message.artifact["effect"], message.artifact["outcome"]) == ("write", "ok")


async def test_the_session_is_kept_from_call_to_call(provider: ToolProvider) -> None:
    tools = await tools_of(provider)
    for number in range(4, 7):  # an in-memory database: it lives as long as its process
        message = await tools["mcp__tasks__add_task"].ainvoke(
            {"name": "mcp__tasks__add_task", "args": {"title": f"t{number}"}, "id": "c", "type": "tool_call"}
        )
        assert message.artifact["structured_content"]["id"] == number


async def test_many_callers_share_the_session(provider: ToolProvider) -> None:
    tool = (await tools_of(provider))["mcp__tasks__get_task"]
    answers = await asyncio.gather(*(tool.ainvoke({"task_id": 1 + n % 3}) for n in range(30)))
    assert len(set(answers)) == 3


async def test_a_failing_tool_is_an_error_message_with_the_servers_words(provider: ToolProvider) -> None:
    tool = (await tools_of(provider))["mcp__tasks__get_task"]
    message = await tool.ainvoke({"name": tool.name, "args": {"task_id": 99}, "id": "c1", "type": "tool_call"})
    assert message.status == "error"
    assert "there is no task 99" in message.text
    assert message.artifact["outcome"] == "tool_error"


async def test_wrong_arguments_are_refused_before_they_are_sent(provider: ToolProvider) -> None:
    tool = (await tools_of(provider))["mcp__tasks__get_task"]
    message = await tool.ainvoke({"name": tool.name, "args": {"task_id": "first"}, "id": "c1", "type": "tool_call"})
    assert message.status == "error"
    assert message.artifact["outcome"] == "not_run"


async def test_prompts_are_commands_and_resources_are_read(provider: ToolProvider) -> None:
    assert [command.name for command in await provider.commands()] == ["/tasks:plan_day"]
    (message,) = await provider.run_command("/tasks:plan_day", {"day": "Monday"})
    assert "Plan Monday" in str(message.text)
    assert "tasks://open" in [resource.uri for resource in await provider.resources("tasks")]
    (blob,) = await provider.read_resource("tasks", "tasks://open")
    assert "Write the quick start" in blob.as_string()


async def test_the_status_tells_what_is_connected(provider: ToolProvider) -> None:
    await provider.get_tools_async()
    (status,) = provider.status()
    assert status.state is ClientState.CONNECTED
    assert (status.tools_total, status.message) == (7, None)
    assert status.server_info is not None
    assert status.server_info.name == "tasks"


def test_synchronous_code_gets_and_calls_tools(entry: dict[str, Any]) -> None:
    with ToolProvider({"tasks": entry}) as provider:
        (tool,) = [tool for tool in provider.get_tools() if tool.name == "mcp__tasks__list_tasks"]
        assert "quick start" in str(tool.invoke({}))
