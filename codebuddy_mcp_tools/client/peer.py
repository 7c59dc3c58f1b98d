"""JSON-RPC 2.0 over a channel: requests out, answers matched to them, everything bounded by a deadline.

Policy: an answer wakes its caller directly: nothing a handler or a callback does can hold up a reply, and a reply that
has arrived is never lost to a deadline or to the end of the channel in the same moment. Answers are taken leniently (a
number as a string, a wrong `jsonrpc`): the request has run, and its result is worth more than its form. When the
channel ends, every waiting request fails at once with the reason.

This stands in place of the SDK's `ClientSession`, whose receive loop waits for callbacks, drops what it cannot
validate, lets requests hang when a session closes, and costs two thirds of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from codebuddy_mcp_tools.client.pending import OnProgress, Pending
from codebuddy_mcp_tools.client.request_errors import (
    AnswerError,
    AnswerGarbledError,
    RequestExpiredError,
    RequestLostError,
    RequestUnsendableError,
)
from codebuddy_mcp_tools.client.transport import Channel, ChannelError, RequestId, TransportFault
from codebuddy_mcp_tools.types import JSON, JSONObject

METHOD_NOT_FOUND = -32601
_CANCEL_PATIENCE = 1.0
"""Seconds that telling the server about a cancelled request may take."""
_MAX_PAUSES = 3
_MAX_BACKGROUND = 64
"""Pings answered and cancellations told at the same time; a flood is left unanswered."""


class Listener(Protocol):
    """Who hears what the server sends unasked. Called inside the receive path: enqueue, do not work."""

    def on_request(self, request_id: RequestId, method: str, params: JSONObject) -> None:
        """The server asks for something (never `ping`, which is answered here)."""

    def on_notification(self, method: str, params: JSONObject) -> None:
        """The server tells something (never progress of our own requests)."""

    def on_noise(self, text: str) -> None:
        """Something that is no JSON-RPC message."""

    def on_closed(self, fault: TransportFault) -> None:
        """The channel is over."""


class Peer:
    """Our end of one channel; a `transport.Sink`. Lives on the owner loop."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._channel: Channel | None = None
        self._fault: TransportFault | None = None
        self._retired: TransportFault | None = None
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self._stray = 0
        self._background: set[asyncio.Task[None]] = set()
        self.answered = 0
        """Requests that were answered, with a result or an error."""

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._pending)

    def attach(self, channel: Channel) -> None:
        """The channel is open: requests may be sent from now on."""
        self._channel = channel

    async def request(
        self,
        method: str,
        params: JSONObject | None,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
        tell_cancelled: bool = True,
    ) -> JSON:
        """Send one request and wait for its result.

        Args:
            timeout: seconds, for writing and waiting together.
            on_progress: called from the receive path; it must only enqueue.
            tell_cancelled: send `notifications/cancelled` when the caller gives up or the deadline passes.

        Raises:
            AnswerError, AnswerGarbledError, RequestLostError, RequestExpiredError, RequestUnsendableError: see there.
        """
        if self._channel is None or self._fault is not None or self._retired is not None:
            raise RequestLostError(self._gone())
        request_id = self._next_id
        self._next_id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if on_progress is not None:
            params = {**(params or {}), "_meta": {**((params or {}).get("_meta") or {}), "progressToken": request_id}}
        if params is not None:
            message["params"] = params
        self._pending[request_id] = pending = Pending(self._loop.create_future(), timeout, on_progress)
        stray = self._stray
        try:
            async with pending.deadline:
                await self._channel.send(message, headers=headers)
                pending.sent = True
                answer = await pending.future
        except ChannelError as error:
            raise RequestLostError(error.fault) from None
        except (TypeError, ValueError, RecursionError) as error:
            raise RequestUnsendableError(error) from None
        except TimeoutError:
            if not pending.has_answer:
                self._give_up(request_id, f"no answer within {timeout:g} s", tell=tell_cancelled)
                raise RequestExpiredError(self._stray - stray) from None
            answer = pending.future.result()
        except asyncio.CancelledError:
            self._give_up(request_id, "cancelled by the caller", tell=tell_cancelled and not pending.has_answer)
            raise
        finally:
            self._forget(request_id)
        result, failure = answer
        if failure is not None:
            raise failure
        return result

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """While a person is asked on behalf of the server, the deadlines of the requests that are out stand still.

        A server can stretch one request this way three times at most.
        """
        paused: list[tuple[Pending, float]] = []
        for pending in self._pending.values():
            when = pending.deadline.when()
            if when is not None and pending.sent and pending.paused < _MAX_PAUSES:
                pending.paused += 1
                pending.deadline.reschedule(None)
                paused.append((pending, when - self._loop.time()))
        try:
            yield
        finally:
            for pending, left in paused:
                if not pending.future.done():
                    pending.deadline.reschedule(self._loop.time() + left)

    async def notify(self, method: str, params: JSONObject | None = None, *, timeout: float) -> None:
        """Send a notification. Raises `RequestLostError` or `RequestExpiredError`."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._send(message, timeout)

    async def answer(self, request_id: RequestId, result: JSON, *, timeout: float) -> None:
        """Answer a request of the server's. Raises as `notify` does."""
        await self._send({"jsonrpc": "2.0", "id": request_id, "result": result}, timeout)

    async def refuse(self, request_id: RequestId, code: int, reason: str, *, timeout: float) -> None:
        """Answer a request of the server's with an error. Raises as `notify` does."""
        error = {"code": code, "message": reason}
        await self._send({"jsonrpc": "2.0", "id": request_id, "error": error}, timeout)

    def close(self, fault: TransportFault) -> None:
        """Fail everything that waits, now, and take no more requests. Only the first call counts."""
        if self._fault is not None:
            return
        self._fault = fault
        # Whoever reads this has written its request; one that is still writing hears from the channel whether it left.
        lost = replace(fault, sent=True)
        for pending in tuple(self._pending.values()):
            pending.settle((None, RequestLostError(lost)))
        for task in tuple(self._background):
            task.cancel()
        self._listener.on_closed(fault)

    def retire(self, fault: TransportFault) -> None:
        """Take no more requests, and close once those that are out have been answered."""
        self._retired = fault
        if not self._pending:
            self.close(fault)

    async def drained(self) -> None:
        """Wait for what is still being written beside the requests; each piece has its own short deadline."""
        await asyncio.gather(*self._background, return_exceptions=True)

    # -- the sink --------------------------------------------------------------------------------------------------

    def message(self, message: dict[str, Any]) -> None:
        """See `transport.Sink`."""
        method = message.get("method")
        if method is None:
            if "id" in message:
                self._take_answer(message)
            else:
                self._listener.on_noise(str(message)[:200])
            return
        if not isinstance(method, str):
            self._listener.on_noise(str(message)[:200])
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        request_id = message.get("id")
        if request_id is None:
            self._take_notification(method, params)
        elif isinstance(request_id, int | str):
            self._take_request(request_id, method, params)

    def garbled(self, request_id: RequestId | None, reason: str) -> None:
        """See `transport.Sink`."""
        pending = self._pending_for(request_id) if request_id is not None else self._only_pending()
        if pending is None:
            self._listener.on_noise(reason)
        else:
            pending.settle((None, AnswerGarbledError(reason)))

    def noise(self, text: str) -> None:
        """See `transport.Sink`."""
        self._listener.on_noise(text)

    def closed(self, fault: TransportFault) -> None:
        """See `transport.Sink`."""
        self.close(fault)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _take_answer(self, message: dict[str, Any]) -> None:
        error = message.get("error")
        pending = self._pending_for(message["id"])
        if pending is None and message["id"] is None and error is not None:
            # JSON-RPC answers null when it could not even read the id; with one request out it must be that one.
            pending = self._only_pending()
        if pending is None:
            self._stray += 1
            return
        self.answered += 1
        if error is not None:
            pending.settle((None, AnswerError(error)))
        elif "result" in message:
            pending.settle((message["result"], None))
        else:
            pending.settle((None, AnswerGarbledError("the answer holds neither a result nor an error")))

    def _pending_for(self, request_id: JSON) -> Pending | None:
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 20:
            request_id = int(request_id)
        if isinstance(request_id, float) and request_id.is_integer():
            request_id = int(request_id)
        return self._pending.get(request_id) if type(request_id) is int else None

    def _only_pending(self) -> Pending | None:
        return next(iter(self._pending.values())) if len(self._pending) == 1 else None

    def _take_request(self, request_id: RequestId, method: str, params: JSONObject) -> None:
        if method == "ping":
            self._in_background(lambda: self.answer(request_id, {}, timeout=_CANCEL_PATIENCE))
        else:
            self._listener.on_request(request_id, method, params)

    def _take_notification(self, method: str, params: JSONObject) -> None:
        if method != "notifications/progress":
            self._listener.on_notification(method, params)
            return
        pending = self._pending_for(params.get("progressToken"))
        if pending is not None:
            pending.tell_progress(params)

    def _forget(self, request_id: int) -> None:
        self._pending.pop(request_id, None)
        if self._retired is not None:
            self.retire(self._retired)

    def _give_up(self, request_id: int, reason: str, *, tell: bool) -> None:
        if tell and self._fault is None:
            params = {"requestId": request_id, "reason": reason}
            self._in_background(lambda: self.notify("notifications/cancelled", params, timeout=_CANCEL_PATIENCE))

    def _in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if len(self._background) >= _MAX_BACKGROUND:
            return
        task = self._loop.create_task(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send(self, message: JSONObject, timeout: float) -> None:
        if self._channel is None or self._fault is not None:
            raise RequestLostError(self._gone())
        try:
            async with asyncio.timeout(timeout):
                await self._channel.send(message)
        except ChannelError as error:
            raise RequestLostError(error.fault) from None
        except TimeoutError:
            raise RequestExpiredError(0) from None

    def _gone(self) -> TransportFault:
        return replace(self._fault or self._retired or TransportFault("not connected"), sent=False)


async def _quietly(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """What is told beside the requests is best effort: the channel's end says the rest."""
    try:
        await work()
    except (RequestLostError, RequestExpiredError):
        return
