"""From a connection spec to the function that opens its channel. The transports are imported when they are needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from codebuddy_mcp_tools.client.transport import Channel, ConnectionSpec, Opener, Sink
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.types import Transport


def opener_for(spec: ConnectionSpec, redactor: Redactor, environ: Mapping[str, str] | None = None) -> Opener:
    """The opener of one server, for all its sessions.

    Args:
        environ: what stands for our own environment, default `os.environ`.
    """
    if spec.transport is Transport.STDIO:
        return _stdio(spec, redactor, environ)
    return _remote(spec, redactor)


def _stdio(spec: ConnectionSpec, redactor: Redactor, environ: Mapping[str, str] | None) -> Opener:
    def open_channel(sink: Sink) -> AbstractAsyncContextManager[Channel]:
        if sys.platform == "win32":
            from codebuddy_mcp_tools.client.stdio_windows import open_stdio  # noqa: PLC0415
        else:
            from codebuddy_mcp_tools.client.stdio import open_stdio  # noqa: PLC0415
        return open_stdio(spec, sink, redactor=redactor, environ=environ)

    return open_channel


def _remote(spec: ConnectionSpec, redactor: Redactor) -> Opener:
    def open_channel(sink: Sink) -> AbstractAsyncContextManager[Channel]:
        if spec.transport is Transport.SSE:
            from codebuddy_mcp_tools.client.sse import open_sse  # noqa: PLC0415

            return open_sse(spec, sink, redactor=redactor)
        from codebuddy_mcp_tools.client.http import open_http  # noqa: PLC0415

        return open_http(spec, sink, redactor=redactor)

    return open_channel
