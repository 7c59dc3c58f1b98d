"""What one settings file says, checked value by value.

Policy: a value that cannot be used is a diagnostic and the rest of the file counts. Where it may have been a rule that
denies something, the reading is marked incomplete, so that nothing runs unasked because of a typing error. What a
project's file may not say is taken out here (`layers` has the rule).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from codebuddy_mcp_tools.config.document import join_pointer
from codebuddy_mcp_tools.config.files import Document
from codebuddy_mcp_tools.config.settings import Permissions, Settings
from codebuddy_mcp_tools.types import JSON, Diagnostic

LISTS = frozenset(
    {"disabled_mcp_servers", "enabled_mcpjson_servers", "disabled_mcpjson_servers", "defer", "allowed_hosts"}
)
"""Settings whose layers are united."""
RULE_STRICTNESS = ("allow", "ask", "deny")

_OWN = frozenset(Settings.model_fields) - {"diagnostics", "origins"}
_KEYS = {(info.alias or name): name for name, info in Settings.model_fields.items() if name in _OWN}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(info.rebuild_annotation()) for name, info in Settings.model_fields.items() if name in _OWN
}
_EDITOR_KEYS = {
    "toolPermissions": "tool_permissions",
    "completionGate.enabled": "completion_gate_enabled",
    "permissionMode": "permission_mode",
}
_EDITOR_PREFIXES = ("codebuddy.mcp.", "codebuddy.", "sidecar.")
_RULES = frozenset({"permissions", "tool_permissions", "permission_mode"})
_PROJECT_MAY_SAY: dict[str, Callable[[JSON], bool]] = {
    "enable_all_project_mcp_servers": lambda _: False,
    "enabled_mcpjson_servers": lambda _: False,
    "disabled_mcpjson_servers": lambda _: False,
    "allowed_hosts": lambda _: False,
    "trust_env": lambda value: value is False,
    "audit": lambda value: value is True,
    "stdio_always": lambda value: value is True,
    "pin_policy": lambda value: value == "block",
    "permission_mode": lambda value: value != "autonomous",
}
"""What a project's file may say about security: only what makes things stricter."""


@dataclass(slots=True)
class Layer:
    """What one file, variable set or argument sets."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    is_incomplete: bool = False
    """Something that may have been a rule could not be read."""


@dataclass(frozen=True, slots=True)
class _Written:
    """One setting as it stands in a file."""

    key: str
    name: str
    value: JSON
    pointer: str


def checked(name: str, value: JSON) -> Any:
    """The value of a setting by field name; raises `ValueError` when it cannot be one."""
    return _ADAPTERS[name].validate_python(value)


class LayerReader:
    """Reads one document into a layer."""

    def __init__(self, document: Document, *, is_project: bool = False, is_editor: bool = False) -> None:
        self._document = document
        self._is_project = is_project
        self._is_editor = is_editor
        self._layer = Layer()

    def read(self) -> Layer:
        """The layer; never raises."""
        problem = self._document.problem
        if problem is not None:
            self._layer.diagnostics.append(replace(problem, severity="warning") if self._is_editor else problem)
            self._layer.is_incomplete = not self._is_editor
            return self._layer
        for written in self._written():
            value = self._checked(written)
            if value is None or (self._is_project and not self._project_may(written, value)):
                continue
            self._layer.values[written.name] = _without_allow(written.name, value) if self._is_project else value
            self._layer.origins[written.name] = str(self._document.path)
        return self._layer

    def _say(self, severity: str, message: str, pointer: str) -> None:
        line, column = self._document.place(pointer)
        self._layer.diagnostics.append(Diagnostic(severity, message, self._document.path, pointer, line, column))

    def _written(self) -> list[_Written]:
        found: list[_Written] = []
        for key, value in self._document.table.items():
            pointer = join_pointer(key)
            if self._is_editor:
                short = next((key.removeprefix(prefix) for prefix in _EDITOR_PREFIXES if key.startswith(prefix)), "")
                if name := _EDITOR_KEYS.get(short):
                    found.append(_Written(key, name, value, pointer))
            elif key in ("completionGate.enabled", "completionGate"):
                inner = value.get("enabled") if isinstance(value, Mapping) else value
                found.append(_Written(key, "completion_gate_enabled", inner, pointer))
            elif name := _KEYS.get(key):
                found.append(_Written(key, name, value, pointer))
            elif near := difflib.get_close_matches(key, _KEYS, 1, 0.88):
                self._say("warning", f'unknown setting "{key}"; did you mean "{near[0]}"?', pointer)
        return found

    def _checked(self, written: _Written) -> Any:
        value, name = written.value, written.name
        if value is None:
            return None
        if name in LISTS:
            return self._texts(value, written.key, written.pointer)
        if name == "permissions" and isinstance(value, Mapping):
            return self._permissions(value, written)
        if name == "tool_permissions" and isinstance(value, Mapping):
            return self._tool_permissions(value, written)
        try:
            return checked(name, value)
        except ValidationError as error:
            message = error.errors(include_input=False, include_url=False, include_context=False)[0]["msg"]
            self._say("error", f'"{written.key}": {message[0].lower()}{message[1:]}; ignored', written.pointer)
            self._layer.is_incomplete = self._layer.is_incomplete or name in _RULES
            return None

    def _permissions(self, value: Mapping[str, JSON], written: _Written) -> Permissions:
        for key in value:
            near = difflib.get_close_matches(key, RULE_STRICTNESS, 1, 0.6)
            if key not in RULE_STRICTNESS and near:
                self._say(
                    "warning", f'unknown key "{key}" in "permissions"; did you mean "{near[0]}"?', written.pointer
                )
        parts = {
            part: self._texts(value[part], f"permissions.{part}", written.pointer + join_pointer(part))
            for part in RULE_STRICTNESS
            if value.get(part) is not None
        }
        return Permissions(**parts)

    def _texts(self, value: JSON, key: str, pointer: str) -> tuple[str, ...]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, Sequence):
            self._say("error", f'"{key}" must be a list of texts; ignored', pointer)
            self._layer.is_incomplete = True
            return ()
        if any(not isinstance(item, str) for item in items):
            self._say("error", f'"{key}" holds something that is not text; that is ignored', pointer)
        return tuple(item for item in items if isinstance(item, str))

    def _tool_permissions(self, value: Mapping[str, JSON], written: _Written) -> dict[str, Any]:
        rules = {tool: rule if rule in RULE_STRICTNESS else "ask" for tool, rule in value.items()}
        for tool, rule in value.items():
            if rule not in RULE_STRICTNESS:
                at = written.pointer + join_pointer(tool)
                self._say("error", f'"{written.key}": {tool} must be allow, ask or deny; it asks until then', at)
        return rules

    def _project_may(self, written: _Written, value: Any) -> bool:
        may = _PROJECT_MAY_SAY.get(written.name, lambda _: True)(value)
        what = None if may else f'"{written.key}"'
        if written.name == "permissions" and value.allow:
            what = '"permissions.allow"'
        if written.name == "tool_permissions" and "allow" in value.values():
            what = f'"allow" in "{written.key}"'
        if what:
            remedy = "set it in ~/.codebuddy/settings.json"
            self._say("warning", f"{what} is ignored in a file that belongs to the project; {remedy}", written.pointer)
        return may


def _without_allow(name: str, value: Any) -> Any:
    if name == "permissions":
        return value.model_copy(update={"allow": ()})
    if name == "tool_permissions":
        return {tool: rule for tool, rule in value.items() if rule != "allow"}
    return value
