"""What the user wrote: server entries, scopes, settings, variables; reading, editing and watching the files.

Policy: this room reads and writes configuration and nothing else. It starts no process, opens no socket, expands
nothing before it is asked to, and never lets one bad file or entry hide the others.
"""

from codebuddy_mcp_tools.config.display import display_args, display_command, display_url
from codebuddy_mcp_tools.config.edit import remove_value, set_value
from codebuddy_mcp_tools.config.entry import parse_server
from codebuddy_mcp_tools.config.env import ExpandedServer, Expansion, expand, expand_server, placeholders
from codebuddy_mcp_tools.config.files import Places, file_problem
from codebuddy_mcp_tools.config.jsonc import locate, parse
from codebuddy_mcp_tools.config.layers import load_settings
from codebuddy_mcp_tools.config.models import (
    HttpServer,
    OAuthConfig,
    ServerConfig,
    SseServer,
    StdioServer,
    ToolConfig,
)
from codebuddy_mcp_tools.config.names import fold_name, name_problem
from codebuddy_mcp_tools.config.scopes import (
    PROJECT_SCOPES,
    Changes,
    Configuration,
    ServerEntry,
    choose,
    compare,
    load_configuration,
)
from codebuddy_mcp_tools.config.settings import Permissions, Settings
from codebuddy_mcp_tools.config.targets import Target, target_of
from codebuddy_mcp_tools.config.watch import ConfigWatcher

__all__ = [
    "PROJECT_SCOPES",
    "Changes",
    "ConfigWatcher",
    "Configuration",
    "ExpandedServer",
    "Expansion",
    "HttpServer",
    "OAuthConfig",
    "Permissions",
    "Places",
    "ServerConfig",
    "ServerEntry",
    "Settings",
    "SseServer",
    "StdioServer",
    "Target",
    "ToolConfig",
    "choose",
    "compare",
    "display_args",
    "display_command",
    "display_url",
    "expand",
    "expand_server",
    "file_problem",
    "fold_name",
    "load_configuration",
    "load_settings",
    "locate",
    "name_problem",
    "parse",
    "parse_server",
    "placeholders",
    "remove_value",
    "set_value",
    "target_of",
]
