"""A person who has connected everything: 353 tools on fifteen servers, and an agent that finds and uses one on each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, ToolMessage

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.demo.scripted import Calls, ScriptedChatModel
from codebuddy_mcp_tools.testing import FaultServer
from tests.nodes import places
from tests.nodes.scenarios import answers
from tests.servers import many

REQUESTS = [each.request for each in many.tool_lists()]
ENOUGH_STEPS = {"recursion_limit": 200}


@dataclass(frozen=True)
class World:
    """The servers, and how they are configured."""

    servers: dict[str, FaultServer]
    entries: dict[str, Any]

    def calls(self) -> dict[str, list[tuple[str, Any]]]:
        """Every call that has reached each server so far."""
        return {name: [(c["name"], c["arguments"]) for c in server.calls()] for name, server in self.servers.items()}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with many.running(many.tool_lists()) as (servers, entries):
        yield World(servers, entries)


def seeker() -> ScriptedChatModel:
    """A model that works off the requests one by one, with nothing but what is bound.

    It searches where it can, and calls what the search has found; else it picks from the tools it was given.
    """

    def step(messages: list[BaseMessage]) -> str | Calls:
        last, bound = messages[-1], chat.bound_names()
        used = [m for m in messages if isinstance(m, ToolMessage) and m.name != "ToolSearch"]
        if len(used) == len(REQUESTS):
            return "All done."
        request = REQUESTS[len(used)]
        if "ToolSearch" in bound:
            if not (isinstance(last, ToolMessage) and last.name == "ToolSearch"):
                return [("ToolSearch", {"query": request.words})]
            assert request.visible_name in last.text
        if "execute_tool" in bound:
            return [("execute_tool", {"name": request.visible_name, "arguments": request.arguments})]
        assert request.visible_name in bound
        return [(request.visible_name, request.arguments)]

    chat = ScriptedChatModel(turns=[step] * (2 * len(REQUESTS) + 2))
    return chat


async def work_off(place: places.Place, world: World, folder: Path, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    """Let the model work in a place, and see to it that every server got its call, once, and answered it."""
    before, chat = world.calls(), seeker()
    chosen = Settings.model_validate(settings)
    async with ToolProvider(world.entries, settings=chosen, state_dir=folder) as provider:
        question = {"messages": [("user", "Work off my list.")]}
        state = await place(chat, provider).ainvoke(question, ENOUGH_STEPS)
    for request in REQUESTS:
        [call] = world.calls()[request.server][len(before[request.server]) :]
        assert call == (request.tool, request.arguments)
    results = [message for message in answers(state) if message.name != "ToolSearch"]
    for request, message in zip(REQUESTS, results, strict=True):
        assert message.status == "success", message.text
        assert (message.artifact["server"], message.artifact["tool"]) == (request.server, request.tool)
        assert all(json.dumps(value) in message.text for value in request.arguments.values())
    assert state["messages"][-1].text == "All done."
    return state, chat


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [definition["function"]["name"] for definition in definitions]


def test_the_lists_are_those_of_somebody_who_has_connected_a_lot() -> None:
    lists = many.tool_lists()
    assert len(lists) >= 12
    assert sum(len(each.tools) for each in lists) >= 300


@pytest.mark.parametrize("place", places.WITH_STATE, ids=lambda place: place.__name__)
async def test_a_tool_on_each_server_is_found_bound_and_used(place, world, tmp_path):
    state, chat = await work_off(place, world, tmp_path, toolExposure="auto")
    assert names(chat.bound[0]) == ["ToolSearch", "describe_tool"]
    for earlier, later in pairwise(chat.bound):
        assert later[: len(earlier)] == earlier  # what was bound stays as it was, new tools come after it
    assert {request.visible_name for request in REQUESTS} <= set(state["activated_tools"])


async def test_what_the_agent_wrote_and_did_not_look_at_is_told_at_the_end(world, tmp_path):
    state, _ = await work_off(places.whole_agent, world, tmp_path, toolExposure="deferred")
    written = [write["server"] for write in state["unverified_writes"]]
    assert written == [request.server for request in REQUESTS if not request.reads]


async def test_with_stubs_every_tool_is_bound_from_the_start(world, tmp_path):
    _, chat = await work_off(places.whole_agent, world, tmp_path, toolExposure="stub")
    assert len(chat.bound[0]) > 300
    assert all(definitions == chat.bound[0] for definitions in chat.bound)


@pytest.mark.parametrize("place", [places.whole_agent, places.strangers_graph], ids=lambda place: place.__name__)
async def test_in_full_nothing_has_to_be_searched_for(place, world, tmp_path):
    state, chat = await work_off(place, world, tmp_path, toolExposure="full")
    assert len(chat.bound[0]) > 300
    assert len(answers(state)) == len(REQUESTS)


@pytest.mark.parametrize("place", [places.whole_agent, places.langchain_agent], ids=lambda place: place.__name__)
async def test_in_the_execute_style_the_same_three_tools_are_bound_all_along(place, world, tmp_path):
    _, chat = await work_off(place, world, tmp_path, callStyle="execute")
    assert names(chat.bound[0]) == ["ToolSearch", "describe_tool", "execute_tool"]
    assert all(definitions == chat.bound[0] for definitions in chat.bound)
