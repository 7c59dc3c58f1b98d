from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("langgraph", "langchain", "typer", "langchain_mcp_adapters", "uvicorn", "starlette", "rich", "pandas")


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after running the code; a warning is an error."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_after("import codebuddy_mcp_tools") & set(HEAVY)


def test_a_provider_needs_no_graph_library() -> None:
    code = "from codebuddy_mcp_tools import ToolProvider\nToolProvider({})"
    assert not loaded_after(code) & (
        set(HEAVY) - {"rich", "langchain_mcp_adapters"}
    )  # httpx loads rich where it is installed


@pytest.mark.parametrize("module", ["testing", "testing.stdio", "testing.web", "testing.fault_server"])
def test_the_fault_server_needs_the_standard_library_only(module: str) -> None:
    code = f"import codebuddy_mcp_tools.{module}"
    assert not loaded_after(code) & {*HEAVY, "mcp", "pydantic", "anyio", "httpx", "langchain_core"}


def test_every_public_name_can_be_had() -> None:
    code = "import codebuddy_mcp_tools as package\nassert all(hasattr(package, name) for name in package.__all__)"
    assert "codebuddy_mcp_tools" in loaded_after(code)
