"""`python -m codebuddy_mcp_tools` is `codebuddy-mcp`."""

from codebuddy_mcp_tools.cli import main

main()
