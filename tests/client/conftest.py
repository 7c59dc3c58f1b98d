"""Clients that are closed at the end of each test, whatever happened in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import pytest

from codebuddy_mcp_tools.client import ConnectionSpec, MCPClient, Timeouts
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.testing import FaultServer
from tests.client.fake import FakeServer, instant


class MakeClient(Protocol):
    """Makes a client of a fault server, a fake server or a stdio entry; `timeouts` are fields of `Timeouts`."""

    def __call__(
        self,
        server: FaultServer | FakeServer | Mapping[str, Any],
        *,
        timeouts: Mapping[str, float] = ...,
        **options: Any,
    ) -> MCPClient: ...


SPEC_FIELDS = frozenset(ConnectionSpec.__dataclass_fields__)


@pytest.fixture
async def client_of() -> AsyncIterator[MakeClient]:
    """A factory of clients, named `s`; reconnecting does not wait unless the test gives its own `sleep`."""
    made: list[MCPClient] = []

    def make(
        server: FaultServer | FakeServer | Mapping[str, Any],
        *,
        timeouts: Mapping[str, float] | None = None,
        **options: Any,
    ) -> MCPClient:
        limits = Timeouts(**{"connect": 20.0, "call": 20.0, "close": 3.0, **(timeouts or {})})
        fields = {name: options.pop(name) for name in SPEC_FIELDS & options.keys()}
        if isinstance(server, FakeServer):
            entry: Mapping[str, Any] = {"command": "fake"}
            options.setdefault("opener", server.open)
        else:
            entry = server.stdio_config() if isinstance(server, FaultServer) else server
        spec = ConnectionSpec(**{"name": "s", "config": StdioServer(**entry), "timeouts": limits, **fields})
        options.setdefault("sleep", instant)
        client = MCPClient(spec, **options)
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()
