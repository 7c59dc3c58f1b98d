"""Arguments and results as they are."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.client import ClientEvent
from tests.client.conftest import MakeClient
from tests.client.fake import (
    CALLS,
    FakeServer,
    until,
)


@pytest.mark.case("B20")
async def test_a_result_that_breaks_the_tools_own_schema_is_delivered(client_of: MakeClient) -> None:
    result = {"structuredContent": {"n": "one"}, "content": [{"type": "text", "text": "useful"}]}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [{"name": "t", "inputSchema": {}, "outputSchema": schema}]
    server = FakeServer(
        tools__call=lambda c, m: c.reply(m, result), tools__list=lambda c, m: c.reply(m, {"tools": tools})
    )
    client = client_of(server)
    await client.list_tools()
    answer = await client.call_tool("t", {})
    assert answer.content == ({"type": "text", "text": "useful"},)
    assert answer.structured_content == {"n": "one"}
    assert not answer.is_error
    assert len(server.sent("tools/call")) == 1


async def test_arguments_arrive_as_they_are_with_their_nulls(client_of: MakeClient) -> None:
    server = FakeServer(**CALLS)
    arguments = {"a": None, "config": {"b": [None, True, 1.5]}, "self": "x", "é\u2028": "\U0001f600"}
    await client_of(server).call_tool("t", arguments, meta={"trace": "1"})
    assert server.sent("tools/call")[0]["params"] == {"name": "t", "arguments": arguments, "_meta": {"trace": "1"}}


async def test_every_event_listener_that_fails_is_survived(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: ClientEvent) -> None:
        raise LookupError(event.kind)

    server = FakeServer(**CALLS)
    await client_of(server, on_event=broken).call_tool("t", {})
    await until(lambda: "listener for events" in caplog.text)
