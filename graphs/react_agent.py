"""LangChain's `create_agent` with our middleware: the same order, approvals and gate."""

from __future__ import annotations

from langchain.agents import create_agent

from codebuddy_mcp_tools import MCPToolsMiddleware
from graphs.common import SYSTEM_PROMPT, chat_model, provider

graph = create_agent(
    chat_model(), system_prompt=SYSTEM_PROMPT, middleware=[MCPToolsMiddleware(provider())], name="react-agent"
)
