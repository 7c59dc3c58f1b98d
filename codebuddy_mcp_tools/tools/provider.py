"""`ToolProvider`: the face of the package. Constructing one reads config files and starts nothing.

The first `get_tools_async` connects every enabled, approved server at the same time; what a server does wrong costs
its own tools and one line in `status()`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents.base import Blob
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool

from codebuddy_mcp_tools.client import ClientEvent, ServerHandlers
from codebuddy_mcp_tools.config import Configuration, ConfigWatcher, Settings, file_problem, load_configuration
from codebuddy_mcp_tools.config.files import home_folder
from codebuddy_mcp_tools.errors import ConfigError, UnknownServerError
from codebuddy_mcp_tools.policy import PermissionPolicy, several
from codebuddy_mcp_tools.service import ApprovalHandler, MCPService
from codebuddy_mcp_tools.tools.assembly import Assembly, Narrowing, ProviderOptions
from codebuddy_mcp_tools.tools.catalog import ToolCatalog
from codebuddy_mcp_tools.tools.elicitation import ElicitationHandler, elicitation_answers
from codebuddy_mcp_tools.tools.interop import report_log
from codebuddy_mcp_tools.tools.lifetime import close_when_collected, weakly
from codebuddy_mcp_tools.tools.prompts import check_arguments, find_command, slash_command, to_messages
from codebuddy_mcp_tools.tools.resources import to_blob
from codebuddy_mcp_tools.types import ResourceInfo, ServerStatus, SlashCommand

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.interceptors import ToolCallInterceptor

logger = logging.getLogger(__name__)


class ToolProvider:
    """MCP servers as LangChain tools.

    Close it when it is done with. One that nothing refers to any more, no tool of it either (as when a notebook cell
    is run again), ends its sessions and processes once Python collects it.

    Args:
        servers: servers given in code, by name; they win over every file and need no approval.
        workspace: given, the files of all scopes are read as well, and stdio servers start in it.
        settings: given, it replaces the settings files.
        core_tools: your own tools, or functions with a docstring; returned before the MCP tools and never filtered.
        approval_handler: asked, with an `ApprovalRequest`, whether a project's server may start and whether a call
            whose rule says `ask` may run; may be a coroutine function.
        elicitation_handler: asked when a server wants input from the user, see `tools/elicitation.py`; without one,
            servers are told that it is not supported. May be a coroutine function.
        interceptors: langchain-mcp-adapters' `ToolCallInterceptor`s, the first outermost.
        callbacks: langchain-mcp-adapters' `Callbacks` for progress and log messages.
        state_dir: approvals, pins, tokens and saved results; default `~/.codebuddy`.
        defer: `Defer(pattern)` / `NoDefer(pattern)` modifiers, one text or several, beside those of the settings.
        embeddings: any LangChain `Embeddings`, to help ToolSearch.
        count_tokens: counts the tokens of a text; default characters / 4.
        thread_sessions: servers that get a session (and process) of their own for each LangGraph thread.
        watch: notice changed config files: the servers whose entries changed are connected anew, and permissions and
            exposure follow the settings files. Other settings hold until the next provider.

    Raises:
        ConfigError: a handler cannot be called, or a `Defer`/`NoDefer` modifier cannot be read. A bad server entry
            raises nothing: see `status()`.
    """

    def __init__(
        self,
        servers: Mapping[str, Any] | None = None,
        *,
        workspace: str | Path | None = None,
        settings: Settings | None = None,
        core_tools: Sequence[BaseTool | Callable[..., Any]] = (),
        approval_handler: ApprovalHandler | None = None,
        elicitation_handler: ElicitationHandler | None = None,
        interceptors: Sequence[ToolCallInterceptor] = (),
        callbacks: Callbacks | None = None,
        state_dir: str | Path | None = None,
        defer: str | Sequence[str] = (),
        embeddings: Embeddings | None = None,
        count_tokens: Callable[[str], int] | None = None,
        thread_sessions: Collection[str] = (),
        watch: bool = False,
    ) -> None:
        for role, handler in (("approval", approval_handler), ("elicitation", elicitation_handler)):
            if not (handler is None or callable(handler)):
                raise ConfigError(f"{role}_handler must be something to call, not a {type(handler).__name__}")
        self._sources = {"servers": servers, "workspace": workspace, "settings": settings}
        configuration = load_configuration(servers, workspace=workspace, settings=settings)
        self._options = ProviderOptions(
            state_dir=Path(state_dir).expanduser() if state_dir is not None else home_folder() / ".codebuddy",
            core_tools=tuple(tool if isinstance(tool, BaseTool) else make_tool(tool) for tool in core_tools),
            approval_handler=approval_handler,
            interceptors=tuple(interceptors),
            callbacks=callbacks,
            defer=several(defer),
            embeddings=embeddings,
            count_tokens=count_tokens,
            thread_sessions=frozenset(several(thread_sessions)),
        )
        self._service = MCPService(
            configuration,
            state_dir=self._options.state_dir,
            approval_handler=approval_handler,
            handlers=ServerHandlers(elicitation=elicitation_answers(elicitation_handler)),
        )
        self._assemble(Narrowing())
        if callbacks is not None:
            self._service.subscribe(weakly(self._on_event))
        self._watcher = ConfigWatcher(configuration.files, weakly(self._files_changed)) if watch else None
        if self._watcher is not None:
            self._watcher.start()
        close_when_collected(self, self._service, self._watcher)

    def _assemble(self, narrowing: Narrowing) -> None:
        self._assembly = Assembly(self._service, self._options, narrowing, wait_loading=self._wait_loading)

    def _sees(self, server: str) -> bool:
        return self._assembly.narrowing.sees(server)

    # -- tools ---------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._assembly.settings

    @property
    def catalog(self) -> ToolCatalog:
        """All MCP tools, as a model is shown them, and the search over them."""
        return self._assembly.catalog

    @property
    def service(self) -> MCPService:
        """The servers behind the tools."""
        return self._service

    @property
    def permissions(self) -> PermissionPolicy:
        """The permission rules in force, over the tools known now."""
        return self._assembly.permissions

    @property
    def approval_handler(self) -> ApprovalHandler | None:
        """Who is asked about servers, and about calls that no graph asks about."""
        return self._options.approval_handler

    @property
    def core_tools(self) -> tuple[BaseTool, ...]:
        """The tools given as `core_tools` and, once a long result has been saved, the tool that reads it."""
        return self._assembly.core_tools

    @property
    def readers(self) -> tuple[BaseTool, ...]:
        """The tool that reads saved results, whether there are any or not; none where results are not saved."""
        return self._assembly.readers

    def load_lazily(self) -> None:
        """Begin to connect in the background and return at once; what goes wrong is in `status()`."""
        self._service.start(self.get_tools_async())

    async def get_tools_async(self, server: str | None = None) -> list[BaseTool]:
        """Core tools first, then every enabled and permitted MCP tool in full, of all servers or of one.

        The first call connects all servers at the same time and waits for each no longer than its start timeout;
        lists are kept for five minutes. Concurrent calls share one load. With `server`, nobody waits for the others.

        Raises:
            UnknownServerError: no server has that name. A server that fails raises nothing.
        """
        return await self._load(server, refresh=False)

    def get_tools(self, server: str | None = None) -> list[BaseTool]:
        """`get_tools_async` for synchronous code; also inside a running loop, as in a notebook."""
        return self._service.run_sync(self.get_tools_async(server))

    async def refresh_tools(self, server: str | None = None) -> list[BaseTool]:
        """Ask the servers anew, whatever the cache holds, and wait for all of them."""
        return await self._load(server, refresh=True)

    async def _load(self, server: str | None, *, refresh: bool) -> list[BaseTool]:
        await self._service.list_tools(server, refresh=refresh)
        await self._assembly.rebuild_apart()
        chosen = (t for t in self._assembly.tools if server is None or t.info.server == server)
        return [*self.core_tools, *chosen]

    def tools_now(self) -> list[BaseTool]:
        """What `get_tools_async` would return, as far as it is known already; touches no server."""
        self._assembly.rebuild()
        return [*self.core_tools, *self._assembly.tools]

    async def _wait_loading(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.get_tools_async()
        except TimeoutError:
            logger.debug("some servers are still connecting after %s s", seconds)

    def _on_event(self, event: ClientEvent) -> None:
        if event.kind == "log" and self._options.callbacks is not None:
            self._service.start(report_log(self._options.callbacks, event))

    # -- state ---------------------------------------------------------------------------------------------------

    def status(self) -> list[ServerStatus]:
        """One snapshot for each configured server, in the order of the configuration. Never touches a server."""
        shown = {server: tokens for server, (_, _, tokens) in self.catalog.cost().servers.items()}
        return [
            replace(status, warnings=(*status.warnings, *self._assembly.problems(status.name)))
            for status in self._service.status(lambda server: shown.get(server, 0))
            if self._sees(status.name)
        ]

    # -- prompts and resources -----------------------------------------------------------------------------------

    async def commands(self) -> list[SlashCommand]:
        """The prompts of all servers as commands, `/server:prompt`."""
        return [slash_command(p) for p in await self._service.prompts() if self._sees(p.server)]

    async def run_command(self, command: str, arguments: Mapping[str, str] | None = None) -> list[BaseMessage]:
        """Render a prompt to messages, each text in its envelope.

        Raises:
            ConfigError: no such command, a required argument missing, an unknown argument.
            ServerError: the server failed.
        """
        found = find_command(command, await self.commands())
        checked = check_arguments(found, arguments or {})
        return to_messages(found, await self._service.get_prompt(found.server, found.prompt, checked))

    async def resources(self, server: str | None = None) -> list[ResourceInfo]:
        """The resources and resource templates of one server or of all."""
        return [r for r in await self._service.resources(server) if self._sees(r.server)]

    async def read_resource(self, server: str, uri: str) -> list[Blob]:
        """Read one resource.

        Raises:
            UnknownServerError: no server has that name.
            ServerError: the server failed or does not know the uri.
        """
        if not self._sees(server):
            raise UnknownServerError(f"server {server!r} is not part of this view", server=server)
        return [to_blob(server, part) for part in await self._service.read_resource(server, uri)]

    # -- views and change ----------------------------------------------------------------------------------------

    def view(
        self,
        *,
        servers: Iterable[str] | None = None,
        tools: Iterable[str] | None = None,
        permissions: Mapping[str, Sequence[str]] | None = None,
        core_roles: Iterable[str] | None = None,
    ) -> ToolProvider:
        """The same sessions with fewer tools, for one agent among several.

        Args:
            servers: only these servers, their prompts and resources.
            tools: only these tools; any spelling that rules accept, `mcp__server` for a whole server.
            permissions: further `allow`, `ask` and `deny` rules; they are added to the provider's, never taken away.
            core_roles: only core tools that have one of these in `metadata["roles"]`, or no roles at all.

        Raises:
            UnknownServerError: a name in `servers` is not configured.
        """
        from codebuddy_mcp_tools.tools.view import ProviderView  # noqa: PLC0415 - a view is a provider

        return ProviderView(self, servers=servers, tools=tools, permissions=permissions, core_roles=core_roles)

    def _files_changed(self, paths: Sequence[Path]) -> None:
        """Runs in the watcher's thread."""
        logger.info("changed: %s", ", ".join(map(str, paths)))
        known = self._service.configuration
        broken = [p for p in map(file_problem, known.files) if p is not None and p not in known.diagnostics]
        for problem in broken:  # caught in the middle of an edit: its servers and its deny rules must not vanish
            logger.warning("%s; until it can be read, the configuration stays as it was", problem)
        if broken:
            return
        sources: dict[str, Any] = dict(self._sources)
        self._service.run_sync(self._reload(load_configuration(**sources)))

    async def _reload(self, configuration: Configuration) -> None:
        """Reconnect what a changed configuration concerns, keep the rest."""
        changed = await self._service.reconfigure(configuration)
        if changed:
            await self.get_tools_async()
        else:
            await self._assembly.rebuild_apart()
        logger.info("configuration taken over; servers concerned: %s", ", ".join(changed) or "none")

    # -- end -----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End every session and every process this provider started. May be called twice, from any loop."""
        if self._watcher is not None:
            self._watcher.stop()
        await self._service.aclose()

    def close(self) -> None:
        """`aclose` for synchronous code."""
        self._service.run_sync(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} servers={list(self._service.names)}>"
