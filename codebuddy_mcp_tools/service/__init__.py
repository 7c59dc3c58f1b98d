"""Many servers as one: who may start, what they list, how a call reaches the right one, and what state they are in.

Policy of the room: a server's failure is its own. Whatever one of them does, the others list and answer as if it
were not there, and what went wrong with it is one line in its status. Nothing here knows LangChain.
"""

from codebuddy_mcp_tools.service.admission import ApprovalHandler, ask, consult
from codebuddy_mcp_tools.service.server import MAIN_SESSION, ConfiguredServer
from codebuddy_mcp_tools.service.service import MCPService

__all__ = ["MAIN_SESSION", "ApprovalHandler", "ConfiguredServer", "MCPService", "ask", "consult"]
