"""MCP servers as LangChain tools and LangGraph nodes."""
