"""The SDK's stdio transport behind our seam: Windows uses it, and it runs here as well."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from codebuddy_mcp_tools.client import Channel, MCPClient, Sink
from codebuddy_mcp_tools.client.stdio_windows import open_stdio
from codebuddy_mcp_tools.errors import ConnectError, ConnectionLostError
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.testing import FaultServer
from tests.client.conftest import MakeClient
from tests.client.fake import tool


def by_sdk(client_of: MakeClient, server: Any) -> MCPClient:
    def open_channel(sink: Sink) -> AbstractAsyncContextManager[Channel]:
        return open_stdio(client.spec, sink, redactor=Redactor())

    client = client_of(server, opener=open_channel)
    return client


async def test_calls_lists_nulls_and_bad_bytes_come_through(client_of: MakeClient) -> None:
    answer = '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}\n'
    script = {"tools": [tool("t")], "calls": {"t": [{"echo": True}], "bad": [{"raw": "noise\n" + answer}]}}
    with FaultServer(script) as server:
        client = by_sdk(client_of, server)
        assert [t.name for t in (await client.list_tools()).tools] == ["t"]
        assert (await client.call_tool("t", {"a": None})).content[0]["text"] == '{"a": null}'
        assert (await client.call_tool("bad", {})).content[0]["text"] == "caf\ufffd"
        await client.aclose()
        assert server.alive() == []


async def test_death_is_told_with_the_last_words(client_of: MakeClient) -> None:
    script = {"calls": {"t": [[{"stderr": "oh no\n"}, {"exit": 1}], [{"text": "back"}]]}}
    with FaultServer(script) as server:
        client = by_sdk(client_of, server)
        with pytest.raises(ConnectionLostError, match="closed its output; its last words: oh no"):
            await client.call_tool("t", {})
        assert (await client.call_tool("t", {})).content[0]["text"] == "back"


async def test_a_missing_command_is_named(client_of: MakeClient) -> None:
    with pytest.raises(ConnectError, match="s: command not found: no-such-cmd-xyz"):
        await by_sdk(client_of, {"command": "no-such-cmd-xyz"}).connect()
