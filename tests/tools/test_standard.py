"""LangChain's own standard suites, on a tool of a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from codebuddy_mcp_tools import ToolProvider

SERVER = {"command": sys.executable, "args": ["-m", "codebuddy_mcp_tools.demo.servers.tasks", "--sample"]}


class OnTheTaskList:
    tool_of_server: ClassVar[BaseTool]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def provider(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with ToolProvider({"tasks": SERVER}, state_dir=tmp_path_factory.mktemp("state")) as provider:
            tools = {tool.name: tool for tool in provider.get_tools()}
            cls.tool_of_server = tools["mcp__tasks__search_tasks"]
            yield

    @property
    def tool_constructor(self) -> BaseTool:
        return self.tool_of_server

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"text": "readme", "status": "open"}


class TestUnit(OnTheTaskList, ToolsUnitTests):
    pass


class TestIntegration(OnTheTaskList, ToolsIntegrationTests):
    pass
