"""`MCPToolsMiddleware`: the same behaviour in LangChain's `create_agent`. Needs the `langchain` extra.

`create_agent` runs every call of a turn in a step of its own, all at the same time; a first-in-first-out gate gives
them the order that the tool node gives. Permissions are settled in `after_model`, before any call is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired
from weakref import WeakValueDictionary

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
except ImportError as error:
    raise ImportError("MCPToolsMiddleware needs LangChain: pip install 'codebuddy-mcp-tools[langchain]'") from error
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config

from codebuddy_mcp_tools.nodes.approval import ask
from codebuddy_mcp_tools.nodes.binding import bound_tools, context_window_of, distinct, modifiers_of
from codebuddy_mcp_tools.nodes.callgate import CallGate
from codebuddy_mcp_tools.nodes.debts import settle
from codebuddy_mcp_tools.nodes.gate import CompletionGate
from codebuddy_mcp_tools.nodes.schedule import last_ai_message, pending_calls
from codebuddy_mcp_tools.nodes.state import Write, keep_order_union, merge_writes
from codebuddy_mcp_tools.nodes.streaming import output_deltas
from codebuddy_mcp_tools.nodes.tool_node import find_tool
from codebuddy_mcp_tools.nodes.turn import Turn
from codebuddy_mcp_tools.tools.grants import grant
from codebuddy_mcp_tools.tools.tool import is_mcp_tool

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from codebuddy_mcp_tools.tools.provider import ToolProvider


class MCPToolsState(AgentState[Any]):
    """What the middleware adds to an agent's state."""

    activated_tools: NotRequired[Annotated[list[str], keep_order_union]]
    unverified_writes: NotRequired[Annotated[list[Write], merge_writes]]
    gate_reprompts: NotRequired[int]
    approved_calls: NotRequired[Annotated[list[str], keep_order_union]]
    approved_tools: NotRequired[Annotated[list[str], keep_order_union]]


class MCPToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent a provider's tools: `create_agent(model, middleware=[MCPToolsMiddleware(provider)])`.

    Args:
        provider: whose tools.
        gate: send the model back once when it finishes with unverified writes.
    """

    state_schema = MCPToolsState

    def __init__(self, provider: ToolProvider, *, gate: bool = True) -> None:
        super().__init__()
        self._provider = provider
        self._gate = CompletionGate(provider) if gate else None
        self._turns: WeakValueDictionary[str, CallGate] = WeakValueDictionary()
        self.tools = distinct([*provider.core_tools, *provider.readers, *provider.catalog.tools()])
        self._own = {tool.name: tool for tool in self.tools}

    # -- what the model sees -------------------------------------------------------------------------------------

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._provider.get_tools()
        return handler(self._bound(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        await self._provider.get_tools_async()
        return await handler(self._bound(request))

    def _bound(self, request: Any) -> Any:
        others = [tool for tool in request.tools if not (isinstance(tool, BaseTool) and self._is_ours(tool))]
        own = [tool for tool in others if isinstance(tool, BaseTool)]
        plain = [tool for tool in others if not isinstance(tool, BaseTool)]
        shown = bound_tools(
            self._provider,
            own,
            request.state.get("activated_tools") or (),
            context_window=context_window_of(request.model),
            modifiers=modifiers_of(get_config()),
        )
        return request.override(tools=[*plain, *shown])

    def _is_ours(self, tool: BaseTool) -> bool:
        return tool.name in self._own or is_mcp_tool(tool)

    # -- between model and tools ---------------------------------------------------------------------------------

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Settle the debts of the turn that has just run."""
        update = self._settled(state)
        return {"unverified_writes": update} if update["add"] or update["clear"] else None

    def _settled(self, state: Mapping[str, Any]) -> dict[str, list[Any]]:
        messages = state["messages"]
        results: list[ToolMessage] = []
        for message in reversed(messages):
            if isinstance(message, AIMessage):
                break
            if isinstance(message, ToolMessage):
                results.insert(0, message)
        order = {call["id"]: at for at, call in enumerate(getattr(last_ai_message(messages), "tool_calls", ()))}
        results.sort(key=lambda m: order.get(m.tool_call_id, len(order)))
        return settle(state.get("unverified_writes") or (), messages, results, self._provider.service.redactor.redact)

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask for what must be asked, or check the debts when the model wants to finish."""
        messages = state["messages"]
        calls = pending_calls(messages)
        if calls:
            return self._approved(state, messages, calls)
        if self._gate is None:
            return None
        owed = merge_writes(state.get("unverified_writes"), None)
        update = self._gate.check(messages, owed)
        return {**update, "jump_to": "model"} if "messages" in update else update

    def _approved(
        self, state: Mapping[str, Any], messages: Sequence[Any], calls: Sequence[Any]
    ) -> dict[str, Any] | None:
        turn = Turn(self._provider, self._own, state.get("activated_tools") or ())
        questions = turn.questions(calls, state.get("approved_calls") or (), state.get("approved_tools") or ())
        if not questions:
            return None
        answers = ask(questions)
        asked = last_ai_message(messages)
        edited = [answers.apply(asked)] if asked is not None and answers.edited else []
        return {
            "messages": [*edited, *answers.refused],
            "approved_calls": answers.granted,
            "approved_tools": answers.for_session,
        }

    # -- one call ------------------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        gate, read_only = self._place(request)
        with gate.enter(read_only=read_only):
            if not self._concerns(request):
                return handler(request)
            request, answer = find_tool(self._provider, request, self._own)
            if answer is not None:
                return answer
            with grant(self._granted(request)), output_deltas(request):
                return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        gate, read_only = self._place(request)
        async with gate.aenter(read_only=read_only):
            if not self._concerns(request):
                return await handler(request)
            request, answer = find_tool(self._provider, request, self._own)
            if answer is not None:
                return answer
            with grant(self._granted(request)), output_deltas(request):
                return await handler(request)

    def _concerns(self, request: ToolCallRequest) -> bool:
        """Whether the call is ours to find a tool for; the agent's own tools are left alone."""
        return request.tool is None or self._is_ours(request.tool)

    def _place(self, request: ToolCallRequest) -> tuple[CallGate, bool]:
        asked = last_ai_message(request.state["messages"])
        key = (asked.id if asked is not None else None) or str(id(request.state))
        gate = self._turns.setdefault(key, CallGate())
        if request.tool is not None and not self._is_ours(request.tool):
            return gate, (request.tool.metadata or {}).get("readOnly") is True
        turn = Turn(self._provider, self._own, request.state.get("activated_tools") or ())
        return gate, turn.is_read_only(request.tool_call)

    def _granted(self, request: ToolCallRequest) -> list[str]:
        state = request.state
        allowed = state.get("approved_tools") or ()
        of_session = request.tool is not None and request.tool.name in allowed
        return [*(state.get("approved_calls") or ()), *([request.tool_call["id"] or ""] if of_session else [])]
