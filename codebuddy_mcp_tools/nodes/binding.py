"""The model node: binds what the state makes visible, and asks the model.

Bound in this order, always the same: the graph's own and core tools, ToolSearch and describe_tool where anything is
hidden, the provider's visible tools, and last what searches have activated. Where the model's provider searches
(`toolSearch: provider`), its search tool stands in the place of ours and all tools are bound, the deferred ones marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, InvalidToolCall, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.nodes.approval import asks_by_interrupt
from codebuddy_mcp_tools.nodes.state import value_of
from codebuddy_mcp_tools.types import Exposure

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.provider import ToolProvider

DEFER_KEY = "mcp_defer"
"""Key of a run's `configurable` that holds `Defer(...)`/`NoDefer(...)` texts."""


def context_window_of(model: Any) -> int | None:
    """The model's context window in tokens, from its profile."""
    profile = getattr(model, "profile", None)
    value = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return value if isinstance(value, int) and value > 0 else None


def modifiers_of(config: RunnableConfig | None) -> tuple[str, ...]:
    """The `Defer`/`NoDefer` modifiers of a run: `configurable["mcp_defer"]`, a text or several.

    Raises:
        ConfigError: it is something else.
    """
    value = ((config or {}).get("configurable") or {}).get(DEFER_KEY) or ()
    texts = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else (value,)
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise ConfigError(f"configurable[{DEFER_KEY!r}] must hold texts such as 'Defer(mcp__server__*)', not {wrong!r}")
    return texts


def distinct(tools: Sequence[Any]) -> list[Any]:
    """The tools without those whose name came before; of definitions that are mappings, without repetitions."""
    found: dict[Any, Any] = {}
    for tool in tools:
        key = repr(tool) if isinstance(tool, Mapping) else getattr(tool, "name", id(tool))
        found.setdefault(key, tool)
    return list(found.values())


_SEARCH_TOOLS: dict[str, dict[str, str]] = {
    "anthropic": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "openai": {"type": "tool_search"},
}
"""What switches a provider's own search on: the definitions of LangChain's `ProviderToolSearchMiddleware`."""


def provider_search_tool(provider: ToolProvider, model: Any) -> dict[str, str] | None:
    """What to bind so that the model's provider searches the deferred tools itself.

    Returns:
        `None` where ToolSearch is to be used: the setting `toolSearch` does not say `provider`, or this model's
        provider has no search of its own.
    """
    if provider.catalog.tool_search != "provider" or provider.catalog.call_style == "execute":
        return None
    while isinstance(model, RunnableBinding):
        model = model.bound
    namespace: list[str] = getattr(model, "get_lc_namespace", list)()
    found = _SEARCH_TOOLS.get(namespace[-1]) if namespace[:-1] == ["langchain", "chat_models"] else None
    return None if found is None else dict(found)


def bound_tools(
    provider: ToolProvider,
    own: Sequence[Any],
    activated: Sequence[str],
    *,
    context_window: int | None = None,
    modifiers: Sequence[str] = (),
    search_tool: dict[str, str] | None = None,
) -> list[Any]:
    """What is bound to the model, in a fixed order; `own` comes first, without repetitions.

    Args:
        provider: whose tools.
        own: the graph's own tools.
        activated: visible names of the deferred tools that searches have activated.
        context_window: tokens of the model's window.
        modifiers: `Defer`/`NoDefer` of the run.
        search_tool: see `provider_search_tool`.
    """
    catalog = provider.catalog
    scope: dict[str, Any] = {"context_window": context_window, "modifiers": modifiers}
    levels = set(catalog.levels(**scope).values())
    discovery: list[Any] = []
    if search_tool is None:
        discovery = catalog.tools(**scope) if catalog.call_style == "execute" or levels - {Exposure.FULL} else []
    else:
        # A stub says where to read the rest.
        discovery = [t for t in catalog.tools(**scope) if t.name == "describe_tool"] if Exposure.STUB in levels else []
        discovery += [search_tool] if Exposure.DEFERRED in levels else []
    shown = catalog.visible(activated, **scope, provider_search=search_tool is not None)
    # The reader comes in the middle of a conversation: after the rest, so that what was bound stays a prompt's prefix.
    core = [tool for tool in provider.core_tools if tool not in provider.readers]
    late = [tool for tool in provider.core_tools if tool in provider.readers and catalog.call_style != "execute"]
    return distinct([*own, *core, *discovery, *shown, *late])


def make_model_node(
    model: str | BaseChatModel | Runnable[Any, Any],
    provider: ToolProvider,
    *,
    tools: Sequence[BaseTool] = (),
    system_prompt: str | SystemMessage | None = None,
    bind: Callable[[Any, Sequence[BaseTool]], Runnable[Any, Any]] | None = None,
    messages_key: str = "messages",
) -> Runnable[Any, dict[str, Any]]:
    """A node that asks the model, with the tools that the state makes visible bound to it.

    Args:
        model: a chat model, or a name for LangChain's `init_chat_model` (needs the `langchain` extra).
        provider: whose tools.
        tools: the graph's own tools.
        system_prompt: put before the messages; not kept in the state.
        bind: binds tools to the model; default `model.bind_tools(tools)`.
        messages_key: where the state keeps its messages.

    Returns:
        A node for a state with messages and, if searches are to work, `activated_tools`.

    Raises:
        ConfigError: (on use) a rule asks for approval, and the graph has no checkpointer to wait with.
    """
    chat: Any = named_model(model) if isinstance(model, str) else model
    own = tuple(tools)
    scope: dict[str, Any] = {
        "context_window": context_window_of(chat),
        "search_tool": provider_search_tool(provider, chat),
    }
    system = SystemMessage(system_prompt) if isinstance(system_prompt, str) else system_prompt

    def prepared(state: Any, config: RunnableConfig | None) -> tuple[Any, list[AnyMessage]]:
        asks_by_interrupt(provider, value_of(state, "approved_tools") or ())
        activated = value_of(state, "activated_tools") or ()
        shown = bound_tools(provider, own, activated, **scope, modifiers=modifiers_of(config))
        messages = list(state if isinstance(state, list) else value_of(state, messages_key) or ())
        runnable = chat
        if shown:
            runnable = bind(chat, shown) if bind is not None else chat.bind_tools(shown)
        return runnable, [system, *messages] if system is not None else messages

    def call_model(state: Any, config: RunnableConfig) -> dict[str, Any]:
        provider.get_tools()
        runnable, messages = prepared(state, config)
        return {messages_key: answer_of(runnable.invoke(messages, config), messages)}

    async def acall_model(state: Any, config: RunnableConfig) -> dict[str, Any]:
        await provider.get_tools_async()
        runnable, messages = prepared(state, config)
        return {messages_key: answer_of(await runnable.ainvoke(messages, config), messages)}

    return _ModelNode(call_model, acall_model, name="model")


class _ModelNode(RunnableLambda[Any, dict[str, Any]]):
    @cached_property
    def deps(self) -> list[Runnable[Any, Any]]:
        """None: LangChain would keep the node's functions, and so the provider, in a cache of the whole process."""
        return []


def answer_of(message: AnyMessage, before: Sequence[AnyMessage] = ()) -> list[AnyMessage]:
    """What the model said, and an answer to every call that cannot be run because it is not JSON.

    A call without an id gets one: nothing could answer it otherwise. A message whose id an earlier one has gets a new
    one: it would take that one's place in the state, and the turn would look as if nothing had been said.
    """
    if message.id is not None and any(message.id == getattr(earlier, "id", None) for earlier in before):
        message = message.model_copy(update={"id": None})
    if not isinstance(message, AIMessage):
        return [message]
    if any(not call["id"] for call in message.tool_calls):
        calls = [{**call, "id": call["id"] or f"call_{uuid4().hex}"} for call in message.tool_calls]
        message = message.model_copy(update={"tool_calls": calls})
    broken = [call for call in message.invalid_tool_calls if call.get("id")]
    return [message, *(_not_json(call) for call in broken)]


def _not_json(call: InvalidToolCall) -> ToolMessage:
    text = "Error: the arguments of this call are not valid JSON, or were cut off; it did not run. Call again."
    return ToolMessage(text, name=call.get("name") or "", tool_call_id=call.get("id") or "", status="error")


def named_model(name: str) -> Any:
    """The chat model of a name, by LangChain's `init_chat_model`; `ImportError` without the `langchain` extra."""
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(
            "a model by name needs LangChain: pip install 'codebuddy-mcp-tools[langchain]'; or give a chat model"
        ) from error
    return init_chat_model(name)
