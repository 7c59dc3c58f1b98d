"""Which servers are configured, and whether each may start. Touches no server.

Policy: of several entries of one name, an unapproved one of the project never hides one of another scope. A changed
configuration keeps the record, and so the sessions, of every server whose entry and admission stayed the same.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from codebuddy_mcp_tools.config import Configuration, ServerEntry, choose
from codebuddy_mcp_tools.errors import UnknownServerError
from codebuddy_mcp_tools.policy import AuditLog, Redactor, ServerApprovals, ToolPins, pending_message
from codebuddy_mcp_tools.policy.audit import log_path
from codebuddy_mcp_tools.service.admission import ApprovalHandler, Gatekeeper
from codebuddy_mcp_tools.service.recorder import Recorder
from codebuddy_mcp_tools.service.server import ConfiguredServer
from codebuddy_mcp_tools.types import Admission, Diagnostic

logger = logging.getLogger(__name__)
_UNANSWERED = (Admission.PENDING, Admission.REJECTED)


class ServerRegistry:
    """The configured servers, and the stores that belong to the configuration in force.

    Args:
        configuration: the first one.
        state_dir: where approvals and pins are kept.
        redactor: takes secrets out of what is recorded.
        approval_handler: asked about servers that wait for approval; without one they stay pending.

    Attributes:
        configuration: the configuration in force.
        servers: the record of each server by name, in the order of the configuration.
        pins: the accepted tool definitions.
        audit: where events are recorded.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        state_dir: Path,
        redactor: Redactor,
        approval_handler: ApprovalHandler | None = None,
    ) -> None:
        self.servers: dict[str, ConfiguredServer] = {}
        self._state_dir = state_dir
        self._redactor = redactor
        self._approval_handler = approval_handler
        self._told: frozenset[Diagnostic] = frozenset()
        self._told_pending: list[str] = []
        self.adopt(configuration)

    def adopt(self, configuration: Configuration) -> None:
        """Put a configuration in force, and name what is newly wrong in it. Reads the stores."""
        self.configuration = configuration
        known, self._told = self._told, frozenset(d for d in configuration.diagnostics if d.severity != "note")
        for diagnostic in configuration.diagnostics:
            if diagnostic in self._told - known:
                logger.warning("%s", diagnostic)
        settings, workspace = configuration.settings, configuration.workspace
        self.pins = ToolPins(self._state_dir, workspace)
        self.audit = Recorder(AuditLog(log_path(workspace) if settings.audit else None, self._redactor))
        approvals = ServerApprovals(self._state_dir, workspace)
        self._gatekeeper = Gatekeeper(approvals, settings, self._approval_handler)
        records = {name: self._record(self._winner(name)) for name in configuration.entries}
        self.servers = {name: self._kept(record) for name, record in records.items()}

    def server(self, name: str) -> ConfiguredServer:
        """The record of one server.

        Raises:
            UnknownServerError: nothing configures that name.
        """
        try:
            return self.servers[name]
        except KeyError:
            known = ", ".join(self.servers) or "none"
            raise UnknownServerError(f"no server is named {name!r}; configured: {known}", server=name) from None

    def _winner(self, name: str) -> ServerEntry:
        candidates = self.configuration.candidates[name]
        return choose(candidates, lambda entry: self._gatekeeper.admission(entry)[0] not in _UNANSWERED)

    def _record(self, entry: ServerEntry) -> ConfiguredServer:
        return ConfiguredServer(entry, *self._gatekeeper.admission(entry))

    def _kept(self, record: ConfiguredServer) -> ConfiguredServer:
        old = self.servers.get(record.name)
        same = old is not None and old.entry == record.entry and old.admission is record.admission
        return old if same and old is not None else record

    # -- approval ------------------------------------------------------------------------------------------------

    async def admit(self, server: ConfiguredServer) -> None:
        """Put the question about a pending server to the handler, if there is one."""
        if server.admission is not Admission.PENDING or not self._gatekeeper.can_ask:
            return
        try:
            approved = await self._gatekeeper.answer(server.entry)
        except Exception as error:
            server.reason = f"the approval handler failed ({type(error).__name__}); the server was not started"
            logger.warning("server %r: %s", server.name, server.reason, exc_info=error)
            return
        server.admission, server.reason = await asyncio.to_thread(self._gatekeeper.admission, server.entry)
        fingerprint = await asyncio.to_thread(self._gatekeeper.fingerprint, server.entry)
        self.audit.write(
            "approval", server=server.name, approved=approved, fingerprint=fingerprint, scope=server.entry.scope.value
        )

    def tell_pending(self) -> None:
        """Name the servers that wait for an approval, once: a run with nobody to ask must not miss them silently."""
        pending = [name for name, server in self.servers.items() if server.admission is Admission.PENDING]
        if pending and pending != self._told_pending:
            logger.warning("%s", pending_message(pending))
        self._told_pending = pending
