"""`MCPToolNode`: a `ToolNode` for MCP tools, in the right order, with permissions first.

It takes what `ToolNode` takes: a state with messages, a list of messages, a list of tool calls, what `Send` carries.
Tools need not be known when the graph is built: a call finds its tool in the provider when it comes.

Inside is LangGraph's own `ToolNode`, which runs the calls; this class decides, by way of its wrapper, which tool a call
means, whether it may run, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.nodes.binding import distinct, modifiers_of
from codebuddy_mcp_tools.nodes.calls import arun_call, run_call
from codebuddy_mcp_tools.nodes.checks import check_choice, check_count, check_provider
from codebuddy_mcp_tools.nodes.step import Step, StepRules
from codebuddy_mcp_tools.nodes.step_input import StepInput, read_input
from codebuddy_mcp_tools.nodes.turns import running_task

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

Wrapper = Callable[..., Any]
_step: ContextVar[Step | None] = ContextVar("codebuddy_mcp_step", default=None)
"""The run of a node that the tool call belongs to which is being wrapped."""
_probe: ContextVar[list[Any] | None] = ContextVar("codebuddy_mcp_probe", default=None)
"""Where to put the state that `ToolNode` reads, while it is only asked for that."""


class MCPToolNode(Runnable[Any, Any]):
    """Runs the tool calls of the newest model message, in a graph, in place of `ToolNode`.

    Returns what `ToolNode` returns: `{messages_key: [ToolMessage, …]}` for a state, a list for a list, `Command`s where
    tools return some; and, for a state that keeps them, `unverified_writes`, `approved_tools` and `reviewed`.

    Args:
        provider: whose tools.
        tools: further tools, as for `ToolNode`; the provider's core tools are there anyway.
        name: the node's name.
        tags: as for `ToolNode`.
        messages_key: where the state keeps its messages.
        max_concurrency: how many reads run at the same time; default `settings.max_concurrency`.
        stop_on_error: do not run what follows a failed call of the same turn.
        handle_tool_errors: as for `ToolNode`; the default turns every exception of a tool into an error message, so
            that it cannot take the results of its neighbours with it.
        wrap_tool_call, awrap_tool_call: as for `ToolNode`; they see the tool that was found.
        batch: `all` runs the whole turn in one step; `next` runs one batch and leaves the rest to the next step, so
            that a crash or a resume repeats nothing that has run (`build_mcp_agent` uses it, with `route_after_tools`).
        context_window: tokens of the model's window, which decides under `auto` exposure; default: the one that the
            provider's tools were last bound for.

    Raises:
        ConfigError: an argument is not what it must be.
        ConfigError: (on use) a rule asks for approval, and the graph has no checkpointer to wait with.
    """

    def __init__(
        self,
        provider: ToolProvider,
        *,
        tools: Sequence[BaseTool | Callable[..., Any]] = (),
        name: str = "tools",
        tags: list[str] | None = None,
        messages_key: str = "messages",
        max_concurrency: int | None = None,
        stop_on_error: bool = False,
        handle_tool_errors: Any = None,
        wrap_tool_call: Wrapper | None = None,
        awrap_tool_call: Wrapper | None = None,
        batch: Literal["all", "next"] = "all",
        context_window: int | None = None,
    ) -> None:
        check_provider(provider, "MCPToolNode")
        check_choice(batch, "batch", "MCPToolNode", ("all", "next"))
        if max_concurrency is not None:
            check_count(max_concurrency, "max_concurrency", "MCPToolNode")
        self.name = name
        self._provider = provider
        self._messages_key = messages_key
        self._context_window = context_window
        self._wrap, self._awrap = wrap_tool_call, awrap_tool_call
        self._inner = ToolNode(
            distinct([*tools, *provider.core_tools, *provider.readers, *provider.catalog.tools()]),
            name=name,
            tags=tags,
            messages_key=messages_key,
            handle_tool_errors=describe_error if handle_tool_errors is None else handle_tool_errors,
            wrap_tool_call=self._call,
            awrap_tool_call=self._acall,
        )
        self._rules = StepRules(
            provider,
            self._inner.tools_by_name,
            limit=max_concurrency or provider.settings.max_concurrency,
            stop_on_error=stop_on_error,
            one_batch=batch == "next",
        )

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """Every tool that is known now, by name."""
        return {**{tool.name: tool for tool in self._provider.catalog}, **self._inner.tools_by_name}

    # -- the turn ------------------------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        given, kwargs = read_input(input, self._messages_key), _with_runtime(kwargs)
        if given.state is None:
            given = given.of_state(self._state_of(given, config, **kwargs))
        step = self._step(given, config)
        if not step.is_known():
            self._provider.get_tools()
        if not step.begin():
            return step.nothing()
        token = _step.set(step)
        try:
            output = self._inner.invoke(step.inner_input(), config, **kwargs)
        except BaseException:
            step.cut_off()
            raise
        finally:
            _step.reset(token)
        return step.output(output)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        given, kwargs = read_input(input, self._messages_key), _with_runtime(kwargs)
        if given.state is None:
            given = given.of_state(await self._astate_of(given, config, **kwargs))
        step = self._step(given, config)
        if not step.is_known():
            await self._provider.get_tools_async()
        if not step.begin():
            return step.nothing()
        token = _step.set(step)
        try:
            output = await self._inner.ainvoke(step.inner_input(), config, **kwargs)
        except BaseException:
            step.cut_off()
            raise
        finally:
            _step.reset(token)
        return step.output(output)

    def _step(self, given: StepInput, config: RunnableConfig | None) -> Step:
        return Step(given, self._rules, {"context_window": self._context_window, "modifiers": modifiers_of(config)})

    # `Send` and plain lists of calls come without a state; ToolNode knows how to read the one of the running graph.

    def _state_of(self, given: StepInput, config: RunnableConfig | None, **kwargs: Any) -> Any:
        found: list[Any] = []
        token = _probe.set(found)
        try:
            self._inner.invoke(given.calls[:1], config, **kwargs)
        finally:
            _probe.reset(token)
        return found[0]

    async def _astate_of(self, given: StepInput, config: RunnableConfig | None, **kwargs: Any) -> Any:
        found: list[Any] = []
        token = _probe.set(found)
        try:
            await self._inner.ainvoke(given.calls[:1], config, **kwargs)
        finally:
            _probe.reset(token)
        return found[0]

    # -- one call ------------------------------------------------------------------------------------------------

    def _call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        if (found := _probe.get()) is not None:
            found.append(request.state)
            return Command()
        step = _running()
        if (before := step.finished(request.tool_call)) is not None:
            return before
        planned = step.turn.gate.claim(request.tool_call)
        try:
            result = run_call(step.turn, planned, step.seen_by(request), self._wrapped(execute))
        except GraphInterrupt as interrupt:
            return step.suspend(planned.position, interrupt)
        return step.keep(planned.position, result)

    async def _acall(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        if (found := _probe.get()) is not None:
            found.append(request.state)
            return Command()
        step = _running()
        if (before := step.finished(request.tool_call)) is not None:
            return before
        planned = step.turn.gate.claim(request.tool_call)
        try:
            result = await arun_call(step.turn, planned, step.seen_by(request), self._awrapped(execute))
        except GraphInterrupt as interrupt:
            return step.suspend(planned.position, interrupt)
        return step.keep(planned.position, result)

    def _wrapped(self, execute: Callable[[ToolCallRequest], Any]) -> Callable[[ToolCallRequest], Any]:
        """The call inside the user's wrapper. One that is only there for the other way of running serves both."""
        wrap, awrap = self._wrap, self._awrap
        if wrap is not None:
            return lambda request: wrap(request, execute)
        if awrap is not None:
            return lambda request: asyncio.run(awrap(request, _in_thread(execute)))
        return execute

    def _awrapped(self, execute: Callable[[ToolCallRequest], Any]) -> Callable[[ToolCallRequest], Any]:
        wrap, awrap = self._wrap, self._awrap
        if awrap is not None:
            return lambda request: awrap(request, execute)
        if wrap is not None:  # in a thread, so that it holds up no loop
            return lambda request: asyncio.to_thread(wrap, request, _from_thread(execute))
        return execute


def _with_runtime(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Outside a graph `ToolNode` misses the runtime that a graph gives it; an empty one does."""
    return kwargs if running_task() is not None else {"runtime": Runtime(), **kwargs}


def _running() -> Step:
    step = _step.get()
    if step is None:
        raise RuntimeError("a tool call outside a run of its node")
    return step


def _in_thread(execute: Callable[[ToolCallRequest], Any]) -> Callable[[ToolCallRequest], Any]:
    return lambda request: asyncio.to_thread(execute, request)


def _from_thread(execute: Callable[[ToolCallRequest], Any]) -> Callable[[ToolCallRequest], Any]:
    loop = asyncio.get_running_loop()
    return lambda request: asyncio.run_coroutine_threadsafe(execute(request), loop).result()


def describe_error(error: Exception) -> str:
    """What the model is told when a tool raised. Settings that cannot work are the user's to see, and are raised."""
    if isinstance(error, ConfigError):
        raise error
    return f"Error: {type(error).__name__}: {error}\nCorrect the call, or go on without it."
