"""What turns the lists of servers into tools: names, permissions, the way of a call, the catalogue.

Policy: nothing here touches a server. Permissions and exposure follow the settings in force, which may change while a
provider runs; what else the settings say holds from the start.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.config import ServerConfig, Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy import ExposureRules, PermissionPolicy
from codebuddy_mcp_tools.service import ApprovalHandler, ConfiguredServer, MCPService
from codebuddy_mcp_tools.tools.call import CallPath
from codebuddy_mcp_tools.tools.catalog import ToolCatalog
from codebuddy_mcp_tools.tools.definitions import definition
from codebuddy_mcp_tools.tools.in_flight import InFlight
from codebuddy_mcp_tools.tools.interop import interceptor_chain, progress_callback
from codebuddy_mcp_tools.tools.limits import OutputLimits
from codebuddy_mcp_tools.tools.reader import make_reader
from codebuddy_mcp_tools.tools.spill import SpillStore
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.tools.toolset import Filter, Toolset, everything
from codebuddy_mcp_tools.types import ToolInfo

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.interceptors import ToolCallInterceptor

logger = logging.getLogger(__name__)
SEARCH_TOOL_NAMES = ("ToolSearch", "describe_tool", "execute_tool", "read_mcp_result")
"""Names no server's tool may take."""


def unchanged(settings: Settings) -> Settings:
    """What a provider that is no view makes of the settings in force."""
    return settings


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """What a `ToolProvider` was given besides servers and settings; see there."""

    state_dir: Path
    core_tools: tuple[BaseTool, ...]
    approval_handler: ApprovalHandler | None
    interceptors: tuple[ToolCallInterceptor, ...]
    callbacks: Callbacks | None
    defer: tuple[str, ...]
    embeddings: Embeddings | None
    count_tokens: Callable[[str], int] | None
    thread_sessions: frozenset[str]
    told_rules: set[str] = field(default_factory=set)
    """What was said of rules that stop nothing; a view does not repeat it."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a view takes away from the provider it is a view of; without fields, nothing."""

    servers: frozenset[str] | None = None
    accepts: Filter = everything
    settings: Callable[[Settings], Settings] = unchanged

    def sees(self, server: str) -> bool:
        """Whether the view holds that server."""
        return self.servers is None or server in self.servers

    def admits(self, tool: ToolInfo) -> bool:
        """Whether the view holds that tool."""
        return self.sees(tool.server) and self.accepts(tool)

    def then(self, further: Narrowing) -> Narrowing:
        """Both, for a view of a view."""
        return Narrowing(
            servers=_both(self.servers, further.servers),
            accepts=lambda tool: self.accepts(tool) and further.accepts(tool),
            settings=lambda settings: further.settings(self.settings(settings)),
        )


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


class Assembly:
    """Keeps the tools, the permissions and the catalogue of one provider in step with its servers.

    Args:
        service: the servers.
        options: what the provider was given.
        narrowing: which tools count, and what is made of the settings in force.
        wait_loading: waits up to so many seconds for servers that are connecting.

    Attributes:
        settings: the settings in force, as this provider sees them.
        catalog: all tools, as a model is shown them.
        readers: the tool that reads saved results; none where results are not saved.

    Raises:
        ConfigError: a `Defer`/`NoDefer` modifier cannot be read.
    """

    def __init__(
        self,
        service: MCPService,
        options: ProviderOptions,
        narrowing: Narrowing,
        *,
        wait_loading: Callable[[float], Awaitable[None]],
    ) -> None:
        self._service = service
        self._options = options
        self._followed = service.settings
        self._lock = threading.Lock()
        self.narrowing = narrowing
        settings = self.settings = narrowing.settings(self._followed)
        spill = SpillStore(options.state_dir, service.configuration.workspace) if settings.large_output_files else None
        self.readers: tuple[BaseTool, ...] = (make_reader(spill),) if spill is not None else ()
        self._toolset = Toolset(settings, options.core_tools, accepts=narrowing.admits, reserved=SEARCH_TOOL_NAMES)
        self._path = CallPath(
            service,
            permissions=lambda: self.permissions,
            in_flight=InFlight(options.state_dir),
            limits=OutputLimits(max_tokens=settings.max_output_tokens, spill=spill),
            intercept=interceptor_chain(options.interceptors),
            approval_handler=options.approval_handler,
            on_progress=progress_callback(options.callbacks),
            thread_sessions=options.thread_sessions,
            schema_of=self._schema_if_hidden,
        )
        self.catalog = ToolCatalog(
            rules=self._exposure(),
            call_style=settings.call_style,
            tool_search=settings.tool_search,
            counter=options.count_tokens,
            embeddings=options.embeddings,
            server_states=lambda: [s for s in service.status() if narrowing.sees(s.name)],
            wait_loading=wait_loading,
            readers=self.readers,
        )

    @property
    def tools(self) -> tuple[MCPTool, ...]:
        """The tools as they were rebuilt last."""
        return self._toolset.tools

    @property
    def core_tools(self) -> tuple[BaseTool, ...]:
        """The provider's own tools and, once a long result has been saved, the tool that reads it."""
        return (*self._options.core_tools, *(self.readers if self._path.has_saved else ()))

    @property
    def permissions(self) -> PermissionPolicy:
        """The permission rules in force, over the tools known now."""
        if self._service.settings is not self._followed:
            self.rebuild()
        return self._toolset.permissions

    def problems(self, server: str) -> tuple[str, ...]:
        """One line for each tool of a server that cannot be used."""
        return self._toolset.problems.get(server, ())

    def rebuild(self) -> None:
        """Bring the tools in step with what the servers listed last, and with the settings in force."""
        with self._lock:  # several threads and loops may ask at the same time
            self._follow_settings()
            records = self._listed()
            listings = [record.exposed_listing() for record, _ in records]
            configs = {record.name: config for record, config in records}
            infos = {record.name: record.info() for record, _ in records}
            before = self._toolset.permissions
            if self._toolset.update(listings, configs, infos, self._path, self.settings):
                self.catalog.update(self._toolset.tools, self._toolset.denied)
            if self._toolset.permissions is not before:
                self._tell_inert(record for record, _ in records)

    async def rebuild_apart(self) -> None:
        """`rebuild` without holding up the running loop: thousands of tools take a second."""
        listings = [record.exposed_listing() for record, _ in self._listed()]
        if self._service.settings is not self._followed or not self._toolset.is_made_of(listings):
            await asyncio.to_thread(self.rebuild)

    def _listed(self) -> list[tuple[ConfiguredServer, ServerConfig]]:
        servers = self._service.servers
        return [(s, s.entry.config) for s in servers if s.listing is not None and s.entry.config is not None]

    def _follow_settings(self) -> None:
        in_force = self._service.settings
        if in_force is self._followed:
            return
        self._followed, self.settings = in_force, self.narrowing.settings(in_force)
        try:
            self.catalog.follow(self._exposure())
        except ConfigError as error:
            logger.warning("%s; what tools are shown stays as it was", error)

    def _tell_inert(self, records: Iterable[ConfiguredServer]) -> None:
        """A deny rule that stops nothing must not be missed by whoever relies on it; each is named once."""
        listed = [tool for record in records if record.listing is not None for tool in record.listing.tools]
        for line in map(str, self._toolset.permissions.inert(listed)):
            if line not in self._options.told_rules:
                self._options.told_rules.add(line)
                logger.warning("%s", line)

    def _exposure(self) -> ExposureRules:
        return ExposureRules(self.settings.tool_exposure, (*self.settings.defer, *self._options.defer))

    def _schema_if_hidden(self, tool: MCPTool) -> str | None:
        return definition(tool) if self.catalog.is_hidden(tool.name) else None
