"""A chat model that follows a script: for demonstrations, notebooks and tests without a model provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

Calls = Sequence[tuple[str, Mapping[str, Any]]]
Turn = str | AIMessage | Calls | Callable[[list[BaseMessage]], "str | AIMessage | Calls"]
"""What the model says once: a text, tool calls as `(name, arguments)` pairs, a whole message, or a function of the
conversation that gives one of these."""


class ScriptedChatModel(BaseChatModel):
    """A chat model whose n-th answer in a conversation is the n-th turn of its script.

    Which turn it is follows from the number of AI messages in the conversation, so that one model serves many threads
    and a resumed run goes on where it stopped.

    Attributes:
        turns: the script.
        bound: for each `bind_tools`, the OpenAI-style definitions that were bound, oldest first.
        profile: see LangChain's model profiles; `{"max_input_tokens": n}` sets the context window.

    Raises:
        IndexError: (on use) the conversation is longer than the script.
    """

    turns: list[Any]
    bound: list[list[dict[str, Any]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Record what is bound, and bind it as a provider's model would."""
        definitions = [convert_to_openai_tool(tool) for tool in tools]
        self.bound.append(definitions)
        return self.bind(tools=definitions, **kwargs)

    def bound_names(self) -> list[str]:
        """The names of the tools that were bound last."""
        return [definition["function"]["name"] for definition in self.bound[-1]] if self.bound else []

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._say(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> Iterator[ChatGenerationChunk]:
        for piece in _pieces(self._say(messages)):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager is not None:
                run_manager.on_llm_new_token(str(piece.text), chunk=chunk)
            yield chunk

    def _say(self, messages: list[BaseMessage]) -> AIMessage:
        number = sum(isinstance(message, AIMessage) for message in messages)
        if number >= len(self.turns):
            raise IndexError(f"the script has {len(self.turns)} turns; the model was asked for turn {number + 1}")
        turn = self.turns[number]
        said = turn(messages) if callable(turn) else turn
        if isinstance(said, AIMessage):
            return said.model_copy()
        if isinstance(said, str):
            return AIMessage(said)
        calls = [
            {"name": name, "args": dict(arguments), "id": f"call_{number + 1}_{position}", "type": "tool_call"}
            for position, (name, arguments) in enumerate(said, 1)
        ]
        return AIMessage("", tool_calls=calls)


def _pieces(message: AIMessage) -> Iterator[AIMessageChunk]:
    for word in str(message.text).splitlines(keepends=True):
        yield AIMessageChunk(content=word)
    for index, call in enumerate(message.tool_calls):
        piece = ToolCallChunk(
            name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index, type="tool_call_chunk"
        )
        yield AIMessageChunk(content="", tool_call_chunks=[piece])
    yield AIMessageChunk(content="", chunk_position="last")
