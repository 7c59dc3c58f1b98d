"""What servers send unasked: events for the outside, requests for the handlers, and noise for the log.

Policy: the receive path only puts things here. A worker that lives while there is something to do hands events on in
order; each request of a server's has a task of its own, few at a time and with a deadline. Queues are bounded: of a
flood the newest is kept.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from codebuddy_mcp_tools.client.backoff import Sleep
from codebuddy_mcp_tools.client.crossing import apart
from codebuddy_mcp_tools.client.peer import METHOD_NOT_FOUND
from codebuddy_mcp_tools.client.questions import QuestionRefusedError, question
from codebuddy_mcp_tools.client.request_errors import RequestExpiredError, RequestLostError
from codebuddy_mcp_tools.client.session import Session
from codebuddy_mcp_tools.client.transport import Redacts, RequestId, TransportFault
from codebuddy_mcp_tools.client.values import ClientEvent, EventKind, Handler, ServerHandlers
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import JSON, JSONObject

logger = logging.getLogger(__name__)

MAX_EVENTS = 1000
MAX_REQUESTS = 4
"""Requests of one server's that are handled at the same time; more are refused."""
HANDLER_PATIENCE = 600.0
"""Seconds that a handler, and the person behind it, may take."""
LISTENER_PATIENCE = 60.0
"""Seconds that a listener which is a coroutine may take for one event."""
RELIST_QUIET = 0.25
"""Seconds between a `list_changed` and asking for the list again: several in a row cost one list."""
RELIST_PAUSE = 1.0
"""Seconds between two lists that were asked for because of `list_changed`."""
LONGEST_RELIST_PAUSE = 60.0
BUSY = -32000
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_KINDS_OF_LISTS: dict[str, EventKind] = {
    "notifications/resources/list_changed": "resources_changed",
    "notifications/resources/updated": "resources_changed",
    "notifications/prompts/list_changed": "prompts_changed",
}
_OF_PEOPLE = frozenset({"elicitation/create", "sampling/createMessage"})


class Inbox:
    """The unasked part of one client; a `session.SessionListener`. Lives on the owner loop.

    Args:
        on_event: gets every event, one after another, from the worker.
        on_over: told at once when a session has ended.
        on_tools_changed: told at once that the tool list is out of date.
        relist: asks for the tool list again; awaited after a quiet moment.
    """

    def __init__(
        self,
        server: str,
        handlers: ServerHandlers,
        redactor: Redacts,
        *,
        on_event: Callable[[ClientEvent], Any] | None,
        on_over: Callable[[Session, TransportFault], None],
        on_tools_changed: Callable[[], None],
        relist: Callable[[], Coroutine[Any, Any, None]],
        sleep: Sleep,
    ) -> None:
        self._server = server
        self._redactor = redactor
        self._handlers = handlers
        self._on_event = on_event
        self._on_over = on_over
        self._on_tools_changed = on_tools_changed
        self._relist = relist
        self._sleep = sleep
        self._events: deque[ClientEvent] = deque(maxlen=MAX_EVENTS)
        self._worker: asyncio.Task[None] | None = None
        self._relisting: asyncio.Task[None] | None = None
        self._changed_again = False
        self._requests: dict[tuple[int, RequestId], asyncio.Task[None]] = {}
        self._refusals: set[asyncio.Task[None]] = set()
        self._noisy_sessions: set[int] = set()

    def announce(self, kind: EventKind, message: str, data: JSON = None) -> None:
        """Hand an event to the worker."""
        if self._on_event is None:
            return
        self._events.append(ClientEvent(kind, self._server, message, data))
        if self._worker is None:
            self._worker = apart(self._work(), name=f"mcp-events:{self._server}")

    async def close(self) -> None:
        """Stop handling; what is queued is handed on first."""
        own = asyncio.current_task()  # closing may be what a handler or a listener wants
        cancelled = [*self._requests.values(), *self._refusals, self._relisting]
        for task in cancelled:
            if task is not None and task is not own:
                task.cancel()
        running = [task for task in (*cancelled, self._worker) if task is not None and task is not own]
        if running:
            await asyncio.wait(running, timeout=1.0)

    # -- the session's listener ------------------------------------------------------------------------------------

    def on_request(self, session: Session, request_id: RequestId, method: str, params: JSONObject) -> None:
        """See `session.SessionListener`."""
        handler = self._handlers.for_method(method)
        if handler is None:
            reason = f"this client does not support {clean_line(method, 60)}"
            self._refuse(session, request_id, METHOD_NOT_FOUND, reason)
            return
        key = (id(session), request_id)
        if len(self._requests) >= MAX_REQUESTS or key in self._requests:
            self._refuse(session, request_id, BUSY, "too many requests at the same time")
            return
        try:
            asked = question(self._server, method, params)
        except QuestionRefusedError as error:
            self._refuse(session, request_id, INVALID_PARAMS, str(error))
            return
        work = self._handle(session, request_id, method, handler, asked)
        task = asyncio.get_running_loop().create_task(work, name=f"mcp-request:{self._server}")
        self._requests[key] = task
        task.add_done_callback(lambda _: self._requests.pop(key, None))

    def on_notification(self, session: Session, method: str, params: JSONObject) -> None:
        """See `session.SessionListener`."""
        if method == "notifications/tools/list_changed":
            self._on_tools_changed()
            self.list_again()
        elif method == "notifications/message":
            self.announce("log", f"{self._server}: log message", dict(params))
        elif method == "notifications/cancelled":
            request_id = params.get("requestId")
            task = self._requests.get((id(session), request_id)) if isinstance(request_id, int | str) else None
            if task is not None:
                task.cancel()
        elif method in _KINDS_OF_LISTS:
            kind = _KINDS_OF_LISTS[method]
            if not self._events or self._events[-1].kind != kind:
                self.announce(kind, f"{self._server}: {kind.replace('_', ' ')}")

    def on_noise(self, session: Session, text: str) -> None:
        """See `session.SessionListener`."""
        level = logging.DEBUG if id(session) in self._noisy_sessions else logging.WARNING
        self._noisy_sessions = {id(session)}
        shown = clean_line(self._redactor.redact(text))
        logger.log(level, "server %s sent something that is no MCP message: %s", self._server, shown)

    def on_closed(self, session: Session, fault: TransportFault) -> None:
        """See `session.SessionListener`."""
        for (owner, _), task in tuple(self._requests.items()):
            if owner == id(session) and task is not asyncio.current_task():
                task.cancel()
        self._noisy_sessions.discard(id(session))
        self._on_over(session, fault)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._events:
                event = self._events.popleft()
                try:
                    if self._on_event is not None:
                        outcome = self._on_event(event)
                        if inspect.isawaitable(outcome):
                            async with asyncio.timeout(LISTENER_PATIENCE):
                                await outcome
                except Exception:
                    logger.exception("the listener for events of server %s failed", self._server)
                await asyncio.sleep(0)  # a flood of events must not hold up the loop
        finally:
            self._worker = None

    def list_again(self) -> None:
        """Ask for the tool list again after a quiet moment; what comes meanwhile is covered by the same list."""
        if self._relisting is not None:
            self._changed_again = True
            return
        self._relisting = asyncio.get_running_loop().create_task(self._relist_soon())

    async def _relist_soon(self) -> None:
        pause = RELIST_PAUSE
        try:
            while True:
                await self._sleep(RELIST_QUIET)
                self._changed_again = False
                await self._relist()
                await self._sleep(pause)
                if not self._changed_again:
                    return
                # A server that announces a change with every list would keep us listing for ever.
                pause = min(2 * pause, LONGEST_RELIST_PAUSE)
        finally:
            self._relisting = None

    async def _handle(
        self, session: Session, request_id: RequestId, method: str, handler: Handler, request: dict[str, Any]
    ) -> None:
        try:
            async with asyncio.timeout(HANDLER_PATIENCE):
                if method in _OF_PEOPLE:
                    with session.clock_stopped():
                        result = await _outcome(handler, request)
                else:
                    result = await _outcome(handler, request)
        except TimeoutError:
            await self._reply(lambda: session.refuse(request_id, INTERNAL_ERROR, "nobody answered in time"))
        except Exception:
            logger.exception("the handler for %s of server %s failed", method, self._server)
            reason = "the client could not handle this request"
            await self._reply(lambda: session.refuse(request_id, INTERNAL_ERROR, reason))
        else:
            await self._reply(lambda: session.answer(request_id, result))

    def _refuse(self, session: Session, request_id: RequestId, code: int, reason: str) -> None:
        if len(self._refusals) >= MAX_EVENTS:
            return
        task = asyncio.get_running_loop().create_task(self._reply(lambda: session.refuse(request_id, code, reason)))
        self._refusals.add(task)
        task.add_done_callback(self._refusals.discard)

    async def _reply(self, reply: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await reply()
        except (RequestLostError, RequestExpiredError, TypeError, ValueError) as error:
            logger.debug("an answer to server %s was not sent: %s", self._server, error)


async def _outcome(handler: Handler, request: dict[str, Any]) -> JSON:
    outcome = handler(request)
    return await outcome if inspect.isawaitable(outcome) else outcome
