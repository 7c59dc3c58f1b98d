"""The stdio transport: one child process, one line per message.

Policy: what is on stdout and is not JSON-RPC is skipped; a line that is too long or cannot be read fails the one
request it answers. A request counts as sent only when its last byte has left us. When stdout or stdin ends, or the
process does, the channel waits a moment for the exit code and the last words on stderr, so that everybody who waits
hears the reason.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from codebuddy_mcp_tools.client.lines import (
    MAX_LINE,
    LineSplitter,
    Oversized,
    answered_id,
    looks_like_message,
    parse_line,
)
from codebuddy_mcp_tools.client.pipes import InputPipe, OutputPipe
from codebuddy_mcp_tools.client.process import ChildProcess, describe_exit
from codebuddy_mcp_tools.client.sdk import child_environment
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

_LAST_WORDS = 0.5
"""Seconds that the exit code and the rest of stderr may take after the end of stdout."""
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@asynccontextmanager
async def open_stdio(
    spec: ConnectionSpec,
    sink: Sink,
    *,
    redactor: Redacts,
    environ: Mapping[str, str] | None = None,
    max_line: int = MAX_LINE,
) -> AsyncIterator[Channel]:
    """Start the server's process and yield its channel; afterwards the process and its whole group are gone.

    Args:
        environ: what stands for our own environment, default `os.environ`.
        max_line: bytes of one message on stdout.

    Raises:
        ChannelError: the process cannot be started.
    """
    config = cast("StdioServer", spec.config)
    process = await ChildProcess.start(
        config.command, config.args, env=child_environment(config.env, environ), cwd=config.cwd
    )
    channel = _StdioChannel(process, sink, StderrTail(spec.name, redactor), spec.timeouts.write, max_line)
    try:
        await channel.connect_pipes()
        yield channel
    finally:
        await _to_the_end(channel.shut_down(grace=min(1.5, spec.timeouts.close / 3)))


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Finish bounded work although we are being cancelled, then let the cancellation through."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


class _StdioChannel:
    """See `transport.Channel`."""

    def __init__(
        self, process: ChildProcess, sink: Sink, stderr: StderrTail, write_timeout: float, max_line: int
    ) -> None:
        self.info = ChannelInfo(Transport.STDIO, pid=process.pid, stderr_tail=stderr.lines)
        self._process = process
        self._sink = sink
        self._stderr = stderr
        self._write_timeout = write_timeout
        self._max_line = max_line
        self._loop = asyncio.get_running_loop()
        self._splitter = LineSplitter(max_line)
        self._turn = asyncio.Lock()
        self._stdin = InputPipe(self._input_ended)
        self._stdout = OutputPipe(self._take, lambda: self._ending("closed its output"))
        self._errors = OutputPipe(stderr.feed, stderr.flush)
        self._last_words: asyncio.Task[None] | None = None
        self._over: asyncio.Future[TransportFault] = self._loop.create_future()
        self._shutting_down = False

    async def connect_pipes(self) -> None:
        """Put the three pipes on the loop."""
        popen, loop = self._process.popen, self._loop
        await loop.connect_write_pipe(lambda: self._stdin, popen.stdin)
        await loop.connect_read_pipe(lambda: self._stdout, popen.stdout)
        await loop.connect_read_pipe(lambda: self._errors, popen.stderr)
        self._process.exited.add_done_callback(lambda _: self._ending("left"))

    # -- out -------------------------------------------------------------------------------------------------------

    async def send(self, message: JSONObject, *, headers: Mapping[str, str] | None = None) -> None:  # noqa: ARG002
        """See `transport.Channel`. A lone surrogate or NaN in the message is a `ValueError`."""
        data = (_encode(message) + "\n").encode()
        if not self._stdin.is_drained or self._turn.locked():
            await self._wait_for_turn()
        else:
            await self._turn.acquire()  # free, so this does not wait
        try:
            await self._drain(sent=False)
            if self._last_words is not None or not self._stdin.write(data):
                raise await self._closed_already()
            await self._drain(sent=True)
        finally:
            self._turn.release()

    async def _wait_for_turn(self) -> None:
        try:
            async with asyncio.timeout(self._write_timeout):
                await self._turn.acquire()
        except TimeoutError:
            raise self._stalled(sent=False) from None

    async def _drain(self, *, sent: bool) -> None:
        if self._stdin.is_drained:
            return
        try:
            async with asyncio.timeout(self._write_timeout):
                has_left = await self._stdin.drained()
        except TimeoutError:
            raise self._stalled(sent=sent) from None
        if not has_left:  # the end of the line was still with us, and half a line is no message
            raise await self._closed_already()

    async def _closed_already(self) -> ChannelError:
        """Nothing left us; the reason is worth a moment."""
        await asyncio.wait({self._over}, timeout=2 * _LAST_WORDS)
        fault = self._over.result() if self._over.done() else TransportFault("the server's input is closed")
        return ChannelError(replace(fault, sent=False))

    def _stalled(self, *, sent: bool) -> ChannelError:
        reason = f"the server has not read its input for {self._write_timeout:g} s"
        return ChannelError(TransportFault(reason, sent=sent, timed_out=True))

    # -- in --------------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._take_line(line)

    def _take_line(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            limit = f"{self._max_line / 1e6:.3g} MB"
            self._sink.garbled(answered_id(line.head, line.tail), f"the answer is one line of more than {limit}")
            return
        if not line or line.isspace():
            return
        try:
            value = parse_line(line)
        except ValueError as error:
            request_id = answered_id(line) if looks_like_message(line) else None
            if request_id is None:
                self._sink.noise(line[:200].decode("utf-8", "replace"))
            else:
                reason = "nested too deeply" if "nested" in str(error) else "not valid JSON"
                self._sink.garbled(request_id, f"the answer is {reason}")
            return
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, dict):
                self._sink.message(item)
            else:
                self._sink.noise(line[:200].decode("utf-8", "replace"))
                return

    # -- the end ---------------------------------------------------------------------------------------------------

    def _input_ended(self) -> None:
        self._ending("closed its input")

    def _ending(self, how: str) -> None:
        if self._last_words is None and not self._shutting_down:
            self._last_words = self._loop.create_task(self._listen_to_last_words(how))

    async def _listen_to_last_words(self, how: str) -> None:
        waiting = {self._process.exited, self._stdout.ended, self._errors.ended}
        await asyncio.wait(waiting, timeout=_LAST_WORDS)
        for line in self._splitter.flush():
            self._take_line(line)
        fault = self._fault(how)
        if not self._over.done():
            self._over.set_result(fault)
        self._sink.closed(fault)

    def _fault(self, how: str) -> TransportFault:
        code = self.info.returncode = self._process.returncode
        text = f"the process {how} but still runs" if code is None else f"the process {describe_exit(code)}"
        if shown := self._stderr.last_words():
            text += f"; its last words: {' | '.join(shown)}"
        return TransportFault(text, exit_code=code)

    async def shut_down(self, grace: float) -> None:
        """Close the pipes and end the process group, in that order."""
        self._shutting_down = True
        if self._last_words is not None:
            self._last_words.cancel()
        if not self._over.done():
            self._over.set_result(TransportFault("the session was closed"))
        self._stdin.close()
        await self._process.end(grace)
        self.info.returncode = self._process.returncode
        for pipe in (self._stdin, self._stdout, self._errors):
            pipe.abort()
        popen = self._process.popen
        for file in (popen.stdin, popen.stdout, popen.stderr):
            if file is not None:
                file.close()
