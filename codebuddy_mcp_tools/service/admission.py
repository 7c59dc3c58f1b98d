"""Who may be started: the settings first, then the stored answers, then the person, if there is one to ask.

Policy: nothing is spawned, dialled or expanded for a server that is not admitted. A person is asked once per server
and process, however many callers wait for the answer, and nobody waits for an answer about another server.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from codebuddy_mcp_tools.config import ServerEntry, Settings
from codebuddy_mcp_tools.policy import ApprovalRequest, ServerApprovals, command_argument
from codebuddy_mcp_tools.types import Admission

logger = logging.getLogger(__name__)

ApprovalHandler = Callable[[ApprovalRequest], bool | Awaitable[bool]]
"""Asked whether something may happen; `True` and nothing else means yes. May be a coroutine function; a plain one runs
in a thread."""


async def ask(handler: ApprovalHandler, request: ApprovalRequest) -> bool:
    """Put a question to the user's handler. What the handler raises is the caller's to deal with.

    Only `True` is a yes: `lambda request: input("may it? ")` answers "n", which is true for Python.
    """
    answer = await consult(handler, request)
    if not (answer is None or isinstance(answer, bool)):
        kind = type(answer).__name__
        logger.warning("the approval handler must return True or False; it returned a %s, which counts as no", kind)
    return answer is True


async def consult(handler: Callable[[Any], Any], request: Any) -> Any:
    """Call a handler of the user's, which may be a coroutine function or a plain one, and give its answer."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        answer = handler(request)
    else:
        # A plain handler may well call input(): it must not stop the loop that everybody's calls run on.
        answer = await asyncio.to_thread(handler, request)
    return await answer if inspect.isawaitable(answer) else answer


class Gatekeeper:
    """Answers "may this server start, and if not, what should the user do?"."""

    def __init__(self, approvals: ServerApprovals, settings: Settings, handler: ApprovalHandler | None) -> None:
        self._approvals = approvals
        self._settings = settings
        self._handler = handler
        self._asked: dict[str, concurrent.futures.Future[bool]] = {}
        self._lock = threading.Lock()

    def admission(self, entry: ServerEntry) -> tuple[Admission, str | None]:
        """The state of an entry and, when it is not admitted, one line that says why and what to do."""
        if entry.config is None:
            return Admission.INVALID, entry.error
        if not entry.config.enabled:
            return Admission.DISABLED, "disabled in its entry; remove `disabled` or set `enabled` to use it"
        if entry.name in self._settings.disabled_mcp_servers:
            return Admission.DISABLED, "named in disabledMcpServers"
        state = self._approvals.state(entry, self._settings)
        approve = f"codebuddy-mcp approve {command_argument(entry.name)}"
        if state is Admission.PENDING:
            return state, f"waits for approval: run `{approve}` or give an approval_handler"
        if state is Admission.REJECTED:
            return state, f"not approved; run `{approve}` to change that"
        return state, None

    @property
    def can_ask(self) -> bool:
        return self._handler is not None

    def fingerprint(self, entry: ServerEntry) -> str:
        """What an answer about this entry is bound to. Reads the user's key."""
        return self._approvals.fingerprint(entry)

    async def answer(self, entry: ServerEntry) -> bool:
        """The person's answer for a pending entry, stored; concurrent callers share one question."""
        if self._handler is None:
            return False
        key = await asyncio.to_thread(self.fingerprint, entry)
        with self._lock:
            mine = key not in self._asked
            future = self._asked.setdefault(key, concurrent.futures.Future())
        if not mine:
            return await asyncio.wrap_future(future)
        try:
            request = await asyncio.to_thread(self._approvals.request, entry)
            approved = await ask(self._handler, request)
        except BaseException:
            # The question was not answered: whoever comes next may ask again.
            with self._lock:
                self._asked.pop(key, None)
            future.set_result(False)
            raise
        await asyncio.to_thread(self._approvals.record, entry, approved)
        future.set_result(approved)
        return approved
