"""One request, from the breaker to the answer: the straight line of every call.

Policy: ask the breaker, take a session, send, wait. A second time only if the first provably never left, or may run
twice by the caller's word; never after an HTTP status, which is an answer. What the breaker hears: see `_count`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from codebuddy_mcp_tools.client.breaker import CircuitBreaker, Permit
from codebuddy_mcp_tools.client.faults import ErrorTexts
from codebuddy_mcp_tools.client.link import Link
from codebuddy_mcp_tools.client.pending import OnProgress
from codebuddy_mcp_tools.client.request_errors import (
    AnswerError,
    AnswerGarbledError,
    RequestExpiredError,
    RequestLostError,
    RequestUnsendableError,
)
from codebuddy_mcp_tools.client.session import CLOSED_BY_US, Session
from codebuddy_mcp_tools.client.transport import ChannelError, ConnectionSpec, TransportFault
from codebuddy_mcp_tools.errors import BlockedURLError, CircuitOpenError, ConnectError, MCPToolsError
from codebuddy_mcp_tools.types import JSON, ServerInfo

_GATEWAY_STATUS = frozenset({502, 503, 504})
"""What a proxy says when the server behind it is not there."""


class _LostInTransitError(Exception):
    """One sending went wrong, and has been counted."""

    def __init__(self, fault: TransportFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _Request(NamedTuple):
    method: str
    params: dict[str, Any] | None
    timeout: float
    headers: Mapping[str, str] | None
    on_progress: OnProgress | None


class Asker:
    """Sends the requests of one client. Lives on the owner loop."""

    def __init__(self, spec: ConnectionSpec, link: Link, breaker: CircuitBreaker, texts: ErrorTexts) -> None:
        self._spec = spec
        self._link = link
        self._breaker = breaker
        self._texts = texts
        self._checks: dict[Session, asyncio.Task[None]] = {}

    async def connect(self) -> ServerInfo:
        """See `MCPClient.connect`."""
        session = self._link.session
        if session is not None and session.is_ready and session.info is not None and self._breaker.admits:
            return session.info
        permit = self._admit()
        try:
            session = await self._session(permit)
            info = session.info
            if info is None:
                raise self._texts.connect(session.fault or CLOSED_BY_US)
            if permit.is_probe:
                permit.success()
            return info
        finally:
            permit.release()

    async def ask(
        self,
        method: str,
        params: dict[str, Any] | None,
        *,
        what: str,
        timeout: float,
        replayable: bool = False,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
        is_call: bool = True,
    ) -> JSON:
        """Send one request and return its result.

        Args:
            what: names the request in errors.
            replayable: it may be sent again although it may have run.
            is_call: an answer to it ends a row of lost calls; a list that works says nothing about calls.

        Raises:
            See `MCPClient.call_tool`.
        """
        request = _Request(method, params, timeout, headers, on_progress)
        first: TransportFault | None = None
        while True:
            try:
                return await self._send_once(request, what, is_call=is_call)
            except _LostInTransitError as lost:
                fault = lost.fault
                if first is not None:
                    raise self._failure(replace(fault, sent=fault.sent or first.sent), what) from None
                if not _is_worth_repeating(fault, replayable=replayable):
                    raise self._failure(fault, what) from None
                first = fault
            except (CircuitOpenError, ConnectError, BlockedURLError):
                if first is None or not first.sent:
                    raise
                # That there is no second time must not hide that the first may have run.
                raise self._failure(first, what) from None

    async def _send_once(self, request: _Request, what: str, *, is_call: bool) -> JSON:
        permit = self._admit()
        try:
            session = await self._session(permit)
            result = await session.request(
                request.method,
                request.params,
                timeout=request.timeout,
                headers=request.headers,
                on_progress=request.on_progress,
            )
        except AnswerError as error:
            fault = TransportFault.of(error.error) if isinstance(error.error, dict) else None
            if fault is None:
                permit.success()
                raise self._texts.answered(error.error, what) from None
        except RequestLostError as error:
            fault = error.fault
        except RequestExpiredError as error:
            self._check(session)
            raise self._texts.expired(what, request.timeout, error.stray) from None
        except AnswerGarbledError as error:
            permit.success()
            raise self._texts.garbled(str(error), what) from None
        except RequestUnsendableError as error:
            raise self._texts.unsendable(error.cause, what) from None
        else:
            if is_call or permit.is_probe:
                permit.success()
            return result
        finally:
            permit.release()
        self._count(fault, session)
        raise _LostInTransitError(fault)

    async def close(self) -> None:
        """End the health checks that run."""
        checks = tuple(self._checks.values())
        for check in checks:
            check.cancel()
        if checks:
            await asyncio.wait(checks, timeout=1.0)

    def _admit(self) -> Permit:
        try:
            return self._breaker.admit()
        except CircuitOpenError as error:
            raise self._texts.refused_by_breaker(error, self._link.last_error) from None

    async def _session(self, permit: Permit) -> Session:
        session = self._link.session
        if session is not None and session.is_ready and not permit.is_probe:
            return session
        try:
            return await self._link.ready(fresh=permit.is_probe)
        except ChannelError as error:
            raise self._failed_to_connect(error.fault) from None

    def _failed_to_connect(self, fault: TransportFault) -> MCPToolsError:
        return self._texts.closed() if self._link.closed else self._texts.connect(fault)

    def _failure(self, fault: TransportFault, what: str) -> MCPToolsError:
        if fault.http_status is not None and not fault.session_lost:
            return self._texts.refused(fault, what)
        return self._texts.lost(fault, what)

    def _count(self, fault: TransportFault, session: Session) -> None:
        """What a lost request means for the breaker. A session that ended has told it, once for all its calls."""
        if fault.session_lost or fault.connect:
            self._link.retire(session, fault)  # what comes next opens another one, with a cycle's patience
        elif session.fault is not None or fault.blocked:
            return
        elif fault.timed_out:
            self._check(session)
        elif fault.http_status is None or fault.http_status in _GATEWAY_STATUS:
            self._link.count_call_failure()

    def _check(self, session: Session) -> None:
        """After a deadline has passed: is the server still there? One check at a time, in the background."""
        if session in self._checks or not session.is_ready:
            return
        check = asyncio.get_running_loop().create_task(self._ping(session), name=f"mcp-check:{self._spec.name}")
        self._checks[session] = check
        check.add_done_callback(lambda _: self._checks.pop(session, None))

    async def _ping(self, session: Session) -> None:
        try:
            await session.request("ping", None, timeout=self._spec.timeouts.ping)
        except (AnswerError, AnswerGarbledError, RequestLostError):
            return  # an error is an answer too, and a loss has been counted where it was noticed
        except RequestExpiredError:
            self._link.count_call_failure()
            if not session.in_flight:
                reason = "a call timed out, and the server does not answer a ping either"
                session.end(TransportFault(reason, timed_out=True))


def _is_worth_repeating(fault: TransportFault, *, replayable: bool) -> bool:
    if fault.session_lost:
        return not fault.sent or replayable
    if fault.http_status is not None or fault.blocked or fault.timed_out or not fault.retryable:
        return False
    return not fault.sent or replayable
