"""Settings out of files: who may say what, and who wins.

Order, highest first: environment variables, `--settings`, `<workspace>/.codebuddy/settings.local.json`,
`<workspace>/.codebuddy/settings.json`, `<workspace>/.vscode/settings.json`, `~/.codebuddy/settings.json`, the user's
editor settings. Lists are united; for everything else the highest layer that says something wins.

Policy: whoever writes a project's files is not the user. What a project says is heard where it makes things stricter
(deny and ask rules, a stricter mode, `pinPolicy: block`), and ignored with a warning where it would open something:
allow rules, approvals, allowed hosts, proxies, audit. A file that cannot be read may have held deny rules, so tools
that no rule matches then need a confirmation (`permissionMode` at least `manual`) until it is put right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from codebuddy_mcp_tools.config import jsonc
from codebuddy_mcp_tools.config.files import Document, Places, diagnostic_of, read_document
from codebuddy_mcp_tools.config.layer_values import LISTS, RULE_STRICTNESS, Layer, LayerReader, checked
from codebuddy_mcp_tools.config.settings import Permissions, Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON, Diagnostic

SettingsSource = str | Path | Mapping[str, JSON]
"""What `--settings` takes: JSON text, or the path of a file; also a mapping."""

_STRICTNESS = ("autonomous", "cautious", "manual", "strict")
_STRICTER: dict[str, Callable[[Any, Any], Any]] = {
    "permission_mode": lambda mine, other: max(mine, other, key=_STRICTNESS.index),
    "stdio_always": lambda mine, other: mine or other,
    "audit": lambda mine, other: mine or other,
    "trust_env": lambda mine, other: mine and other,
    "pin_policy": lambda mine, other: "block" if "block" in (mine, other) else "warn",
    "tool_permissions": lambda mine, other: {
        tool: max(mine.get(tool, "allow"), other.get(tool, "allow"), key=RULE_STRICTNESS.index)
        for tool in {**mine, **other}
    },
}
"""How a project's word and the user's own are joined where security is concerned."""
_ENVIRONMENT: dict[str, tuple[str, Callable[[str], JSON]]] = {
    "MAX_MCP_OUTPUT_TOKENS": ("max_output_tokens", int),
    "MCP_TIMEOUT": ("start_timeout_ms", float),
    "MCP_TOOL_TIMEOUT": ("tool_timeout_ms", float),
    "CODEBUDDY_DISABLE_MCP_LARGE_OUTPUT_FILES": (
        "large_output_files",
        lambda text: text.lower() not in ("1", "true", "yes", "on"),
    ),
}


def load_settings(
    workspace: str | Path | None = None,
    *,
    source: SettingsSource | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings of a user in a workspace. Never raises for a bad file: `Settings.diagnostics` says what is wrong.

    Args:
        workspace: the project's folder; `None` reads the user's files only.
        source: what `--settings` takes.
        home: the user's home folder instead of the process's.
        environ: environment variables instead of the process's.
    """
    variables = os.environ if environ is None else environ
    return settings_at(Places.of(workspace, home=home, environ=variables), source, variables)


def settings_at(places: Places | None, source: SettingsSource | None, environ: Mapping[str, str]) -> Settings:
    """Settings from these places; without places, only from the environment and `source`."""
    explicit = [_environment_layer(environ)]
    if source is not None:
        explicit.append(LayerReader(_source_document(source)).read())
    project, user = (_project_layers(places), _user_layers(places)) if places is not None else ([], [])
    return _combined(explicit, project, user)


def _project_layers(places: Places) -> list[Layer]:
    layers = [LayerReader(read_document(path), is_project=True).read() for path in places.project_settings]
    if places.workspace_editor is not None:
        editor = read_document(places.workspace_editor)
        layers.append(LayerReader(editor, is_project=True, is_editor=True).read())
    return layers


def _user_layers(places: Places) -> list[Layer]:
    own = LayerReader(read_document(places.user_settings)).read()
    return [own, LayerReader(read_document(places.user_editor), is_editor=True).read()]


def _source_document(source: SettingsSource) -> Document:
    where = Path("--settings")
    if isinstance(source, Mapping):
        return Document(where, True, source)
    if isinstance(source, Path) or not source.lstrip("\ufeff \t\r\n").startswith(("{", "/*", "//")):
        document = read_document(Path(source).expanduser())
        if document.exists:
            return document
        return Document(document.path, problem=Diagnostic("error", "settings file not found", document.path))
    try:
        return Document(where, True, jsonc.parse(source, where), source)
    except ConfigError as error:
        return Document(where, True, problem=diagnostic_of(error))


def _environment_layer(environ: Mapping[str, str]) -> Layer:
    layer = Layer()
    for variable, (name, read) in _ENVIRONMENT.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            layer.values[name] = checked(name, read(text))
        except ValueError:
            message = f"environment variable {variable} is not a number in range; ignored"
            layer.diagnostics.append(Diagnostic("warning", message))
        else:
            layer.origins[name] = f"environment variable {variable}"
    return layer


def _combined(explicit: list[Layer], project: list[Layer], user: list[Layer]) -> Settings:
    layers = [*explicit, *project, *user]
    values, origins = _merged(layers)
    mine, _ = _merged([*explicit, *user])
    theirs, _ = _merged(project)
    for name, stricter in _STRICTER.items():
        if name in theirs and name in mine:
            values[name] = stricter(mine[name], theirs[name])
    said = [diagnostic for layer in layers for diagnostic in layer.diagnostics]
    mode = values.get("permission_mode", "autonomous")
    if any(layer.is_incomplete for layer in layers) and _STRICTNESS.index(mode) < _STRICTNESS.index("manual"):
        values["permission_mode"], origins["permission_mode"] = "manual", "settings that could not be read"
        message = "settings could not be read completely, so every tool without a rule of its own needs a confirmation"
        said.append(Diagnostic("warning", message))
    return Settings(**values, diagnostics=tuple(dict.fromkeys(said)), origins=origins)


def _merged(layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values and origins of layers, highest priority first."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if name not in values:
                values[name], origins[name] = value, layer.origins[name]
            elif name in LISTS or name in ("permissions", "tool_permissions"):
                values[name] = _united(values[name], value)
                origins[name] += f", {layer.origins[name]}"
    return values, origins


def _united(higher: Any, lower: Any) -> Any:
    if isinstance(higher, Permissions):
        return Permissions(
            allow=tuple(dict.fromkeys(higher.allow + lower.allow)),
            ask=tuple(dict.fromkeys(higher.ask + lower.ask)),
            deny=tuple(dict.fromkeys(higher.deny + lower.deny)),
        )
    return {**lower, **higher} if isinstance(higher, dict) else tuple(dict.fromkeys((*higher, *lower)))
