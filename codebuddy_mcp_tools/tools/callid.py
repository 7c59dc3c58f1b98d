"""The id of the tool call that is running, for tools that answer with a message or a command of their own.

LangChain hands it to `run` and `arun`, not to `_run` and `_arun`; asking for it as an injected argument would put a
name of ours among the arguments, and make a plain `tool.invoke({…})` fail.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from langchain_core.tools import BaseTool

call_id: ContextVar[str | None] = ContextVar("codebuddy_mcp_tool_call_id", default=None)
"""`None` when the tool was not called with a tool call."""
state_key: ContextVar[str | None] = ContextVar("codebuddy_mcp_state_key", default="messages")
"""Where the graph that called keeps its messages; `None` when it has no state that a tool could update."""


class KnowsItsCall(BaseTool):
    """A tool whose `_run` and `_arun` can read `call_id`."""

    def run(self, tool_input: str | dict[str, Any], *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        token = call_id.set(tool_call_id)
        try:
            return super().run(tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        finally:
            call_id.reset(token)

    async def arun(
        self, tool_input: str | dict[str, Any], *args: Any, tool_call_id: str | None = None, **kwargs: Any
    ) -> Any:
        token = call_id.set(tool_call_id)
        try:
            return await super().arun(tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        finally:
            call_id.reset(token)
