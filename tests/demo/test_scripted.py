from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_turns_are_texts_calls_messages_or_functions_of_the_conversation() -> None:
    model = ScriptedChatModel(
        turns=["hello", [("add", {"a": 1, "b": 2})], AIMessage("third"), lambda messages: f"{len(messages)} so far"]
    )
    conversation = [HumanMessage("hi")]
    for _ in range(4):
        conversation.append(model.invoke(conversation))
    texts = [message.text for message in conversation[1:]]
    assert texts == ["hello", "", "third", "4 so far"]
    (call,) = conversation[2].tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 1, "b": 2})


def test_one_model_serves_many_conversations() -> None:
    model = ScriptedChatModel(turns=[AIMessage("one"), "two"])
    first, second = model.invoke("a"), model.invoke("b")
    assert first.text == second.text == "one"
    assert first.id != second.id
    assert model.invoke([HumanMessage("a"), first]).text == "two"


def test_a_conversation_longer_than_the_script_is_an_error() -> None:
    with pytest.raises(IndexError, match="0 turns"):
        ScriptedChatModel(turns=[]).invoke("a")


def test_bound_tools_are_recorded() -> None:
    model = ScriptedChatModel(turns=["x"])
    assert model.bind_tools([add]).invoke("a").text == "x"
    assert model.bound_names() == ["add"]


async def test_streaming_gives_the_same_message_in_pieces() -> None:
    model = ScriptedChatModel(
        turns=[AIMessage("two\nlines", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "1"}])]
    )
    pieces = [piece async for piece in model.astream("a")]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert len(pieces) > 2
    assert whole.text == "two\nlines"
    assert whole.tool_calls[0]["args"] == {"a": 1}
