"""What the nodes are given, looked at when they are made: a mistake is told there, and not in the middle of a run."""

from __future__ import annotations

from collections.abc import Collection

from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.tools.catalog import ToolCatalog


def check_provider(provider: object, where: str) -> None:
    """Raises:
    ConfigError: it is no `ToolProvider`.
    """
    if not isinstance(getattr(provider, "catalog", None), ToolCatalog):
        raise ConfigError(f"{where}: provider must be a ToolProvider, not {type(provider).__name__}")


def check_count(value: object, name: str, where: str, *, least: int = 1) -> None:
    """Raises:
    ConfigError: it is no whole number of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{where}: {name} must be a whole number from {least} up, not {value!r}")


def check_choice(value: object, name: str, where: str, choices: Collection[str]) -> None:
    """Raises:
    ConfigError: it is none of the choices.
    """
    if value not in choices:
        raise ConfigError(f"{where}: {name} must be {' or '.join(map(repr, choices))}, not {value!r}")
