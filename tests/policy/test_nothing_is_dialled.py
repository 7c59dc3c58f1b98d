"""A project's servers with addresses inside: one line each in the status, and no socket is opened."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from codebuddy_mcp_tools import Settings, ToolProvider

URLS = [
    "http://169.254.169.254/mcp",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://metadata.google.internal/",
    "http://localhost:9/mcp",
    "http://127.1:9/",
    "http://2130706433:9/",
    "http://[::1]:9/",
    "http://10.0.0.1/mcp",
    "http://u:PASSWORDSEC@127.0.0.1:9/?key=QUERYSEC",
    "http://xn--a-/",
]


@pytest.mark.case("B62")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_no_address_inside_is_dialled_for_a_project(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled: list[Any] = []
    looked_up: list[str] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: dialled.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: looked_up.append(host) or [])
    servers = {f"s{number}": {"type": transport, "url": url} for number, url in enumerate(URLS)}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    settings = Settings(enable_all_project_mcp_servers=True)
    async with ToolProvider(workspace=tmp_path, settings=settings, state_dir=tmp_path / "state") as provider:
        assert await provider.get_tools_async() == []
        messages = [status.message or "" for status in provider.status()]
    assert [message for message in messages if "refused" not in message] == []
    assert not any("SEC" in message for message in messages)
    assert (dialled, looked_up) == ([], [])
