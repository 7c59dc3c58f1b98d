"""What holds for every test: a home of its own, no settings from the person who runs it, and nothing left running."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import npm

OWN_VARIABLES = (
    "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT", "MAX_MCP_OUTPUT_TOKENS", "CODEBUDDY_DISABLE_MCP_LARGE_OUTPUT_FILES",
    "XDG_CONFIG_HOME",
)  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder for this test: empty, so that no test reads or writes the real one."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(scope="session")
def npm_servers() -> npm.Servers:
    """The MCP servers from npm; tests that need one are skipped without npm, and fail without it in CI."""
    return npm.installed()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long versions of the chaos tests run only when they are asked for: `pytest -m soak`."""
    if "soak" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command line sets up logging for its own process; a test must not leave that to the tests after it."""
    logger = logging.getLogger("codebuddy_mcp_tools")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers
