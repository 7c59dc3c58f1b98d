"""Settings out of files: who may say what, and who wins.

Order, highest first: environment variables, `--settings`, `<workspace>/.codebuddy/settings.local.json`,
`<workspace>/.codebuddy/settings.json`, `<workspace>/.vscode/settings.json`, `~/.codebuddy/settings.json`, the user's editor
settings. Lists are united; for everything else the highest layer that says something wins.

Policy: whoever writes a project's files is not the user. What a project says is heard where it makes things stricter
(deny and ask rules, a stricter mode, `pinPolicy: block`), and ignored with a warning where it would open something:
allow rules, approvals, allowed hosts, proxies, audit. A file that cannot be read may have held deny rules, so tools that no
rule matches then need a confirmation (`permissionMode` at least `manual`) until it is put right.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from codebuddy_mcp_tools.config import jsonc
from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.config.files import Document, Places, diagnostic_of, read_document
from codebuddy_mcp_tools.config.settings import Permissions, Settings
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.types import JSON, Diagnostic

_STRICTNESS = ("autonomous", "cautious", "manual", "strict")
_RULE_STRICTNESS = ("allow", "ask", "deny")
_LISTS = frozenset(
    {"disabled_mcp_servers", "enabled_mcpjson_servers", "disabled_mcpjson_servers", "defer", "allowed_hosts"}
)
_OWN = frozenset(Settings.model_fields) - {"diagnostics", "origins"}
_KEYS = {(info.alias or name): name for name, info in Settings.model_fields.items() if name in _OWN}
_EDITOR_KEYS = {
    "toolPermissions": "tool_permissions",
    "completionGate.enabled": "completion_gate_enabled",
    "permissionMode": "permission_mode",
}
_EDITOR_PREFIXES = ("codebuddy.", "codebuddy.mcp.", "sidecar.")
_ENVIRONMENT: dict[str, tuple[str, Callable[[str], JSON]]] = {
    "MAX_MCP_OUTPUT_TOKENS": ("max_output_tokens", int),
    "MCP_TIMEOUT": ("start_timeout_ms", float),
    "MCP_TOOL_TIMEOUT": ("tool_timeout_ms", float),
    "CODEBUDDY_DISABLE_MCP_LARGE_OUTPUT_FILES": (
        "large_output_files",
        lambda text: text.strip().lower() not in ("1", "true", "yes", "on"),
    ),
}
_PROJECT_MAY_ONLY: dict[str, Callable[[JSON], bool]] = {
    "enable_all_project_mcp_servers": lambda _: False,
    "enabled_mcpjson_servers": lambda _: False,
    "disabled_mcpjson_servers": lambda _: False,
    "allowed_hosts": lambda _: False,
    "trust_env": lambda value: value is False,
    "audit": lambda value: value is True,
    "stdio_always": lambda value: value is True,
    "pin_policy": lambda value: value == "block",
}
"""What a project's file may say about security: only what makes things stricter."""
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(info.rebuild_annotation()) for name, info in Settings.model_fields.items() if name in _OWN
}


@dataclass(slots=True)
class _Merge:
    """The layers so far; a layer that comes later has lower priority."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    is_incomplete: bool = False

    def say(self, severity: str, message: str, document: Document, pointer: str = "") -> None:
        line, column = jsonc.locate(document.text, pointer) if document.text and pointer else (None, None)
        self.diagnostics.append(Diagnostic(severity, message, document.path, pointer, line, column))

    def put(self, name: str, value: Any, origin: str) -> None:
        if name in _LISTS:
            self.values[name] = tuple(dict.fromkeys((*self.values.get(name, ()), *value)))
        elif name == "permissions":
            self.values[name] = _united(self.values.get(name, Permissions()), value)
        elif name == "tool_permissions":
            self.values[name] = {**value, **self.values.get(name, {})}
        elif name in self.values:
            return
        else:
            self.values[name] = value
        self.origins[name] = f"{self.origins[name]}, {origin}" if name in self.origins else origin


def _united(first: Permissions, second: Permissions) -> Permissions:
    return Permissions(
        allow=tuple(dict.fromkeys(first.allow + second.allow)),
        ask=tuple(dict.fromkeys(first.ask + second.ask)),
        deny=tuple(dict.fromkeys(first.deny + second.deny)),
    )


def load_settings(
    workspace: str | Path | None = None,
    *,
    source: str | Path | Mapping[str, JSON] | None = None,
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings of a user in a workspace. Never raises for a bad file: `Settings.diagnostics` says what is wrong.

    Args:
        workspace: the project's folder; `None` reads the user's files only.
        source: what `--settings` takes: JSON text, or the path of a file; also a mapping.
        home: the user's home folder instead of the process's.
        environ: environment variables instead of the process's.
    """
    variables = os.environ if environ is None else environ
    return settings_at(Places.of(workspace, home=home, environ=variables), source, variables)


def settings_at(
    places: Places | None, source: str | Path | Mapping[str, JSON] | None, environ: Mapping[str, str]
) -> Settings:
    """Settings from these places; without places, only from the environment and `source`."""
    trusted, project, user = _Merge(), _Merge(), _Merge()
    _read_environment(environ, trusted)
    if source is not None:
        _read_layer(_source_document(source), trusted, is_project=False, editor=False)
    if places is not None:
        _read_places(places, project, user)
    return _combine(trusted, project, user)


def _read_places(places: Places, project: _Merge, user: _Merge) -> None:
    for path in places.project_settings:
        _read_layer(read_document(path), project, is_project=True, editor=False)
    if places.workspace_editor is not None:
        _read_layer(read_document(places.workspace_editor), project, is_project=True, editor=True)
    _read_layer(read_document(places.user_settings), user, is_project=False, editor=False)
    _read_layer(read_document(places.user_editor), user, is_project=False, editor=True)


def _source_document(source: str | Path | Mapping[str, JSON]) -> Document:
    where = Path("--settings")
    if isinstance(source, Mapping):
        return Document(where, True, source)
    if isinstance(source, Path) or not source.lstrip("\ufeff \t\r\n").startswith(("{", "/*", "//")):
        document = read_document(Path(source).expanduser())
        if document.exists:
            return document
        return Document(document.path, True, problem=Diagnostic("error", "settings file not found", document.path))
    try:
        return Document(where, True, jsonc.parse(source, where), source)
    except ConfigError as error:
        return Document(where, True, problem=diagnostic_of(error))


def _read_environment(environ: Mapping[str, str], merge: _Merge) -> None:
    for variable, (name, read) in _ENVIRONMENT.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            value = _ADAPTERS[name].validate_python(read(text))
        except ValueError:
            merge.diagnostics.append(
                Diagnostic("warning", f"environment variable {variable} is not a number in range; ignored")
            )
        else:
            merge.put(name, value, f"environment variable {variable}")


def _read_layer(document: Document, merge: _Merge, *, is_project: bool, editor: bool) -> None:
    if document.problem is not None:
        merge.diagnostics.append(document.problem)
        merge.is_incomplete = merge.is_incomplete or not editor
        return
    for key, name, value, pointer in _flat(document, editor=editor, merge=merge):
        checked = _checked(key, name, value, pointer, document, merge)
        if checked is None or (is_project and not _project_may(key, name, checked, pointer, document, merge)):
            continue
        merge.put(name, _without_allow(name, checked) if is_project else checked, str(document.path))


def _flat(document: Document, *, editor: bool, merge: _Merge) -> list[tuple[str, str, JSON, str]]:
    """`(key as written, field name, value, pointer)` of everything in a file that is a setting of ours."""
    found: list[tuple[str, str, JSON, str]] = []
    for key, value in document.table.items():
        pointer = join_pointer(key)
        if editor:
            short = next((key.removeprefix(prefix) for prefix in _EDITOR_PREFIXES if key.startswith(prefix)), "")
            if name := _EDITOR_KEYS.get(short):
                found.append((key, name, value, pointer))
        elif key in ("completionGate.enabled", "completionGate"):
            inner = value.get("enabled") if isinstance(value, Mapping) else value
            found.append((key, "completion_gate_enabled", inner, pointer))
        elif name := _KEYS.get(key):
            found.append((key, name, value, pointer))
        elif near := difflib.get_close_matches(key, _KEYS, 1, 0.88):
            merge.say("warning", f'unknown setting "{key}"; did you mean "{near[0]}"?', document, pointer)
    return found


def _checked(key: str, name: str, value: JSON, pointer: str, document: Document, merge: _Merge) -> Any:
    if value is None:
        return None
    if name == "permissions" and isinstance(value, Mapping):
        return Permissions(**{part: _texts(value.get(part), f"permissions.{part}", pointer, document, merge)
                              for part in ("allow", "ask", "deny")})  # fmt: skip
    if name in _LISTS:
        return _texts(value, key, pointer, document, merge)
    if name == "tool_permissions" and isinstance(value, Mapping):
        return _tool_permissions(value, key, pointer, document, merge)
    try:
        return _ADAPTERS[name].validate_python(value)
    except ValidationError as error:
        message = error.errors(include_input=False, include_url=False, include_context=False)[0]["msg"]
        merge.say("error", f'"{key}": {message[0].lower()}{message[1:]}; ignored', document, pointer)
        merge.is_incomplete = merge.is_incomplete or name in ("permissions", "tool_permissions", "permission_mode")
        return None


def _texts(value: JSON, key: str, pointer: str, document: Document, merge: _Merge) -> tuple[str, ...]:
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Sequence):
        merge.say("error", f'"{key}" must be a list of texts; ignored', document, pointer)
        merge.is_incomplete = True
        return ()
    if any(not isinstance(item, str) for item in items):
        merge.say("error", f'"{key}" holds something that is not text; that is ignored', document, pointer)
    return tuple(item for item in items if isinstance(item, str))


def _tool_permissions(
    value: Mapping[str, JSON], key: str, pointer: str, document: Document, merge: _Merge
) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for tool, rule in value.items():
        if rule in _RULE_STRICTNESS:
            rules[tool] = rule
        else:
            merge.say("error", f'"{key}": {tool} must be allow, ask or deny; it asks until then', document, pointer)
            rules[tool] = "ask"
    return rules


def _project_may(key: str, name: str, value: Any, pointer: str, document: Document, merge: _Merge) -> bool:
    may = _PROJECT_MAY_ONLY.get(name)
    opens = (may is not None and not may(value)) or (name == "permission_mode" and value == "autonomous")
    if name == "permissions" and value.allow:
        merge.say("warning", _ignored('"permissions.allow"'), document, pointer)
    if name == "tool_permissions" and "allow" in value.values():
        merge.say("warning", _ignored(f'"allow" in "{key}"'), document, pointer)
    if opens:
        merge.say("warning", _ignored(f'"{key}"'), document, pointer)
    return not opens


def _ignored(what: str) -> str:
    return f"{what} is ignored in a file that belongs to the project; set it in ~/.codebuddy/settings.json"


def _without_allow(name: str, value: Any) -> Any:
    if name == "permissions":
        return value.model_copy(update={"allow": ()})
    if name == "tool_permissions":
        return {tool: rule for tool, rule in value.items() if rule != "allow"}
    return value


def _combine(trusted: _Merge, project: _Merge, user: _Merge) -> Settings:
    merged = _Merge(dict(trusted.values), dict(trusted.origins))
    mine = _Merge(dict(trusted.values), dict(trusted.origins))
    for layer in (project, user):
        for name, value in layer.values.items():
            merged.put(name, value, layer.origins[name])
    for name, value in user.values.items():
        mine.put(name, value, user.origins[name])
    _keep_strictest(merged, mine, project)
    is_incomplete = trusted.is_incomplete or project.is_incomplete or user.is_incomplete
    if is_incomplete and _STRICTNESS.index(merged.values.get("permission_mode", "autonomous")) < 2:
        merged.values["permission_mode"] = "manual"
        merged.origins["permission_mode"] = "a settings file that could not be read"
        merged.diagnostics.append(
            Diagnostic("warning", "settings could not be read completely, so tools without a rule need a confirmation")
        )
    said = (*trusted.diagnostics, *project.diagnostics, *user.diagnostics, *merged.diagnostics)
    return Settings(**merged.values, diagnostics=said, origins=merged.origins)


def _keep_strictest(merged: _Merge, mine: _Merge, project: _Merge) -> None:
    """A project's file may not loosen what the user's own layers say, only tighten it."""
    if "permission_mode" in project.values:
        own = mine.values.get("permission_mode", "autonomous")
        merged.values["permission_mode"] = max(own, project.values["permission_mode"], key=_STRICTNESS.index)
    for name, stricter in (("stdio_always", True), ("pin_policy", "block"), ("audit", True), ("trust_env", False)):
        if name in project.values and name in mine.values:
            merged.values[name] = stricter if project.values[name] == stricter else mine.values[name]
    if "tool_permissions" in project.values:
        rules = dict(mine.values.get("tool_permissions", {}))
        for tool, rule in project.values["tool_permissions"].items():
            rules[tool] = max(rules.get(tool, "allow"), rule, key=_RULE_STRICTNESS.index)
        merged.values["tool_permissions"] = rules
