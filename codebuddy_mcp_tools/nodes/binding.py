"""The model node: binds what the state makes visible, and asks the model.

Bound in this order, always the same: the graph's own and core tools, ToolSearch and describe_tool where anything is
hidden, the provider's visible tools, and last what searches have activated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool

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
    """The `Defer`/`NoDefer` modifiers of a run: `configurable["mcp_defer"]`, a text or several."""
    value = ((config or {}).get("configurable") or {}).get(DEFER_KEY) or ()
    return (value,) if isinstance(value, str) else tuple(value)


def distinct(tools: Sequence[Any]) -> list[Any]:
    """The tools without those whose name came before."""
    found: dict[Any, Any] = {}
    for tool in tools:
        found.setdefault(getattr(tool, "name", id(tool)), tool)
    return list(found.values())


def bound_tools(
    provider: ToolProvider,
    own: Sequence[BaseTool],
    activated: Sequence[str],
    *,
    context_window: int | None = None,
    modifiers: Sequence[str] = (),
) -> list[BaseTool]:
    """What is bound to the model, in a fixed order; `own` comes first, without repetitions."""
    catalog = provider.catalog
    scope: dict[str, Any] = {"context_window": context_window, "modifiers": modifiers}
    hidden = catalog.call_style == "execute" or any(level != "full" for level in catalog.levels(**scope).values())
    discovery = catalog.tools(**scope) if hidden else []
    return distinct([*own, *provider.core_tools, *discovery, *catalog.visible(activated, **scope)])


def make_model_node(
    model: BaseChatModel | Runnable[Any, Any],
    provider: ToolProvider,
    *,
    tools: Sequence[BaseTool] = (),
    system_prompt: str | SystemMessage | None = None,
    bind: Callable[[Any, Sequence[BaseTool]], Runnable[Any, Any]] | None = None,
) -> Runnable[Any, dict[str, Any]]:
    """A node that asks the model, with the tools that the state makes visible bound to it.

    Args:
        model: a chat model.
        provider: whose tools.
        tools: the graph's own tools.
        system_prompt: put before the messages; not kept in the state.
        bind: binds tools to the model; default `model.bind_tools(tools)`.

    Returns:
        A node for a state with `messages` and, if searches are to work, `activated_tools`.
    """
    own = tuple(tools)
    window = context_window_of(model)
    system = SystemMessage(system_prompt) if isinstance(system_prompt, str) else system_prompt

    def prepared(
        state: Mapping[str, Any], config: RunnableConfig | None
    ) -> tuple[Runnable[Any, Any], list[AnyMessage]]:
        shown = bound_tools(
            provider, own, state.get("activated_tools") or (), context_window=window, modifiers=modifiers_of(config)
        )
        runnable: Any = model
        if shown:
            runnable = bind(model, shown) if bind is not None else runnable.bind_tools(shown)
        return runnable, [*([system] if system is not None else []), *state["messages"]]

    def call_model(state: Any, config: RunnableConfig) -> dict[str, Any]:
        provider.get_tools()
        runnable, messages = prepared(state, config)
        return {"messages": [runnable.invoke(messages, config)]}

    async def acall_model(state: Any, config: RunnableConfig) -> dict[str, Any]:
        await provider.get_tools_async()
        runnable, messages = prepared(state, config)
        return {"messages": [await runnable.ainvoke(messages, config)]}

    return RunnableLambda(call_model, acall_model, name="model")
