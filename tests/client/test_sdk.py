"""What we keep of the SDK as constants is what the installed SDK says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS
from mcp.types import LATEST_PROTOCOL_VERSION

from codebuddy_mcp_tools.client import sdk


def test_protocol_revisions_are_those_of_the_sdk() -> None:
    assert list(sdk.PROTOCOL_VERSIONS) == SUPPORTED_PROTOCOL_VERSIONS
    assert sdk.LATEST_PROTOCOL_VERSION == LATEST_PROTOCOL_VERSION


def test_inherited_variables_are_those_of_the_sdk() -> None:
    assert list(sdk.INHERITED_ENVIRONMENT) == DEFAULT_INHERITED_ENV_VARS


@pytest.mark.case("B45")
def test_a_child_gets_the_safe_part_of_our_environment_and_its_own_on_top() -> None:
    ours = {"PATH": "/bin", "HOME": "/h", "MY_VAR": "1", "AWS_SECRET_ACCESS_KEY": "x", "SHELL": "() { :; }"}
    assert sdk.child_environment({"API_KEY": "x", "HOME": "/other"}, ours) == {
        "PATH": "/bin",
        "HOME": "/other",
        "API_KEY": "x",
    }


def test_a_client_can_be_made_without_importing_the_sdk() -> None:
    script = (
        "import sys, codebuddy_mcp_tools.client as c;"
        "from codebuddy_mcp_tools.config.models import StdioServer;"
        "c.MCPClient(c.ConnectionSpec('s', StdioServer(command='x')));"
        "print([m for m in ('mcp', 'langchain_core') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]", done.stdout
