"""What the three applications share: one provider for the whole process, and the model.

Environment variables: `MCP_AGENT_MODEL` (`provider:name`, for `init_chat_model`; without it a scripted model plays
its part), `MCP_AGENT_WORKSPACE` (a folder with a `.mcp.json`; without it the two servers that ship with the package).

Importing starts no server: the first run does. The provider outlives every graph that a server builds from it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from codebuddy_mcp_tools import Settings, ToolProvider, load_settings
from codebuddy_mcp_tools.demo.run import SYSTEM_PROMPT, own_servers
from codebuddy_mcp_tools.demo.scripted import ScriptedChatModel
from codebuddy_mcp_tools.demo.story import scripted_model

__all__ = ["SYSTEM_PROMPT", "chat_model", "provider"]


_AFTERWORD = "My script ends here. Set MCP_AGENT_MODEL (provider:name) to talk with a model."


def chat_model() -> BaseChatModel:
    """The model of `MCP_AGENT_MODEL`, or the scripted one, which has one story to tell and then says so."""
    name = os.environ.get("MCP_AGENT_MODEL")
    if not name:
        return ScriptedChatModel(turns=[*scripted_model().turns, *[_AFTERWORD] * 100])
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra

    return init_chat_model(name)


@cache
def provider(permission_mode: str | None = None) -> ToolProvider:
    """The process's provider for one permission mode; without one, that of the settings, or `autonomous`."""
    workspace = os.environ.get("MCP_AGENT_WORKSPACE")
    settings = load_settings(workspace) if workspace else Settings()
    if permission_mode is not None:
        settings = settings.model_copy(update={"permission_mode": permission_mode})
    if workspace:
        return ToolProvider(workspace=workspace, settings=settings)
    return ToolProvider(own_servers(_folder()), settings=settings)


def _folder() -> Path:
    """Where the package's own server keeps its task list, until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="mcp-agent-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
