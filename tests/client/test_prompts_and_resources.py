"""Prompts and resources, read leniently."""

from __future__ import annotations

from typing import Any

import pytest

from codebuddy_mcp_tools.errors import ProtocolError
from tests.client.conftest import MakeClient
from tests.client.fake import FakeServer


async def test_prompts_and_resources_are_read_leniently(client_of: MakeClient) -> None:
    prompts = [
        {"name": "p", "arguments": [{"name": "x", "required": True}, {"required": True}]},
        {"title": "no name"},
        7,
    ]
    resources = [{"uri": "db://1", "name": "one", "size": 12, "mimeType": "text/plain"}, {"name": "no uri"}]
    templates = [{"uriTemplate": "db://{id}", "name": "any"}]
    server = FakeServer(
        prompts__list=lambda c, m: c.reply(m, {"prompts": prompts}),
        resources__list=lambda c, m: c.reply(m, {"resources": resources}),
        resources__templates__list=lambda c, m: c.reply(m, {"resourceTemplates": templates}),
    )
    client = client_of(server)
    (prompt,) = await client.list_prompts()
    assert (prompt.name, [a.name for a in prompt.arguments], prompt.arguments[0].required) == ("p", ["x"], True)
    found = await client.list_resources()
    assert [(r.uri, r.size, r.is_template) for r in found] == [("db://1", 12, False), ("db://{id}", None, True)]


async def test_a_server_without_prompts_or_resources_has_none(client_of: MakeClient) -> None:
    missing = {"code": -32601, "message": "Method not found"}
    server = FakeServer(
        **{
            name: lambda c, m: c.push({"id": m["id"], "error": missing})
            for name in ("prompts__list", "resources__list", "resources__templates__list", "tools__list")
        }
    )
    client = client_of(server)
    assert await client.list_prompts() == ()
    assert await client.list_resources() == ()
    assert (await client.list_tools()).tools == ()


async def test_prompt_messages_and_resource_contents(client_of: MakeClient) -> None:
    messages = [
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "system", "content": "words"},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, 7]},
        "odd",
    ]
    contents = [
        {"uri": "a", "text": "x"},
        {"uri": "b", "blob": "AAEC"},
        {"uri": "c", "blob": "AAEC", "mimeType": "image/png"},
        {"uri": "d", "blob": "%%%"},
        {"uri": "e"},
    ]
    server = FakeServer(
        prompts__get=lambda c, m: c.reply(m, {"messages": messages}),
        resources__read=lambda c, m: c.reply(m, {"contents": contents}),
    )
    client = client_of(server)
    got = await client.get_prompt("p", {"x": "1"})
    assert [(m.role, m.content["text"]) for m in got] == [("user", "hi"), ("user", "words"), ("assistant", "a")]
    parts = await client.read_resource("a")
    assert [(p.uri, p.text, p.blob, p.mime_type) for p in parts] == [
        ("a", "x", None, None),
        ("b", None, b"\0\1\2", "application/octet-stream"),
        ("c", None, b"\0\1\2", "image/png"),
    ]
    assert server.sent("prompts/get")[0]["params"] == {"name": "p", "arguments": {"x": "1"}}


@pytest.mark.parametrize("result", [None, [], {}, {"messages": 1, "contents": 1}])
async def test_an_answer_without_its_list_is_named(client_of: MakeClient, result: Any) -> None:
    server = FakeServer(prompts__get=lambda c, m: c.reply(m, result), resources__read=lambda c, m: c.reply(m, result))
    client = client_of(server)
    with pytest.raises(ProtocolError, match=r"prompt 'p'.*no list of messages"):
        await client.get_prompt("p")
    with pytest.raises(ProtocolError, match=r"resource 'r'.*no list of contents"):
        await client.read_resource("r")
