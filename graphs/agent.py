"""Our own graph: model, tools in batches, completion gate. No checkpointer here: the server brings one."""

from __future__ import annotations

from codebuddy_mcp_tools import build_mcp_agent
from graphs.common import SYSTEM_PROMPT, chat_model, provider

graph = build_mcp_agent(chat_model(), provider(), system_prompt=SYSTEM_PROMPT).compile(name="mcp-agent")
