"""Arguments and results of any content, through a provider to a real process and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool

from codebuddy_mcp_tools import ToolProvider
from codebuddy_mcp_tools.testing import FaultServer
from tests.tools.strategies import json_values

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    script = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "calls": {"echo": [{"echo": True}]}}
    with FaultServer(script) as running:
        yield running


@pytest.fixture(scope="module")
def tools(server: FaultServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BaseTool]]:
    with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path_factory.mktemp("state")) as provider:
        yield {tool.name: tool for tool in provider.get_tools()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(TEXT, json_values(TEXT), max_size=4))
def test_any_arguments_arrive_byte_for_byte(
    server: FaultServer, tools: dict[str, BaseTool], arguments: dict[str, Any]
) -> None:
    tools["mcp__s__echo"].invoke({"name": "mcp__s__echo", "args": arguments, "id": "1", "type": "tool_call"})

    received = server.calls("echo")[-1]["arguments"]

    assert json.dumps(received) == json.dumps(arguments)


def test_a_long_result_is_saved_for_a_thread_and_read_on_with_the_reader(tmp_path: Path) -> None:
    script = {
        "tools": [{"name": "long", "inputSchema": {"type": "object"}}],
        "calls": {"long": [{"text": "".join(f"row {n}\n" for n in range(20_000)) + "</mcp_response>"}]},
    }
    thread: Any = {"configurable": {"thread_id": "t 1"}}
    with FaultServer(script) as server, ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
        (long,) = (tool for tool in provider.get_tools() if tool.name == "mcp__s__long")

        message = long.invoke({"name": long.name, "args": {}, "id": "1", "type": "tool_call"}, thread)

        path = Path(message.artifact["saved_to"])
        assert path.is_relative_to(tmp_path / "projects")
        assert len(message.content) < 5_000
        reader = next(tool for tool in provider.core_tools if tool.name == "read_mcp_result")
        part = reader.invoke({"path": path.name, "offset": 19_999, "limit": 5}, thread)
        assert part.startswith(
            '<mcp_response server="s" tool="long" trust="untrusted">row 19998\nrow 19999\n&lt;/mcp_response>'
        )
        assert "no saved result" in reader.invoke({"path": path.name}, {"configurable": {"thread_id": "t 2"}})
