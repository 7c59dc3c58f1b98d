"""Where langchain-mcp-adapters' types meet ours: interceptors, callbacks, and the one conversion of a call's result.

Interceptors run inside the envelope and outside the session: they see the arguments after the checks, and what they
answer is cleaned, limited and enveloped like any result. This is the only file of the room that knows the MCP SDK's
types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from codebuddy_mcp_tools.errors import MCPToolsError
from codebuddy_mcp_tools.policy import envelope
from codebuddy_mcp_tools.tools.replies import Reply
from codebuddy_mcp_tools.types import CallResult, Effect, Outcome

if TYPE_CHECKING:
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.interceptors import ToolCallInterceptor
    from mcp.types import CallToolResult

    from codebuddy_mcp_tools.client import ClientEvent
    from codebuddy_mcp_tools.tools.replies import Call, Interceptor, Sender


def interceptor_chain(interceptors: Sequence[ToolCallInterceptor]) -> Interceptor | None:
    """Compose interceptors, the first outermost; `None` when there are none."""
    if not interceptors:
        return None

    async def intercept(call: Call, send: Sender) -> CallResult | Reply:
        return await _Chain(interceptors, call, send).run()

    return intercept


class _Chain:
    """One call's way through the interceptors."""

    def __init__(self, interceptors: Sequence[ToolCallInterceptor], call: Call, send: Sender) -> None:
        self._interceptors = interceptors
        self._call = call
        self._send = send
        self._originals: dict[int, tuple[Any, CallResult]] = {}
        """Our result for each SDK result handed out, so that one that comes back unchanged loses nothing."""

    async def run(self) -> CallResult | Reply:
        from langchain_mcp_adapters.interceptors import MCPToolCallRequest  # noqa: PLC0415
        from langgraph.errors import GraphBubbleUp  # noqa: PLC0415

        request = MCPToolCallRequest(
            name=self._call.info.name,
            args=dict(self._call.arguments),
            server_name=self._call.info.server,
            headers=None,
            runtime=self._call.configured("runtime"),
        )
        try:
            answer = await self._step(0)(request)
        except (GraphBubbleUp, MCPToolsError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's code; the model must be told, and the run must go on
            return self._broken(error)
        return self._result(answer)

    def _step(self, at: int) -> Callable[[Any], Awaitable[Any]]:
        if at == len(self._interceptors):
            return self._innermost
        return lambda request: self._interceptors[at](request, self._step(at + 1))

    async def _innermost(self, request: Any) -> CallToolResult:
        info = self._call.info
        if request.name != info.name:
            info = dataclasses.replace(info, name=request.name)
        result = await self._send(info, request.args, request.headers)
        converted = to_sdk_result(result)
        self._originals[id(converted)] = (converted, result)
        return converted

    def _result(self, answer: Any) -> CallResult | Reply:
        from langgraph.types import Command  # noqa: PLC0415

        if id(answer) in self._originals:
            return self._originals[id(answer)][1]
        if isinstance(answer, Command):
            return Reply("", command=answer)
        if isinstance(answer, ToolMessage):
            return Reply("", command=self._enclosed(answer))
        return from_sdk_result(answer)

    def _enclosed(self, message: ToolMessage) -> ToolMessage:
        info = self._call.info
        content = message.content
        if isinstance(content, str):
            content = envelope(info.server, info.name, content)
        update = {"content": content, "tool_call_id": self._call.call_id or message.tool_call_id}
        return message.model_copy(update=update)

    def _broken(self, error: Exception) -> Reply:
        info, ran = self._call.info, bool(self._originals)
        outcome = Outcome.NOT_RUN
        if ran:
            outcome = Outcome.UNKNOWN if self._call.effect is Effect.WRITE else Outcome.TOOL_ERROR
        cause = str(error) if isinstance(error, ToolException) else f"{type(error).__name__}: {error}"
        what = "the call had run before that" if ran else "the call was not sent"
        head = f"Error: an interceptor of {self._call.named} failed; {what}."
        text = f"{head}\n{envelope(info.server, info.name, cause)}"
        return Reply(text, self._call.artifact(outcome), is_error=True)


def to_sdk_result(result: CallResult) -> CallToolResult:
    """A result as the SDK's type, for interceptors. Blocks the SDK does not know become text that names their type."""
    from mcp.types import CallToolResult, ContentBlock, TextContent  # noqa: PLC0415
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    blocks: TypeAdapter[Any] = TypeAdapter(ContentBlock)
    content: list[Any] = []
    for block in result.content:
        try:
            content.append(blocks.validate_python(dict(block)))
        except ValidationError:
            content.append(TextContent(type="text", text=f"[{block.get('type', 'unknown')} block]"))
    structured = result.structured_content if isinstance(result.structured_content, dict) else None
    return CallToolResult(content=content, structuredContent=structured, isError=result.is_error)


def from_sdk_result(answer: CallToolResult) -> CallResult:
    """A result an interceptor made or changed, as ours."""
    data = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
    return CallResult(
        content=tuple(data.get("content") or ()),
        structured_content=data.get("structuredContent"),
        is_error=bool(data.get("isError")),
        meta=data.get("_meta") or {},
    )


def progress_callback(callbacks: Callbacks | None) -> Callable[..., Awaitable[None]] | None:
    """`callbacks.on_progress` as `tools/progress.py` calls it."""
    if callbacks is None or callbacks.on_progress is None:
        return None
    on_progress = callbacks.on_progress

    async def report(progress: float, total: float | None, message: str | None, server: str, tool: str) -> None:
        from langchain_mcp_adapters.callbacks import CallbackContext  # noqa: PLC0415

        await on_progress(progress, total, message, CallbackContext(server_name=server, tool_name=tool))

    return report


async def report_log(callbacks: Callbacks, event: ClientEvent) -> None:
    """Hand a server's log message to `callbacks.on_logging_message`."""
    from langchain_mcp_adapters.callbacks import CallbackContext, LoggingMessageNotificationParams  # noqa: PLC0415

    if callbacks.on_logging_message is None or not isinstance(event.data, Mapping):
        return
    params = LoggingMessageNotificationParams(
        level=event.data.get("level", "info"), logger=event.data.get("logger"), data=event.data.get("data")
    )
    await callbacks.on_logging_message(params, CallbackContext(server_name=event.server))
