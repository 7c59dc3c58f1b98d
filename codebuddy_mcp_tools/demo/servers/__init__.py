"""Two small real MCP servers: `python -m codebuddy_mcp_tools.demo.servers.tasks` and `….files`."""
