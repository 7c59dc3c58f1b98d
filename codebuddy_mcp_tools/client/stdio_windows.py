"""The stdio transport on Windows: the SDK's own, behind our seam. Not tested: the project has no Windows machine.

The SDK finds `npx.cmd` for `npx`, hides console windows and puts the process into a Job Object, so that its whole
tree ends with it. What its transport lacks here, compared with `stdio.py`: a limit for the length of a line, the exit
code in errors, and certainty whether a request had left when the process died (it then counts as sent).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from codebuddy_mcp_tools.client import sdk
from codebuddy_mcp_tools.client.faults import fault_of
from codebuddy_mcp_tools.client.process import why_not_started
from codebuddy_mcp_tools.client.stderr import StderrTail
from codebuddy_mcp_tools.client.transport import (
    Channel,
    ChannelError,
    ChannelInfo,
    ConnectionSpec,
    Redacts,
    Sink,
    TransportFault,
)
from codebuddy_mcp_tools.config.models import StdioServer
from codebuddy_mcp_tools.types import JSONObject, Transport

_TAIL_BYTES = 64 << 10


@asynccontextmanager
async def open_stdio(
    spec: ConnectionSpec, sink: Sink, *, redactor: Redacts, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Channel]:
    """See `stdio.open_stdio`."""
    config = cast("StdioServer", spec.config)
    env = sdk.child_environment(config.env, environ)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            async with sdk.stdio_streams(config.command, config.args, env, config.cwd, errors) as streams:
                channel = _SdkChannel(streams, sink, spec, redactor, errors)
                try:
                    yield channel
                finally:
                    await channel.stop()
        except OSError as error:
            reason = why_not_started(error, config.command, config.args, env=env, cwd=config.cwd)
            raise ChannelError(TransportFault(reason, sent=False, connect=True, retryable=False)) from None


class _SdkChannel:
    """See `transport.Channel`."""

    def __init__(self, streams: sdk.Streams, sink: Sink, spec: ConnectionSpec, redactor: Redacts, errors: Any) -> None:
        self.info = ChannelInfo(Transport.STDIO, stderr_tail=self._last_words)
        self._streams = streams
        self._sink = sink
        self._spec = spec
        self._redactor = redactor
        self._errors = errors
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """See `transport.Channel`."""
        limit = self._spec.timeouts.write
        try:
            async with asyncio.timeout(limit):
                await self._streams.send(message)
        except TimeoutError:
            reason = f"the server has not read its input for {limit:g} s"
            raise ChannelError(TransportFault(reason, timed_out=True)) from None
        except sdk.StreamsClosedError as error:
            raise ChannelError(TransportFault(str(error))) from None

    async def _read(self) -> None:
        try:
            async for item in self._streams.received():
                if isinstance(item, dict):
                    self._sink.message(item)
                else:
                    self._sink.noise(str(item)[:200])
        except sdk.StreamsClosedError as error:
            self._sink.closed(replace(fault_of(error), message=str(error)))
        else:
            words = self._last_words()[-3:]
            text = "the process closed its output" + (f"; its last words: {' | '.join(words)}" if words else "")
            self._sink.closed(TransportFault(text))

    async def stop(self) -> None:
        """Stop reading; the SDK ends the process."""
        self._reader.cancel()
        await asyncio.wait({self._reader})

    def _last_words(self) -> tuple[str, ...]:
        if self._errors.closed:
            return ()
        # A duplicate has the same position as ours, and the child writes through its own: reading does not disturb it.
        size = os.fstat(self._errors.fileno()).st_size
        with open(os.dup(self._errors.fileno()), "rb", buffering=0) as file:
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
        tail = StderrTail(self._spec.name, self._redactor)
        tail.feed(data)
        tail.flush()
        return tail.lines()
