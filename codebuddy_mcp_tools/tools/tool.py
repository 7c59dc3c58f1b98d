"""`MCPTool`: one MCP tool as a LangChain tool.

Policy: the arguments of a call belong to the server. They travel as one mapping from the model to the server, so
that no name in them (`config`, `run_manager`, `self`, `runtime`, …) can be taken for a parameter of LangChain's.
Every failure is an answer the model can read; only cancellation and LangGraph's own control flow are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, PrivateAttr

from codebuddy_mcp_tools.config import ServerConfig
from codebuddy_mcp_tools.policy import Decision
from codebuddy_mcp_tools.tools.arguments import ArgumentChecker
from codebuddy_mcp_tools.tools.callid import KnowsItsCall, call_id
from codebuddy_mcp_tools.types import ToolInfo

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.call import CallPath
    from codebuddy_mcp_tools.tools.replies import Reply


class _AnyArguments(BaseModel):
    """Stands for the arguments of any MCP tool where LangChain wants a model class; the real check is ours.

    One class for all tools: making a model of each schema would cost `ToolNode` half a second at 1,000 tools.
    """

    model_config = ConfigDict(extra="allow")


class MCPTool(KnowsItsCall, StructuredTool):
    """One tool of an MCP server.

    `args_schema` is the JSON schema that is bound to models; a call is checked against the server's own schema.
    `metadata` has `serverName`, `toolName`, `readOnly`, `effect` and `mcp`. Made by `ToolProvider`.
    """

    _info: ToolInfo = PrivateAttr()
    _server_config: ServerConfig = PrivateAttr()
    _path: CallPath = PrivateAttr()
    _checker: ArgumentChecker = PrivateAttr()

    @classmethod
    def wrap(cls, info: ToolInfo, *, server_config: ServerConfig, path: CallPath, **fields: Any) -> MCPTool:
        """Make the tool for one listed tool; `fields` are those of `StructuredTool`."""
        tool = cls(
            response_format="content_and_artifact",
            handle_tool_error=True,
            **fields,
        )
        tool._info = info
        tool._server_config = server_config
        tool._path = path
        tool._checker = ArgumentChecker(info.input_schema)
        return tool

    @property
    def info(self) -> ToolInfo:
        """The tool as its server lists it."""
        return self._info

    @property
    def server_config(self) -> ServerConfig:
        """The entry of its server, unexpanded."""
        return self._server_config

    @property
    def checker(self) -> ArgumentChecker:
        """Checks arguments against the server's own schema; compiled at the first call."""
        return self._checker

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of this tool's calls: that its schema is too large to be checked in full."""
        return (self._checker.note,) if self._checker.note else ()

    def decision(self) -> Decision:
        """What the permission rules say of this tool now."""
        return self._path.decide(self._info)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:  # noqa: ARG002
        return _AnyArguments

    def get_input_jsonschema(self, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        return cast("dict[str, Any]", self.args_schema)

    async def ainvoke(
        self,
        input: str | dict[str, Any] | ToolCall,  # noqa: A002 - LangChain's name for it
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        call = _plain_call(input)
        if call is None or kwargs or self.handle_tool_error is not True:
            # Not StructuredTool's: it would run `invoke` in a thread, because there is no `coroutine` function here.
            return await BaseTool.ainvoke(self, input, config, **kwargs)
        config = ensure_config(config)
        if self._is_watched(config):
            return await BaseTool.ainvoke(self, input, config)
        # Nobody listens to the callbacks of this run: LangChain's way round them would cost as much as the call itself.
        arguments, running = call
        token = call_id.set(running)
        try:
            content, artifact = self._answer(await self._path.call(self, arguments, running, config))
        finally:
            call_id.reset(token)
        if running is None or not isinstance(content, str | list):
            return content
        return ToolMessage(content=content, artifact=artifact, tool_call_id=running, name=self.name)

    def _is_watched(self, config: RunnableConfig) -> bool:
        """Whether a tracer or a callback handler of anybody's wants to hear of this call."""
        manager = AsyncCallbackManager.configure(config.get("callbacks"), self.callbacks, self.verbose)
        return bool(manager.handlers)

    # LangChain looks for parameters named `config` and `run_manager`: with none but `**arguments`, an argument of that
    # name reaches the server. The `/` frees `self`. Unannotated, since annotations are resolved at every call.
    def _run(self, /, **arguments):  # type: ignore[no-untyped-def,override]  # noqa: ANN003, ANN202
        return self._answer(self._path.call_sync(self, arguments, call_id.get(), ensure_config()))

    async def _arun(self, /, **arguments):  # type: ignore[no-untyped-def,override]  # noqa: ANN003, ANN202
        return self._answer(await self._path.call(self, arguments, call_id.get(), ensure_config()))

    def _answer(self, reply: Reply) -> tuple[Any, dict[str, Any] | None]:
        """The pair LangChain wants; a failure as the error message itself, so that it keeps its artifact.

        Raises:
            ToolException: somebody set `handle_tool_error` to something of their own.
        """
        if reply.command is not None:
            return reply.command, None
        if not reply.is_error:
            return reply.content, reply.artifact
        if self.handle_tool_error is not True:
            raise ToolException(reply.content)
        running = call_id.get()
        if running is None:
            return reply.content, reply.artifact
        message = ToolMessage(
            content=reply.content, artifact=reply.artifact, tool_call_id=running, name=self.name, status="error"
        )
        return message, None


def _plain_call(given: str | dict[str, Any] | ToolCall) -> tuple[dict[str, Any], str | None] | None:
    """Arguments and call id of a tool call or of bare arguments; `None` for what LangChain must judge."""
    if not isinstance(given, dict):
        return None
    if given.get("type") != "tool_call":
        return dict(given), None
    arguments = given.get("args")
    return (dict(arguments), given["id"]) if isinstance(arguments, dict) and "id" in given else None


def is_mcp_tool(tool: object) -> bool:
    """Whether a tool stands for an MCP server's tool (ours, or one with our metadata)."""
    metadata = getattr(tool, "metadata", None)
    return isinstance(metadata, Mapping) and "serverName" in metadata and "toolName" in metadata
