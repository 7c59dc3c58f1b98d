"""`MCPToolNode`: a `ToolNode` for MCP tools, in the right order, with permissions first.

It takes what `ToolNode` takes: a state with messages, a list of messages, a list of tool calls. Tools need not be
known when the graph is built: a call finds its tool in the provider when it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from codebuddy_mcp_tools.nodes.approval import Answers, ask
from codebuddy_mcp_tools.nodes.binding import distinct
from codebuddy_mcp_tools.nodes.debts import settle
from codebuddy_mcp_tools.nodes.schedule import batches, last_ai_message, pending_calls
from codebuddy_mcp_tools.nodes.streaming import announce, output_deltas
from codebuddy_mcp_tools.nodes.turn import Turn
from codebuddy_mcp_tools.tools.grants import grant

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

Wrapper = Callable[..., Any]
_STOPPED = "Not run: an earlier call of this turn failed, and this node stops at the first error."


class MCPToolNode(Runnable[Any, Any]):
    """Runs the tool calls of the newest model message.

    Args:
        provider: whose tools.
        tools: further tools, as for `ToolNode`; the provider's core tools are there anyway.
        name: the node's name.
        messages_key: where the state keeps its messages.
        max_concurrency: how many reads run at the same time; default `settings.max_concurrency`.
        stop_on_error: do not run what follows a failed call of the same turn.
        wrap_tool_call, awrap_tool_call: as for `ToolNode`; they see the tool that was found.
        batch: `all` runs the whole turn in one step; `next` runs one batch and leaves the rest to the next step, so
            that a crash or a resume repeats nothing (`build_mcp_agent` uses it).
        handle_tool_errors and other keyword arguments go to `ToolNode`.
    """

    def __init__(
        self,
        provider: ToolProvider,
        *,
        tools: Sequence[BaseTool | Callable[..., Any]] = (),
        name: str = "tools",
        messages_key: str = "messages",
        max_concurrency: int | None = None,
        stop_on_error: bool = False,
        wrap_tool_call: Wrapper | None = None,
        awrap_tool_call: Wrapper | None = None,
        batch: Literal["all", "next"] = "all",
        **tool_node: Any,
    ) -> None:
        self.name = name
        self._provider = provider
        self._messages_key = messages_key
        self._limit = max_concurrency or provider.settings.max_concurrency
        self._stop_on_error = stop_on_error
        self._batch = batch
        self._wrap, self._awrap = wrap_tool_call, awrap_tool_call
        self._inner = ToolNode(
            distinct([*provider.core_tools, *provider.readers, *provider.catalog.tools(), *tools]),
            name=name,
            messages_key=messages_key,
            wrap_tool_call=self._call,
            awrap_tool_call=self._acall,
            **tool_node,
        )

    # -- the turn ------------------------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        self._provider.get_tools()
        step = self._step(input)
        if not step.begin():
            return step.output()
        limited: RunnableConfig = {**(config or {}), "max_concurrency": self._limit}
        for calls in step.batches():
            with step.running(calls):
                step.take(self._inner.invoke(step.batch_input(calls), limited, **kwargs))
        return step.output()

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002
        await self._provider.get_tools_async()
        step = self._step(input)
        if not step.begin():
            return step.output()
        for calls in step.batches():
            with step.running(calls):
                for some in _portions(calls, self._limit):
                    step.take(await self._inner.ainvoke(step.batch_input(some), config, **kwargs))
        return step.output()

    def _step(self, given: Any) -> _Step:
        return _Step(self, given)

    # -- one call ------------------------------------------------------------------------------------------------

    def _call(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        request, answer = self._found(request)
        if answer is not None:
            return answer
        with output_deltas(request):
            return execute(request) if self._wrap is None else self._wrap(request, execute)

    async def _acall(self, request: ToolCallRequest, execute: Callable[[ToolCallRequest], Any]) -> Any:
        request, answer = self._found(request)
        if answer is not None:
            return answer
        with output_deltas(request):
            if self._awrap is not None:
                return await self._awrap(request, execute)
            if self._wrap is not None:  # as ToolNode does: a synchronous wrapper serves both
                return await asyncio.to_thread(self._wrap, request, _synchronous(execute))
            return await execute(request)

    def _found(self, request: ToolCallRequest) -> tuple[ToolCallRequest, Any]:
        """The request with its tool, or the answer where none runs."""
        return find_tool(self._provider, request, self._inner.tools_by_name, self._messages_key)


def find_tool(
    provider: ToolProvider, request: ToolCallRequest, own: Mapping[str, BaseTool], messages_key: str = "messages"
) -> tuple[ToolCallRequest, Any]:
    """Find the tool a request is about: the request with it, or what to answer instead.

    A deferred tool that nothing has activated is activated and answered with its schema; an unknown name with near
    misses.
    """
    call = request.tool_call
    if call["name"] in own:
        return request, None
    state = request.state if isinstance(request.state, Mapping) else {}
    turn = Turn(provider, own, state.get("activated_tools") or ())
    tool = turn.reached(call)
    if tool is None:
        return request, turn.unknown(call)
    if turn.is_asleep(call["name"], tool):
        message = turn.waking(call, tool)
        if not isinstance(request.state, Mapping):
            return request, message
        return request, Command(update={"activated_tools": [tool.name], messages_key: [message]})
    return request.override(tool=tool, tool_call={**call, "name": tool.name}), None


class _Step:
    """One run of the node: the input, what was decided, what came of it."""

    def __init__(self, node: MCPToolNode, given: Any) -> None:
        self._node = node
        self._given = given
        self._results: list[Any] = []
        self._answers = Answers()
        self._turn = Turn(node._provider, node._inner.tools_by_name, self._value("activated_tools") or ())  # noqa: SLF001
        self._calls = self._pending()
        self._failed = False

    def _value(self, key: str) -> Any:
        return self._given.get(key) if isinstance(self._given, Mapping) else getattr(self._given, key, None)

    @property
    def _messages(self) -> list[AnyMessage]:
        if isinstance(self._given, list):
            return [] if self._is_call_list else self._given
        return list(self._value(self._node._messages_key) or ())  # noqa: SLF001

    @property
    def _is_call_list(self) -> bool:
        return isinstance(self._given, list) and bool(self._given) and isinstance(self._given[-1], dict)

    def _pending(self) -> list[ToolCall]:
        if self._is_call_list:
            return list(self._given)
        if isinstance(self._given, Mapping) and "tool_call" in self._given:  # ToolNode's `Send` payload
            return [self._given["tool_call"]]
        if last_ai_message(self._messages) is None:
            raise ValueError("there is no message of the model in the input, so there are no tool calls to run")
        return pending_calls(self._messages)

    def begin(self) -> bool:
        """Settle the permissions of the whole turn, before anything runs. `False` when nothing is left to run."""
        approved = self._value("approved_calls") or ()
        questions = self._turn.questions(self._calls, approved, self._value("approved_tools") or ())
        if questions:
            self._answers = ask(questions)
        self._granted = frozenset([*approved, *self._answers.granted, *self._of_session()])
        self._results += self._answers.refused
        refused = {message.tool_call_id for message in self._answers.refused}
        self._calls = [
            self._answers.edited.get(call["id"] or "", call) for call in self._calls if call["id"] not in refused
        ]
        return bool(self._calls)

    def _of_session(self) -> Iterator[str]:
        allowed = {*(self._value("approved_tools") or ()), *self._answers.for_session}
        for call in self._calls:
            tool = self._turn.reached(call)
            if tool is not None and tool.name in allowed:
                yield call["id"] or ""

    def batches(self) -> Iterator[list[ToolCall]]:
        """The batches to run now, each when the one before has been taken."""
        found = batches(self._calls, self._turn.is_read_only)
        if self._node._batch == "next":  # noqa: SLF001
            found = found[:1]
        for calls in found:
            if self._failed and self._node._stop_on_error:  # noqa: SLF001
                self._results += [_stopped(call) for call in calls]
            else:
                yield calls

    def batch_input(self, calls: Sequence[ToolCall]) -> Any:
        """The node's input with only these calls in the newest model message."""
        if isinstance(self._given, Mapping) and "tool_call" in self._given:
            return {**self._given, "tool_call": calls[0]}
        if self._is_call_list:
            return list(calls)
        messages = self._messages
        at = max(i for i, m in enumerate(messages) if isinstance(m, AIMessage))
        asked = messages[at].model_copy(update={"tool_calls": list(calls), "invalid_tool_calls": []})
        changed = [*messages[:at], asked]
        key = self._node._messages_key  # noqa: SLF001
        if isinstance(self._given, list):
            return changed
        if isinstance(self._given, Mapping):
            return {**self._given, key: changed}
        return self._given.model_copy(update={key: changed})

    @contextmanager
    def running(self, calls: Sequence[ToolCall]) -> Iterator[None]:
        """Grants and announcements while a batch runs."""
        announce("mcp_batch_started", calls)
        with grant(self._granted):
            yield
        announce("mcp_batch_finished", calls)

    def take(self, output: Any) -> None:
        """Keep what a batch came to."""
        key = self._node._messages_key  # noqa: SLF001
        found = output.get(key, []) if isinstance(output, Mapping) else output
        for item in found:
            nested = item.get(key, []) if isinstance(item, Mapping) else [item]
            self._results += nested
        self._failed = self._failed or any(m.status == "error" for m in self._tool_messages())

    def _tool_messages(self) -> list[ToolMessage]:
        found: list[ToolMessage] = []
        for item in self._results:
            if isinstance(item, ToolMessage):
                found.append(item)
            elif isinstance(item, Command) and isinstance(item.update, Mapping):
                inner = item.update.get(self._node._messages_key, [])  # noqa: SLF001
                found += [m for m in inner if isinstance(m, ToolMessage)]
        return found

    def output(self) -> Any:
        """What the node returns: like `ToolNode`, plus what our own state keeps."""
        messages = [item for item in self._results if isinstance(item, ToolMessage)]
        commands = [item for item in self._results if isinstance(item, Command)]
        if isinstance(self._given, list) and not self._is_call_list:
            return [*messages, *commands]
        key = self._node._messages_key  # noqa: SLF001
        update: dict[str, Any] = {key: [*self._edited(), *self._in_call_order(messages)], **self._own_state()}
        return [update, *commands] if commands else update

    def _in_call_order(self, messages: list[ToolMessage]) -> list[ToolMessage]:
        order = {call["id"]: at for at, call in reversed(list(enumerate(self._order())))}
        return sorted(messages, key=lambda m: order.get(m.tool_call_id, len(order)))

    def _order(self) -> Sequence[ToolCall]:
        message = last_ai_message(self._messages)
        return message.tool_calls if message is not None else self._calls

    def _edited(self) -> list[AnyMessage]:
        message = last_ai_message(self._messages)
        if message is None or not self._answers.edited or message.id is None:
            return []
        return [self._answers.apply(message)]

    def _own_state(self) -> dict[str, Any]:
        """Updates for keys that a stranger's state need not have; LangGraph drops those it does not know."""
        redact = self._node._provider.service.redactor.redact  # noqa: SLF001
        results = self._in_call_order(self._tool_messages())
        writes = settle(self._value("unverified_writes") or (), self._messages, results, redact)
        found: dict[str, Any] = {"unverified_writes": writes} if writes["add"] or writes["clear"] else {}
        if self._answers.granted:
            found["approved_calls"] = self._answers.granted
        if self._answers.for_session:
            found["approved_tools"] = self._answers.for_session
        return found


def _portions(calls: Sequence[ToolCall], limit: int) -> Iterator[Sequence[ToolCall]]:
    for at in range(0, len(calls), limit):
        yield calls[at : at + limit]


def _stopped(call: ToolCall) -> ToolMessage:
    return ToolMessage(_STOPPED, name=call["name"], tool_call_id=call["id"] or "", status="error")


def _synchronous(execute: Callable[[ToolCallRequest], Any]) -> Callable[[ToolCallRequest], Any]:
    loop = asyncio.get_running_loop()
    return lambda request: asyncio.run_coroutine_threadsafe(execute(request), loop).result()
