"""Every configuration example of the three systems whose files are read here, as it stands in their documentation."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.config import expand_server, load_configuration, load_settings, parse
from codebuddy_mcp_tools.types import Scope

STDIO, SSE, HTTP = "stdio", "sse", "http"

FULL_EXAMPLE = """{
  // MCP Server Configuration for CodeBuddy
  // This file configures the MCP servers used by the project

  "mcpServers": {
    /*
     * Filesystem Server
     * Provides file system access capabilities
     * Docs: https://github.com/modelcontextprotocol/servers
     */
    "filesystem": {
      "type": "stdio",
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/path/to/workspace",  // Workspace directory path
      ],
      "env": {
        "DEBUG": "true",  // Enable debug mode
      },
    },

    // HTTP API server example
    "api-server": {
      "type": "http",
      "url": "http://localhost:3000/mcp",  // Local development server
      "headers": {
        "Authorization": "Bearer your-token",
      },
    },
  },

  // Disabled servers list (for reference)
  "disabledMcpServers": [
    "deprecated-server",
  ],
}"""

PYTHON_TOOLS = """{"mcpServers": {"python-tools": {"type": "stdio", "command": "${PYTHON_PATH:-python}",
 "args": ["-m", "my_mcp_server", "--config", "${CONFIG_DIR:-/etc/config}"],
 "env": {"PYTHONPATH": "${PYTHON_LIB_PATH}", "DEBUG": "${DEBUG_MODE:-false}", "API_KEY": "${API_KEY}"}}}}"""

API_SERVER = """{"mcpServers": {"api-server": {"type": "http", "url": "${API_BASE_URL:-https://api.example.com}/mcp",
 "headers": {"Authorization": "Bearer ${API_TOKEN}", "X-API-Version": "${API_VERSION:-v1}",
 "User-Agent": "CodeBuddy/${CODEBUDDY_VERSION:-1.0}"}}}}"""

PROJECT_FILES = {
    "full example with comments": (FULL_EXAMPLE, {"filesystem": STDIO, "api-server": HTTP}),
    "variables in a stdio server": (PYTHON_TOOLS, {"python-tools": STDIO}),
    "variables in a remote server": (API_SERVER, {"api-server": HTTP}),
    "stdio fields": (
        (
            '{"mcpServers": {"s": {"type": "stdio", "command": "python", "args": ["-m", "my_mcp_server"],'
            ' "env": {"PYTHONPATH": "/path/to/tools", "DEBUG": "true"}}}}'
        ),
        {"s": STDIO},
    ),
    "sse fields": (
        (
            '{"mcpServers": {"s": {"type": "sse", "url": "https://api.example.com/mcp/sse",'
            ' "headers": {"Authorization": "Bearer your-api-token", "X-API-Version": "v1"}}}}'
        ),
        {"s": SSE},
    ),
    "http fields": (
        (
            '{"mcpServers": {"s": {"type": "http", "url": "https://mcp.example.com/api/v1",'
            ' "headers": {"Authorization": "Bearer secret-token", "Content-Type": "application/json"}}}}'
        ),
        {"s": HTTP},
    ),
    "deferred server": (
        '{"mcpServers": {"my-server": {"type": "stdio", "command": "my-mcp-server", "defer_loading": true}}}',
        {"my-server": STDIO},
    ),
    "deferred server with one tool that is not": (
        (
            '{"mcpServers": {"my-server": {"type": "stdio", "command": "my-mcp-server", "defer_loading": true,'
            ' "tools": {"frequently_used_tool": {"defer_loading": false}}}}}'
        ),
        {"my-server": STDIO},
    ),
    "python tool server": (
        (
            '{"mcpServers": {"python-tools": {"type": "stdio", "command": "python", "args": ["-m", "my_mcp_server"],'
            ' "env": {"PYTHONPATH": "/path/to/tools"}, "description": "Python toolset"}}}'
        ),
        {"python-tools": STDIO},
    ),
    "remote api server": (
        (
            '{"mcpServers": {"api-server": {"type": "sse", "url": "https://api.example.com/mcp/sse", "headers":'
            ' {"Authorization": "Bearer your-token", "X-API-Version": "v1"}, "description": "Remote API service"}}}'
        ),
        {"api-server": SSE},
    ),
    "node server": (
        (
            '{"mcpServers": {"node-server": {"type": "stdio", "command": "node", "args": ["./mcp-server.js"],'
            ' "env": {"NODE_ENV": "production"}, "description": "Node.js MCP server"}}}'
        ),
        {"node-server": STDIO},
    ),
    "sidecar's project file": (
        (
            '{"mcpServers": {"my-api": {"type": "http", "url": "https://mcp.example.com/api", "headers":'
            ' {"Authorization": "Bearer ${API_TOKEN}"}}, "local-tools": {"type": "stdio", "command": "npx",'
            ' "args": ["my-mcp-server"], "env": {"DB_URL": "${DATABASE_URL}"}}}}'
        ),
        {"my-api": HTTP, "local-tools": STDIO},
    ),
}

EDITOR_FILES = {
    "codebuddy.mcp.servers": (
        (
            '{"codebuddy.mcp.servers": {"my-database": {"command": "npx", "args": ["-y", "@org/db-mcp-server"],'
            ' "env": { "DATABASE_URL": "postgresql://localhost:5432/mydb" } },'
            ' "custom-api": {"url": "http://localhost:3001/mcp", "transport": "sse"}}}'
        ),
        {"my-database": STDIO, "custom-api": SSE},
    ),
    "server": (
        (
            '{"sidecar.mcpServers": {"server-name": {"type": "stdio", "command": "executable",'
            ' "args": ["arg1", "arg2"],'
            ' "env": { "API_KEY": "your-key" }}}}'
        ),
        {"server-name": STDIO},
    ),
    "production-api": (
        (
            '{"sidecar.mcpServers": {"production-api": {"type": "http", "url": "https://mcp.mycompany.com/api",'
            ' "headers": {"Authorization": "Bearer ${MCP_TOKEN}"}}}}'
        ),
        {"production-api": HTTP},
    ),
    "streaming-server": (
        (
            '{"sidecar.mcpServers": {"streaming-server": {"type": "sse", "url": "https://mcp.example.com/sse",'
            ' "headers": {"X-API-Key": "${SSE_API_KEY}"}}}}'
        ),
        {"streaming-server": SSE},
    ),
    "filesystem": (
        (
            '{"sidecar.mcpServers": {"filesystem": {"command": "npx",'
            ' "args": ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/dir"]}}}'
        ),
        {"filesystem": STDIO},
    ),
    "github": (
        (
            '{"sidecar.mcpServers": {"github": {"command": "npx",'
            ' "args": ["-y", "@modelcontextprotocol/server-github"],'
            ' "env": {"GITHUB_TOKEN": "your-token"},'
            ' "tools": {"delete_repository": {"enabled": false}, "delete_branch": {"enabled": false}}}}}'
        ),
        {"github": STDIO},
    ),
    "database": (
        (
            '{"sidecar.mcpServers": {"database": {"command": "npx",'
            ' "args": ["-y", "@modelcontextprotocol/server-sqlite", "large.db"], "maxResultChars": 20000}}}'
        ),
        {"database": STDIO},
    ),
    "alwaysLoad": (
        (
            '{"sidecar.mcpServers": {"filesystem": {"command": "npx",'
            ' "args": ["-y", "@modelcontextprotocol/server-filesystem", "/path"], "alwaysLoad": true}}}'
        ),
        {"filesystem": STDIO},
    ),
    "docker gateway": (
        '{"codebuddy.mcp.servers": {"docker-gateway": {"command": "docker", "args": ["mcp", "gateway", "run"]}}}',
        {"docker-gateway": STDIO},
    ),
}


def load(tmp_path, path, text):
    (tmp_path / "ws").mkdir()
    file = tmp_path / "ws" / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return load_configuration(workspace=tmp_path / "ws", home=tmp_path, environ={})


@pytest.mark.parametrize("example", PROJECT_FILES)
def test_an_example_of_a_project_file_loads_without_a_remark(tmp_path, example):
    text, servers = PROJECT_FILES[example]
    found = load(tmp_path, ".mcp.json", text)
    assert {name: entry.config.type for name, entry in found.entries.items()} == servers
    assert {entry.scope for entry in found.entries.values()} == {Scope.PROJECT}
    assert found.diagnostics == ()


@pytest.mark.parametrize("example", EDITOR_FILES)
def test_an_example_of_editor_settings_loads_without_a_remark(tmp_path, example):
    text, servers = EDITOR_FILES[example]
    found = load(tmp_path, ".vscode/settings.json", text)
    assert {name: entry.config.type for name, entry in found.entries.items()} == servers
    assert {entry.scope for entry in found.entries.values()} == {Scope.WORKSPACE}
    assert found.diagnostics == ()


def test_the_template_of_the_format_gives_one_error_that_names_the_choices_and_the_local_server(tmp_path):
    text = """{
      // MCP server configuration
      "mcpServers": {"server-name": {"type": "stdio|sse|http", "command": "command path", "args": ["arg1", "arg2"],
        "env": {"ENV_VAR": "value"}, "url": "http://example.com/mcp",
        "headers": {"Authorization": "Bearer token"}, "description": "Server description"}},
      // The projects field is only valid in the user scope file and identifies local scope configurations
      "projects": {"%s": {"mcpServers": {"local-server": {"type": "stdio", "command": "./local-tool"}}}}
    }""" % (tmp_path / "ws")
    (tmp_path / "ws").mkdir()
    (tmp_path / ".codebuddy.json").write_text(text)
    found = load_configuration(workspace=tmp_path / "ws", home=tmp_path, environ={})
    assert found.entries["local-server"].scope is Scope.LOCAL
    assert "expected stdio, http" in found.entries["server-name"].error


def test_the_variables_of_the_examples_get_their_values_and_the_missing_ones_are_listed(tmp_path):
    tools = load(tmp_path, ".mcp.json", PYTHON_TOOLS).entries["python-tools"]
    expanded = expand_server(tools.config, {"API_KEY": "k"})
    assert expanded.config.command == "python"
    assert expanded.config.args[-1] == "/etc/config"
    assert expanded.config.env == {"PYTHONPATH": "${PYTHON_LIB_PATH}", "DEBUG": "false", "API_KEY": "k"}
    assert expanded.missing == ("PYTHON_LIB_PATH",)
    (tmp_path / "other").mkdir()
    api = load(tmp_path / "other", ".mcp.json", API_SERVER).entries["api-server"]
    expanded = expand_server(api.config, {"API_TOKEN": "t", "API_BASE_URL": "http://localhost:3000"})
    assert expanded.config.url == "http://localhost:3000/mcp"
    assert expanded.config.headers["Authorization"] == "Bearer t"
    assert expanded.config.headers["User-Agent"] == "CodeBuddy/1.0"


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ('{"permissions": {"allow": ["mcp__github"]}}', lambda s: s.permissions.allow == ("mcp__github",)),
        (
            '{"permissions": {"allow": ["mcp__github__get_issue", "mcp__github__list_issues"]}}',
            lambda s: len(s.permissions.allow) == 2,
        ),
        (
            '{"permissions": {"deny": ["mcp__dangerous_server__delete_file"]}}',
            lambda s: s.permissions.deny == ("mcp__dangerous_server__delete_file",),
        ),
        ('{"permissions": {"deny": ["mcp__*"]}}', lambda s: s.permissions.deny == ("mcp__*",)),
        ('{"enableAllProjectMcpServers": true}', lambda s: s.enable_all_project_mcp_servers),
        (
            '{"enabledMcpjsonServers": ["server-name-1", "server-name-2"]}',
            lambda s: s.enabled_mcpjson_servers == ("server-name-1", "server-name-2"),
        ),
        ('{"completionGate": {"enabled": false}}', lambda s: not s.completion_gate_enabled),
        ('{"toolPermissions": {"mcp_s_t": "ask"}}', lambda s: s.tool_permissions == {"mcp_s_t": "ask"}),
    ],
)
def test_an_example_of_settings_is_read(tmp_path, text, check):
    settings = load_settings(tmp_path, home=tmp_path, environ={}, source=text)
    assert check(settings)
    assert settings.diagnostics == ()


def test_the_headers_fragment_of_the_page_is_json():
    assert parse('{\n "headers": {\n "Authorization": "Bearer ${MY_API_KEY}"\n }\n }')["headers"]
