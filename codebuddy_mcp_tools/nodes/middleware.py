"""`MCPToolsMiddleware`: the same behaviour in LangChain's `create_agent`. Needs the `langchain` extra.

`create_agent` runs every call of a turn as a task of its own, all at the same time; the gate of the turn gives them
the order that the tool node gives. Permissions are settled in `after_model`, before any call is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
    from langchain.agents.middleware.types import OmitFromInput
except ImportError as error:
    raise ImportError("MCPToolsMiddleware needs LangChain: pip install 'codebuddy-mcp-tools[langchain]'") from error
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import TracePolicy, omit_payload

from codebuddy_mcp_tools.nodes.approval import ask, asks_by_interrupt, can_wait
from codebuddy_mcp_tools.nodes.binding import (
    bound_tools,
    context_window_of,
    distinct,
    modifiers_of,
    provider_search_tool,
)
from codebuddy_mcp_tools.nodes.callgate import CallGate, TurnGates
from codebuddy_mcp_tools.nodes.calls import Turn, answered_instead, arun_call, run_call
from codebuddy_mcp_tools.nodes.checks import check_count, check_provider
from codebuddy_mcp_tools.nodes.debts import ledger_of_turn
from codebuddy_mcp_tools.nodes.gate import CompletionGate
from codebuddy_mcp_tools.nodes.schedule import last_ai_message, pending_calls
from codebuddy_mcp_tools.nodes.state import Review, Write, keep_order_union, latest_review, merge_writes
from codebuddy_mcp_tools.nodes.tool_node import describe_error
from codebuddy_mcp_tools.nodes.toolbox import Toolbox
from codebuddy_mcp_tools.nodes.turns import review_of, turn_key
from codebuddy_mcp_tools.tools.tool import is_mcp_tool

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

    from codebuddy_mcp_tools.tools.provider import ToolProvider


class MCPToolsState(AgentState[Any]):
    """What the middleware adds to an agent's state. See `MCPAgentState`."""

    activated_tools: NotRequired[Annotated[list[str], keep_order_union]]
    unverified_writes: NotRequired[Annotated[list[Write], merge_writes]]
    gate_reprompts: NotRequired[int]
    approved_tools: NotRequired[Annotated[list[str], keep_order_union, OmitFromInput]]
    reviewed: NotRequired[Annotated[Review, latest_review, OmitFromInput]]


class MCPToolsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent a provider's tools: `create_agent(model, middleware=[MCPToolsMiddleware(provider)])`.

    List it first, so that it is the outermost round a tool call.

    Args:
        provider: whose tools.
        gate: send the model back when it finishes with unverified writes.
        max_reprompts: how often, between two messages of the user.
        max_concurrency: how many reads run at the same time; default `settings.max_concurrency`.
        stop_on_error: do not run what follows a failed call of the same turn.

    Raises:
        ConfigError: an argument is not what it must be.
        ConfigError: (on use) a rule asks for approval, and the agent has no checkpointer to wait with.
    """

    state_schema = MCPToolsState
    trace_policy = TracePolicy(process_inputs=omit_payload)

    def __init__(
        self,
        provider: ToolProvider,
        *,
        gate: bool = True,
        max_reprompts: int = 1,
        max_concurrency: int | None = None,
        stop_on_error: bool = False,
    ) -> None:
        super().__init__()
        check_provider(provider, "MCPToolsMiddleware")
        check_count(max_reprompts, "max_reprompts", "MCPToolsMiddleware", least=0)
        if max_concurrency is not None:
            check_count(max_concurrency, "max_concurrency", "MCPToolsMiddleware")
        self._provider = provider
        self._gate = CompletionGate(provider, max_reprompts) if gate else None
        self._limit = max_concurrency or provider.settings.max_concurrency
        self._stop_on_error = stop_on_error
        self._gates = TurnGates()
        self.tools = distinct([*provider.core_tools, *provider.readers, *provider.catalog.tools()])
        self._own = {tool.name: tool for tool in self.tools}
        self._window: int | None = None

    # -- what the model sees -------------------------------------------------------------------------------------

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._provider.get_tools()
        return handler(self._bound(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        await self._provider.get_tools_async()
        return await handler(self._bound(request))

    def _bound(self, request: Any) -> Any:
        asks_by_interrupt(self._provider, request.state.get("approved_tools") or ())
        self._window = context_window_of(request.model)
        others = [tool for tool in request.tools if not (isinstance(tool, BaseTool) and self._is_ours(tool))]
        own = [tool for tool in others if isinstance(tool, BaseTool)]
        plain = [tool for tool in others if not isinstance(tool, BaseTool)]
        activated = request.state.get("activated_tools") or ()
        search_tool = provider_search_tool(self._provider, request.model)
        shown = bound_tools(self._provider, own, activated, **self._scope(), search_tool=search_tool)
        return request.override(tools=distinct([*plain, *shown]))

    def _is_ours(self, tool: BaseTool) -> bool:
        return tool.name in self._own or (is_mcp_tool(tool) and self._provider.catalog.get(tool.name) is not None)

    def _scope(self) -> dict[str, Any]:
        return {"context_window": self._window, "modifiers": modifiers_of(get_config())}

    # -- between model and tools ---------------------------------------------------------------------------------

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Write down what the turn that has just run means for the debts."""
        entries = self._entries(state)
        return {"unverified_writes": entries} if entries else None

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The same for a turn that ended the run, by `return_direct` or a structured response."""
        return self.before_model(state, runtime)

    def _entries(self, state: Mapping[str, Any]) -> list[Any]:
        messages = state["messages"]
        asked = last_ai_message(messages)
        if asked is None or not asked.tool_calls:
            return []
        review = review_of(state.get("reviewed"), asked)
        sent = self._toolbox(state).sent(asked, review)
        return ledger_of_turn(messages, sent, self._provider.service.redactor.redact)

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Ask for what must be asked, or check the debts when the model wants to finish."""
        # In a process that resumes a run, this is the first that happens: the tools may not be loaded.
        if not self._knows([call for _, call in pending_calls(state["messages"])]):
            self._provider.get_tools()
        return self._settled(state)

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        if not self._knows([call for _, call in pending_calls(state["messages"])]):
            await self._provider.get_tools_async()
        return self._settled(state)

    def _settled(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        messages = state["messages"]
        asked, pending = last_ai_message(messages), pending_calls(messages)
        if asked is not None and pending:
            return self._reviewed(state, asked, [at for at, _ in pending])
        if self._gate is None:
            return None
        counted = state.get("gate_reprompts")
        update = self._gate.check(messages, state.get("unverified_writes") or (), counted)
        if "messages" in update:
            return {**update, "jump_to": "model"}
        return update if update["gate_reprompts"] != (counted or 0) else None

    def _reviewed(self, state: Mapping[str, Any], asked: AIMessage, positions: Sequence[int]) -> dict[str, Any] | None:
        allowed = list(state.get("approved_tools") or ())
        if not asks_by_interrupt(self._provider, allowed):
            return None
        turn = self._turn(state, asked, CallGate((), limit=self._limit))
        planned = turn.toolbox.plan(asked, positions, turn.review)
        questions = turn.toolbox.questions(planned, turn.review, turn.allowed)
        if not questions:
            return None
        turn.take(ask(questions), questions)
        calls = {str(at): decision for at, decision in turn.answers.items()}
        return {"reviewed": {"message": asked.id, "calls": calls}, "approved_tools": turn.for_session}

    # -- one call ------------------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        if not self._knows([request.tool_call]):
            self._provider.get_tools()
        turn, key = self._turn_of(request)
        planned = turn.gate.claim(request.tool_call)
        try:
            return run_call(turn, planned, request, lambda inner: self._guarded(inner, handler))
        finally:
            self._gates.forget(key)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        if not self._knows([request.tool_call]):
            await self._provider.get_tools_async()
        turn, key = self._turn_of(request)
        planned = turn.gate.claim(request.tool_call)
        try:
            return await arun_call(turn, planned, request, lambda inner: self._aguarded(inner, handler))
        finally:
            self._gates.forget(key)

    def _guarded(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """A core tool that raises costs its own call only; the agent's own tools fail as the agent wants them to."""
        try:
            return handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if not self._has_core_tool(request):
                raise
            return answered_instead(request, describe_error(error))

    async def _aguarded(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            if not self._has_core_tool(request):
                raise
            return answered_instead(request, describe_error(error))

    def _has_core_tool(self, request: ToolCallRequest) -> bool:
        return request.tool is not None and self._own.get(request.tool.name) is request.tool

    # -- the turn ------------------------------------------------------------------------------------------------

    def _toolbox(self, state: Mapping[str, Any], own: Mapping[str, BaseTool] | None = None) -> Toolbox:
        """Between model and tools the agent's own tools are not known, and must not be taken for the provider's."""
        activated = state.get("activated_tools") or ()
        known = {**self._own, **(own or {})}
        return Toolbox(self._provider, known, activated=activated, exact=own is None, **self._scope())

    def _knows(self, calls: Sequence[ToolCall]) -> bool:
        return all(call["name"] in self._own or self._provider.catalog.get(call["name"]) is not None for call in calls)

    def _turn_of(self, request: ToolCallRequest) -> tuple[Turn, Any]:
        """The turn a call belongs to; all calls of it share one gate."""
        asked = last_ai_message(request.state["messages"])
        if asked is None:
            raise ValueError("there is no message of the model in the state, so there is no turn of tool calls")
        own = {tool.name: tool for tool in request.runtime.tools}
        key = turn_key(asked, request.runtime.execution_info)
        turn = self._turn(request.state, asked, CallGate((), limit=self._limit), own)
        turn.gate = self._gates.gate(key, lambda: self._new_gate(turn, request.state["messages"]))
        return turn, key

    def _turn(
        self, state: Mapping[str, Any], asked: AIMessage, gate: CallGate, own: Mapping[str, BaseTool] | None = None
    ) -> Turn:
        review = review_of(state.get("reviewed"), asked)
        allowed = list(state.get("approved_tools") or ())
        asks = can_wait() or self._provider.approval_handler is None
        return Turn(self._toolbox(state, own), gate, state, asked, review, allowed, asks=asks)

    def _new_gate(self, turn: Turn, messages: Sequence[Any]) -> CallGate:
        positions = [at for at, _ in pending_calls(messages)]
        planned = turn.toolbox.plan(turn.message, positions, turn.review)
        return CallGate(planned, limit=self._limit, stop_on_error=self._stop_on_error)
