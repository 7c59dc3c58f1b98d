"""The tools of a provider, made from what the servers list: names, schemas, descriptions, metadata, permissions.

Policy: the same listing gives the same objects, in the same order, under the same names; a definition that cannot
be used costs that tool only, and one line names it; a tool that the rules deny is not made at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.config import ServerConfig, Settings
from codebuddy_mcp_tools.policy import (
    NameTable,
    PermissionPolicy,
    clean_description,
    clean_line,
    effect_of,
    may_run_concurrently,
)
from codebuddy_mcp_tools.tools.call import CallPath
from codebuddy_mcp_tools.tools.schema import compile_schema
from codebuddy_mcp_tools.tools.tool import MCPTool
from codebuddy_mcp_tools.types import JSONObject, ServerInfo, ToolInfo, ToolListing

logger = logging.getLogger(__name__)

Filter = Callable[[ToolInfo], bool]


def everything(tool: ToolInfo) -> bool:  # noqa: ARG001
    """The filter that lets every tool through."""
    return True


class Toolset:
    """Keeps the wrapped tools in step with the listings."""

    def __init__(
        self,
        settings: Settings,
        core_tools: Sequence[BaseTool],
        *,
        accepts: Filter = everything,
        reserved: Iterable[str] = (),
    ) -> None:
        self._settings = settings
        self._core = tuple(core_tools)
        self._accepts = accepts
        self._reserved = frozenset(reserved) | {t.name for t in core_tools}
        self._made: dict[tuple[str, str], tuple[ToolInfo, str, MCPTool]] = {}
        self._listed: list[ToolInfo] = []
        self.names = NameTable((), self._reserved)
        self.permissions = PermissionPolicy.from_settings(settings)
        self.tools: tuple[MCPTool, ...] = ()
        self.denied: list[tuple[str, str]] = []
        """Server and name of the tools that the rules deny."""
        self.problems: dict[str, tuple[str, ...]] = {}
        """Per server, one line for each tool that could not be used."""

    def update(
        self,
        listings: Sequence[ToolListing],
        configs: Mapping[str, ServerConfig],
        infos: Mapping[str, ServerInfo | None],
        path: CallPath,
        settings: Settings,
    ) -> bool:
        """Rebuild what changed. Returns whether the set of tools is another one than before."""
        if settings is self._settings and self.is_made_of(listings):
            return False
        self._listed, self._settings = [tool for listing in listings for tool in listing.tools], settings
        tools = [tool for listing in listings for tool in _distinct(listing) if self._accepts(tool)]
        self.names = NameTable([(t.server, t.name) for t in tools], self._reserved)
        self.permissions = PermissionPolicy.from_settings(settings, servers=configs, tools=tools)
        self.problems = {}
        known_denied = self.denied
        self.denied = [(t.server, t.name) for t in tools if self.permissions.decide(t).effect == "deny"]
        hidden = frozenset(self.denied)
        made = {
            (info.server, info.name): entry
            for info in tools
            if (info.server, info.name) not in hidden
            and (entry := self._entry(info, configs[info.server], infos.get(info.server), path)) is not None
        }
        self._made = made
        before, self.tools = self.tools, tuple(tool for _, _, tool in made.values())
        same = len(before) == len(self.tools) and all(a is b for a, b in zip(before, self.tools, strict=True))
        return not same or known_denied != self.denied

    def is_made_of(self, listings: Sequence[ToolListing]) -> bool:
        """Whether the tools were made from these definitions."""
        listed = [tool for listing in listings for tool in listing.tools]
        return len(listed) == len(self._listed) and all(a is b for a, b in zip(listed, self._listed, strict=True))

    def _entry(
        self, info: ToolInfo, config: ServerConfig, server: ServerInfo | None, path: CallPath
    ) -> tuple[ToolInfo, str, MCPTool] | None:
        name = self.names.visible(info.server, info.name)
        known = self._made.get((info.server, info.name))
        if known is not None and known[:2] == (info, name) and known[2].server_config == config:
            return known
        schema = compile_schema(info)
        if schema.problem is not None:
            line = f"tool {clean_line(info.name, 80)!r} is left out: {schema.problem}"
            self.problems[info.server] = (*self.problems.get(info.server, ()), line)
            logger.warning("server %r: %s", info.server, line)
            return None
        tool = MCPTool.wrap(
            info,
            server_config=config,
            path=path,
            name=name,
            description=describe(info, schema.notes),
            args_schema=dict(schema.bound),
            metadata=_metadata(info, server),
        )
        return info, name, tool


def describe(info: ToolInfo, notes: Sequence[str] = ()) -> str:
    """What a model is told of a tool: its server, then the server's own words, cleaned and capped, then our notes.

    Args:
        notes: what the bound schema cannot say (arguments that must be left out of it, sets that belong together).
    """
    text = clean_description(info.description or info.title or "")
    return "\n".join([f"[MCP: {info.server}] {text}".rstrip(), *notes])


def _distinct(listing: ToolListing) -> list[ToolInfo]:
    """A server that lists a name twice keeps the first."""
    seen: dict[str, ToolInfo] = {}
    for tool in listing.tools:
        if tool.name in seen:
            logger.warning(
                "server %r lists tool %r twice; the first is used", listing.server, clean_line(tool.name, 80)
            )
        seen.setdefault(tool.name, tool)
    return list(seen.values())


def _metadata(info: ToolInfo, server: ServerInfo | None) -> dict[str, Any]:
    """Our own keys are written last: nothing a server sends can stand in for them."""
    about: dict[str, Any] = {}
    if server is not None:
        about = {"name": server.name, "version": server.version, "protocolVersion": server.protocol_version}
    metadata: dict[str, Any] = {
        key: info.meta[key] for key in ("category", "tags", "version") if isinstance(info.meta.get(key), str | list)
    }
    return {
        **metadata,
        "serverName": info.server,
        "toolName": info.name,
        "readOnly": may_run_concurrently(info),
        "effect": effect_of(info).value,
        "mcp": {
            "tool": {
                "annotations": _plain(info.annotations),
                "_meta": _plain(info.meta),
                "title": info.title,
                "outputSchema": _plain(info.output_schema) if info.output_schema is not None else None,
            },
            "server": about,
        },
    }


def _plain(value: JSONObject) -> dict[str, Any]:
    return dict(value)
