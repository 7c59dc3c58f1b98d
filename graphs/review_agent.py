"""The agent in cautious mode: every call that is not a read by its server's own hint waits for a person."""

from __future__ import annotations

from codebuddy_mcp_tools import build_mcp_agent
from graphs.common import SYSTEM_PROMPT, chat_model, provider

graph = build_mcp_agent(chat_model(), provider("cautious"), system_prompt=SYSTEM_PROMPT).compile(name="review-agent")
