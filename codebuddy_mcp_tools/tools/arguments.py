"""The arguments of one call, before they leave: slips put right, the rest checked against the server's own schema.

Policy: what the model sent is what the server gets. A failed check is an answer to the model that names the argument
and what was expected; it costs one call, never the session. See `argument_repair` for what is put right and
`schema_check` for what a hostile schema can cost.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from codebuddy_mcp_tools.policy.envelope import defang
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.argument_repair import ArgumentRepair
from codebuddy_mcp_tools.tools.json_bounds import Measured, NotJSON, measure
from codebuddy_mcp_tools.tools.schema_alternatives import required_names
from codebuddy_mcp_tools.tools.schema_check import SchemaCheck
from codebuddy_mcp_tools.tools.schema_subset import TYPES, type_of, types_of
from codebuddy_mcp_tools.types import JSON, JSONObject

MAX_ARGUMENT_CHARS = 4_000_000
MAX_ARGUMENT_DEPTH = 100
_SHOWN_PROBLEMS = 5
_SHOWN_CHARS = 300
_SHOWN_PLACE = 120
_MAX_NEAR = 200


class ArgumentError(ValueError):
    """The arguments cannot be sent as they are; nothing was sent. The text is for the model.

    Attributes:
        arguments: the places that are wrong, such as `filter.limit` or `ids[0]`; `""` for the arguments as a whole.
    """

    def __init__(self, message: str, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.arguments = arguments


class ArgumentChecker:
    """Checks the calls of one tool. Compiles the schema at the first call.

    Args:
        schema: the input schema as the server sent it.
    """

    def __init__(self, schema: JSONObject) -> None:
        self._schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self._check = SchemaCheck(self._schema)
        self._repair: ArgumentRepair | None = None

    @property
    def note(self) -> str | None:
        """Why calls are checked in part or not at all, `None` when they are; known after the first call."""
        return self._check.note

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments as they are to be sent: the same object, or a repaired copy.

        Raises:
            ArgumentError: they cannot be sent, or do not fit the schema.
        """
        if not isinstance(arguments, Mapping):
            raise ArgumentError(f"The arguments are {_article(type_of(arguments))}, expected an object.", ("",))
        measured = _measure(arguments)
        if self._repair is None:
            self._repair = ArgumentRepair(self._schema)
        repaired = self._repair.repair(arguments)
        errors = self._check.errors(repaired, measured)
        problems = [_problem(error) for error in errors] if errors is not None else _cheap(repaired, self._schema)
        if problems:
            raise _refusal([(place, text + self._hint(place)) for place, text in problems])
        return repaired

    def _hint(self, place: str) -> str:
        """The argument that a name which does not exist may have meant."""
        properties = self._schema.get("properties")
        if not isinstance(properties, Mapping) or place in properties or len(properties) > _MAX_NEAR:
            return ""
        if "." in place or "[" in place:  # inside an argument that does exist
            return ""
        near = difflib.get_close_matches(place, [name for name in properties if isinstance(name, str)], n=1)
        return f' (did you mean "{near[0]}"?)' if near and place else ""


def _measure(arguments: Mapping[str, Any]) -> Measured:
    try:
        return measure(arguments, max_chars=MAX_ARGUMENT_CHARS, max_depth=MAX_ARGUMENT_DEPTH)
    except NotJSON as error:
        place = _place(error.path)
        subject = f'Argument "{place}"' if place else "The arguments"
        text = str(error) if place else str(error).replace("is ", "are ", 1)
        raise ArgumentError(defang(clean_line(f"{subject} {text}.", _SHOWN_CHARS)), (place,)) from None


def _refusal(problems: list[tuple[str, str]]) -> ArgumentError:
    lines = list(dict.fromkeys(defang(clean_line(text, _SHOWN_CHARS)) for _, text in problems))
    return ArgumentError("; ".join(lines) + ".", tuple(dict.fromkeys(place for place, _ in problems)))


def _problem(error: jsonschema_rs.ValidationError) -> tuple[str, str]:
    """The place and one sentence: the argument, what was expected, what came."""
    place = _place(tuple(error.instance_path))
    kind = error.kind
    if kind.name == "required":
        missing = _join(place, str(getattr(kind, "property", "")))
        return missing, f'argument "{missing}" is required'
    if kind.name in {"additionalProperties", "unevaluatedProperties", "falseSchema"}:
        names = [_join(place, str(name)) for name in getattr(kind, "unexpected", ())[:_SHOWN_PROBLEMS]] or [place]
        return names[0], f"no such argument: {', '.join(names)}"
    subject = f'argument "{place}"' if place else "the arguments"
    return place, f"{subject}: expected {_expected(error)}, got {_shown(error.instance)}"


def _expected(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    if kind.name == "type":
        return " or ".join(_article(name) for name in TYPES if name in getattr(kind, "types", ()))
    if kind.name == "enum":
        return "one of " + ", ".join(_shown(option) for option in getattr(kind, "options", ())[:20])
    if kind.name == "const":
        return _shown(getattr(kind, "expected_value", None))
    if kind.name == "pattern":
        return f"text that matches {getattr(kind, 'pattern', '')}"
    if kind.name in {"anyOf", "oneOf"}:
        branches = getattr(kind, "context", ())
        if (fitting := sum(not branch for branch in branches)) > 1:  # `oneOf` alone says so
            return f"what fits only one of the schema's alternatives (this fits {fitting})"
        context = [found for branch in branches[:8] for found in branch[:1]]
        forms = dict.fromkeys(_branch(found) for found in context)
        return " or ".join(forms) or "exactly one of the schema's alternatives"
    limit = kind.as_dict().get("limit")
    return f"{kind.name} {limit}" if limit is not None else f"what the schema's `{kind.name}` asks for"


def _branch(error: jsonschema_rs.ValidationError) -> str:
    if error.kind.name == "required":
        return f'an object with "{getattr(error.kind, "property", "")}"'
    return _expected(error) if error.kind.name in {"type", "enum", "const", "pattern"} else str(error.message)[:120]


def _cheap(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What can be seen without the schema's depths: required names, and types of arguments that state a single one."""
    properties = schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    missing = (name for name in required_names(schema) if name not in arguments)
    problems = [(name, f'argument "{name}" is required') for name in islice(missing, _SHOWN_PROBLEMS)]
    for name, value in arguments.items():
        stated = named.get(name)
        kinds = types_of(stated) if isinstance(stated, Mapping) and "type" in stated else []
        if kinds and not _is_of(value, kinds):
            expected = " or ".join(_article(kind) for kind in kinds)
            problems.append((name, f'argument "{name}": expected {expected}, got {_shown(value)}'))
    return problems[:_SHOWN_PROBLEMS]


def _is_of(value: JSON, kinds: list[str]) -> bool:
    kind = type_of(value)
    if kind in {"integer", "number"}:
        return kind in kinds or "number" in kinds or (isinstance(value, float) and value.is_integer())
    return kind in kinds


def _article(kind: str) -> str:
    if kind == "null":
        return "null"
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _shown(value: JSON) -> str:
    """A value by what it is: text and numbers shortened, containers by their kind."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}…"'
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value)[:60]
    return _article(type_of(value))


def _place(path: tuple[str | int, ...]) -> str:
    place = ""
    for step in path:
        place = f"{place}[{step}]" if isinstance(step, int) else _join(place, step)
    return place if len(place) <= _SHOWN_PLACE else place[: _SHOWN_PLACE - 1] + "…"


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
