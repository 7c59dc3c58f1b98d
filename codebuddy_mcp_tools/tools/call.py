"""The path of one call, put together in one place.

    permission → arguments → interceptors → service → content → signals → limits → envelope

and what becomes of a failure at each step. Everything beside this line is a leaf that calls nobody.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig

from codebuddy_mcp_tools.errors import (
    MCPToolsError,
    ServerError,
    ToolDeniedError,
)
from codebuddy_mcp_tools.policy import (
    ApprovalRequest,
    Decision,
    PermissionPolicy,
    effect_of,
    find_injection_signals,
)
from codebuddy_mcp_tools.service import MAIN_SESSION, ApprovalHandler, MCPService, ask
from codebuddy_mcp_tools.tools.arguments import ArgumentError
from codebuddy_mcp_tools.tools.content import Rendered, render
from codebuddy_mcp_tools.tools.envelope import enclose
from codebuddy_mcp_tools.tools.grants import granted_calls
from codebuddy_mcp_tools.tools.in_flight import InFlight
from codebuddy_mcp_tools.tools.limits import Limited, OutputLimits
from codebuddy_mcp_tools.tools.logs import logs_during
from codebuddy_mcp_tools.tools.progress import progress_of
from codebuddy_mcp_tools.tools.replies import (
    Call,
    Interceptor,
    Reply,
    Sender,
    broke,
    failed,
    interrupted,
    is_control_flow,
    refused,
)
from codebuddy_mcp_tools.types import CallResult, Outcome, ToolInfo

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.tool import MCPTool

logger = logging.getLogger(__name__)
SCANNED_TEXT = 200_000
"""Characters of a result that are looked through for injection attempts."""
LONG_TEXT = 8_000
"""Characters beyond which a result is limited in a thread."""


class CallPath:
    """Takes a tool call to its server and its answer back to the model.

    Args:
        service: where calls go.
        permissions: the rules in force; a callable, because the rules follow the tools that are known.
        limits: how long a result may be.
        in_flight: marks writes while they are under way.
        intercept: the interceptor chain, or `None`.
        approval_handler: asked for calls whose rule says `ask` and that no node has had approved.
        on_progress: called with `(progress, total, message, server, tool)` while a call runs.
        thread_sessions: servers that get a session of their own for each LangGraph thread.
        schema_of: the definition of a tool whose schema the model has not been shown, to be added to a failure.
    """

    def __init__(
        self,
        service: MCPService,
        *,
        permissions: Callable[[], PermissionPolicy],
        limits: OutputLimits,
        in_flight: InFlight,
        intercept: Interceptor | None = None,
        approval_handler: ApprovalHandler | None = None,
        on_progress: Callable[..., Awaitable[None]] | None = None,
        thread_sessions: frozenset[str] = frozenset(),
        schema_of: Callable[[MCPTool], str | None] = lambda tool: None,  # noqa: ARG005
    ) -> None:
        self._service = service
        self._permissions = permissions
        self._limits = limits
        self._in_flight = in_flight
        self._intercept = intercept
        self._approval_handler = approval_handler
        self._on_progress = on_progress
        self._thread_sessions = thread_sessions
        self._schema_of = schema_of
        self.has_saved = False
        """Whether a result of this run of the program was saved, so that the tool that reads it should be offered."""

    def decide(self, tool: ToolInfo) -> Decision:
        """What the permission rules say of a tool now."""
        return self._permissions().decide(tool)

    def call_sync(
        self, tool: MCPTool, arguments: Mapping[str, Any], call_id: str | None, config: RunnableConfig
    ) -> Reply:
        """`call` for synchronous code, also inside somebody else's running loop."""
        return self._service.run_sync(self.call(tool, arguments, call_id, config))

    async def call(
        self, tool: MCPTool, arguments: Mapping[str, Any], call_id: str | None, config: RunnableConfig
    ) -> Reply:
        """Take one call there and back. Raises nothing but cancellation and LangGraph's control flow."""
        info = self._service.current(tool.info)
        call = Call(tool, arguments, call_id, config, effect_of(info), info)
        try:
            reply = await self._run(call)
        except asyncio.CancelledError:
            self._audit(call, Outcome.CANCELLED)
            raise
        except ArgumentError as error:
            reply = refused(call, str(error), "Correct the arguments and call again.")
        except MCPToolsError as error:
            reply = self._failed(call, error)
        except Exception as error:
            if is_control_flow(error):
                raise
            reply = self._broke(call, error)
        if reply.command is None:
            self._teach(call, reply)
            self._audit(call, Outcome(reply.artifact["outcome"]), reply)
        return reply

    async def _run(self, call: Call) -> Reply:
        await self._permit(call)
        call.arguments = call.tool.checker.check(call.arguments)
        async with self._in_flight.during(call) as before:
            if before is not None:
                return interrupted(call, before)
            send = self._sender(call)
            if self._intercept is None:
                answer: CallResult | Reply = await send(call.info, call.arguments, None)
            else:
                answer = await self._intercept(call, send)
        return answer if isinstance(answer, Reply) else await self._deliver(call, answer)

    # -- permission ----------------------------------------------------------------------------------------------

    async def _permit(self, call: Call) -> None:
        decision = call.decision = self.decide(call.info)
        if decision.effect == "allow" or (decision.effect == "ask" and call.call_id in granted_calls.get()):
            return
        if decision.effect == "ask" and self._approval_handler is not None:
            request = ApprovalRequest.for_tool(call.info, call.arguments, reason=decision.reason)
            try:
                if await ask(self._approval_handler, request):
                    return
            except Exception as error:
                if is_control_flow(error):
                    raise
                why = f"the approval handler failed ({type(error).__name__}); the call was not made"
                logger.warning("%s: %s", call.named, why, exc_info=error)
                raise _denied(call, decision, why) from error
            raise _denied(call, decision, f"the user did not approve this call of {call.named}")
        how = (
            "it needs a person's approval: use MCPToolNode or MCPToolsMiddleware, give the provider an "
            "approval_handler, or add an allow rule"
            if decision.effect == "ask"
            else "a call with other arguments is denied as well"
        )
        raise _denied(call, decision, f"{call.named} is not permitted ({decision.reason}); {how}")

    # -- there ---------------------------------------------------------------------------------------------------

    def _sender(self, call: Call) -> Sender:
        async def send(info: ToolInfo, arguments: Mapping[str, Any], headers: Mapping[str, str] | None) -> CallResult:
            own, meta = call.headers(headers), call.meta()
            self._service.redactor.add(*own.values())
            call.was_sent = True
            with logs_during(call, self._service):
                return await self._service.call(
                    info,
                    arguments,
                    headers=own or None,
                    meta=meta,
                    on_progress=progress_of(call, self._on_progress, self._service.redactor.redact),
                    session=self._session(call),
                )

        return send

    def _session(self, call: Call) -> str:
        thread = call.configured("thread_id")
        return str(thread) if thread is not None and call.info.server in self._thread_sessions else MAIN_SESSION

    # -- and back ------------------------------------------------------------------------------------------------

    async def _deliver(self, call: Call, result: CallResult) -> Reply:
        info = call.info
        call.duration_ms = result.duration_ms
        rendered = render(result, info)
        signals = find_injection_signals(rendered.text[:SCANNED_TEXT])
        limited = await self._limited(call, rendered)
        content = enclose(info, limited)
        outcome = Outcome.TOOL_ERROR if result.is_error else Outcome.OK
        artifact = call.artifact(outcome)
        if rendered.structured is not None and not limited.truncated:
            artifact["structured_content"] = rendered.structured
        if rendered.attachments:
            artifact["content"] = list(rendered.attachments)
        notes = [*result.notes, *rendered.notes, *limited.notes, *call.tool.notes]
        extra = {"truncated": limited.truncated, "saved_to": limited.saved_to, "signals": list(signals), "notes": notes}
        artifact.update({k: v for k, v in extra.items() if v})
        if signals:
            self._service.note_signals(info, signals)
        return Reply(content, artifact, is_error=result.is_error)

    async def _limited(self, call: Call, rendered: Rendered) -> Limited:
        thread = call.configured("thread_id")
        apply = functools.partial(
            self._limits.apply,
            rendered,
            call.info,
            server_config=call.tool.server_config,
            session_id=None if thread is None else str(thread),
        )
        # A long result may go to the disk, which must not hold up the loop.
        limited = apply() if len(rendered.text) < LONG_TEXT else await asyncio.to_thread(apply)
        self.has_saved = self.has_saved or limited.saved_to is not None
        return limited

    def _failed(self, call: Call, error: MCPToolsError) -> Reply:
        """A server's error text is looked through like its results."""
        reply = failed(call, error, self._service.redactor.redact(str(error)))
        if isinstance(error, ServerError) and (signals := find_injection_signals(str(error)[:SCANNED_TEXT])):
            reply.artifact["signals"] = list(signals)
            self._service.note_signals(call.info, signals)
        return reply

    def _teach(self, call: Call, reply: Reply) -> None:
        """A failed call of a tool that the model knows by name only gets the schema, behind the result's envelope."""
        schema = self._schema_of(call.tool) if reply.is_error else None
        if schema is None:
            return
        if isinstance(reply.content, str):
            reply.content = f"{reply.content}\n{schema}"
        else:
            reply.content = [*reply.content, {"type": "text", "text": schema}]

    @staticmethod
    def _broke(call: Call, error: Exception) -> Reply:
        """It must not take the results of other calls with it."""
        logger.error("the call of %s broke", call.named, exc_info=error)
        return broke(call, error)

    def _audit(self, call: Call, outcome: Outcome, reply: Reply | None = None) -> None:
        size = len(reply.content) if reply is not None and isinstance(reply.content, str) else None
        decision = call.decision
        self._service.audit.write(
            "call",
            server=call.info.server,
            tool=call.info.name,
            arguments=sorted(map(str, call.arguments)),
            effect=call.effect.value,
            decision=decision.effect if decision else None,
            rule=decision.rule if decision else None,
            outcome=outcome.value,
            duration_ms=round(call.duration_ms, 1),
            chars=size,
            signals=(reply.artifact.get("signals") if reply else None),
        )


def _denied(call: Call, decision: Decision, why: str) -> ToolDeniedError:
    return ToolDeniedError(why, server=call.info.server, tool=call.info.name, rule=decision.rule)
