"""What the three applications share: one provider for the whole process, and the model.

Environment variables: `MCP_AGENT_MODEL` (`provider:name`, for `init_chat_model`; without it a scripted model plays
its part), `MCP_AGENT_WORKSPACE` (a folder with a `.mcp.json`; without it the two servers that ship with the package).

Importing starts no server: the first run does. The provider outlives every graph that a server builds from it.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from codebuddy_mcp_tools import Settings, ToolProvider
from codebuddy_mcp_tools.demo.run import SYSTEM_PROMPT, own_servers
from codebuddy_mcp_tools.demo.story import scripted_model

__all__ = ["SYSTEM_PROMPT", "chat_model", "provider"]


def chat_model() -> BaseChatModel:
    """The model of `MCP_AGENT_MODEL`, or the scripted one."""
    name = os.environ.get("MCP_AGENT_MODEL")
    if not name:
        return scripted_model()
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra

    return init_chat_model(name)


@cache
def provider(permission_mode: str = "autonomous") -> ToolProvider:
    """The process's provider for one permission mode."""
    settings: Any = {"permissionMode": permission_mode}
    workspace = os.environ.get("MCP_AGENT_WORKSPACE")
    if workspace:
        return ToolProvider(workspace=workspace)
    folder = Path(tempfile.mkdtemp(prefix="mcp-agent-"))
    return ToolProvider(own_servers(folder), settings=Settings.model_validate(settings))
