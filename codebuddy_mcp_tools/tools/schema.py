"""What a model is shown of a tool's arguments, made from whatever schema the server sent.

Policy: a schema that a provider refuses kills the whole request, with every other tool in it. So what is bound is
written anew in the subset that OpenAI, Anthropic and Gemini all take (see `schema_subset`), within stated bounds; the
call is checked against the original. The bound form may accept more than the original: it guides, it does not judge.
Strict mode is never asked for. An argument keeps its name or is not in the bound form at all; then a note names it.

Bounds: at most 24 levels, 4,000 nodes and 64,000 characters; a larger schema is shown with less depth and shorter
descriptions until it fits, at the end with its first arguments only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.schema_alternatives import merge_alternatives, required_names
from codebuddy_mcp_tools.tools.schema_flatten import Flat
from codebuddy_mcp_tools.tools.schema_refs import References
from codebuddy_mcp_tools.tools.schema_rewrite import (
    Budget,
    Node,
    OverBudget,
    Rewriter,
    is_nested_name,
)
from codebuddy_mcp_tools.tools.schema_subset import describe, types_of
from codebuddy_mcp_tools.types import JSONObject, ToolInfo

MAX_NODES = 4_000
MAX_CHARS = 64_000
ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic's rule for the keys of `input_schema.properties`, the strictest that a provider enforces."""

_ATTEMPTS = ((24, 2_048), (10, 500), (5, 200), (3, 120))
"""Depth and characters of a nested description, richest first."""
_LAST_DEPTH = 2
_ROOT_FOLDS = 2_000
"""Parts that the root may be put together from."""
_SHOWN_NOTES = 12


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool's arguments, twice.

    Attributes:
        original: the schema as the server sent it, `{}` when it sent none; calls are checked against it.
        bound: what a model is given: `type` is `"object"`, `properties` is always there, no reference is in it.
        problem: why the tool cannot be called at all, one line, or `None`. `bound` is usable all the same.
        notes: lines for the end of the tool's description: what the bound form cannot say.
    """

    original: JSONObject
    bound: dict[str, Any]
    problem: str | None = None
    notes: tuple[str, ...] = ()


def compile_schema(tool: ToolInfo) -> ToolSchema:
    """Makes the bound form of a tool's input schema. Never raises; the input is not changed."""
    original: Any = tool.input_schema
    if original is None or original is True:
        original = {}
    if not isinstance(original, Mapping):
        return ToolSchema({}, _empty(), f"inputSchema is {type(original).__name__}, expected an object")
    root = _root(original)
    problem = _problem(root.flat)
    if problem is not None:
        return ToolSchema(original, _empty(), problem)
    if len(root.order) <= MAX_NODES:
        for depth, description in _ATTEMPTS:
            try:
                return _arguments(root, Budget(depth, MAX_NODES, MAX_CHARS, description))
            except OverBudget:
                continue
    return _arguments(root, Budget(_LAST_DEPTH, MAX_NODES, MAX_CHARS, _ATTEMPTS[-1][1], lenient=True))


def _empty() -> Node:
    return {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class _Root:
    """The root of a schema, put together into one object.

    Attributes:
        original: the whole document.
        references: the references of the document.
        flat: the root's keywords, with alternatives and conditions merged in.
        order: the names of the arguments, as the server lists them; names that are only required come last.
        required: those that are required.
        notes, unresolved: what has to be said of it; references that lead nowhere.
    """

    original: JSONObject
    references: References
    flat: Flat
    order: list[str]
    required: dict[str, None]
    notes: list[str]
    unresolved: list[str]


def _root(original: JSONObject) -> _Root:
    references = References(original)
    rewriter = Rewriter(references, Budget(0, _ROOT_FOLDS, MAX_CHARS, 0, lenient=True))
    flat = rewriter.fold(original)
    notes = _alternatives(flat, rewriter)
    flat = merge_alternatives(flat, rewriter.fold, frozenset(flat.references)) if flat.unions else flat
    flat = _with_conditions(flat)
    stated = flat.keywords.get("properties")
    named = stated if isinstance(stated, Mapping) else {}
    required = dict.fromkeys(required_names(flat.keywords))
    order = [*(name for name in named if isinstance(name, str)), *(name for name in required if name not in named)]
    return _Root(original, references, flat, order, required, notes, rewriter.unresolved)


def _problem(flat: Flat) -> str | None:
    """A root that no arguments object can match."""
    if flat.refused:
        return "inputSchema allows no arguments object at all"
    kinds = types_of(flat.keywords)
    if kinds and "object" not in kinds:
        return f"inputSchema describes {' or '.join(kinds)}, expected an object"
    properties = flat.keywords.get("properties")
    if properties is not None and not isinstance(properties, Mapping):
        return f"inputSchema.properties is {type(properties).__name__}, expected an object"
    return None


def _with_conditions(flat: Flat) -> Flat:
    """Properties that only a condition names (`then`, `else`, `dependentSchemas`) are shown as optional ones."""
    parts = [flat.keywords.get(keyword) for keyword in ("then", "else")]
    for keyword in ("dependentSchemas", "dependencies"):
        table = flat.keywords.get(keyword)
        parts += table.values() if isinstance(table, Mapping) else []
    more = [part.get("properties") for part in parts if isinstance(part, Mapping)]
    stated = flat.keywords.get("properties") or {}
    if more and isinstance(stated, Mapping):
        properties = dict(stated)
        for named in more:
            for name, schema in named.items() if isinstance(named, Mapping) else ():
                properties.setdefault(name, schema)
        flat.keywords["properties"] = properties
    return flat


def _arguments(root: _Root, budget: Budget) -> ToolSchema:
    """The bound form, with notes on what is not in it."""
    rewriter = Rewriter(root.references, budget)
    keywords, inside = root.flat.keywords, frozenset(root.flat.references)
    named: Mapping[str, Any] = keywords.get("properties") or {}
    order = sorted(root.order, key=lambda name: name not in root.required) if budget.lenient else root.order
    shown: Node = {}
    hidden: list[str] = []
    left_out = 0
    for name in order:
        schema = named.get(name, True)
        if schema is False:
            continue
        if not ARGUMENT_NAME.fullmatch(name):
            hidden.append(name)
        elif rewriter.has_room((len(name) + 4) * (1 + (name in root.required))):
            shown[name] = rewriter.node(schema, 1, inside)
        else:
            left_out += 1
    bound: Node = {"type": "object", "properties": shown}
    if kept := [name for name in root.required if name in shown]:
        bound["required"] = kept
    further = keywords.get("additionalProperties")
    if further is False and not hidden and not left_out:
        bound["additionalProperties"] = False
    elif isinstance(further, Mapping) and further:
        bound["additionalProperties"] = rewriter.node(further, 1, inside)
    if text := describe(keywords.get("description"), limit=2_048):
        bound["description"] = text
    notes = root.notes + _hidden_notes(hidden, named, root.required) + _cut_notes(left_out, root, rewriter)
    return ToolSchema(root.original, bound, None, tuple(notes))


def _hidden_note(name: str, schema: Any, required: Collection[str]) -> str:
    keywords = schema if isinstance(schema, Mapping) else {}
    kinds = "/".join(types_of(keywords)) or "any"
    need = ", required" if name in required else ""
    text = f'Also takes "{name[:200]}" ({kinds}{need}): {keywords.get("description") or ""}'
    return clean_line(text.rstrip(": "), 300)


def _hidden_notes(hidden: list[str], named: Mapping[str, Any], required: Collection[str]) -> list[str]:
    """The arguments whose names cannot be bound, by name."""
    notes = [_hidden_note(name, named.get(name), required) for name in hidden[:_SHOWN_NOTES]]
    if len(hidden) > _SHOWN_NOTES:
        notes.append(f"{len(hidden) - _SHOWN_NOTES} more arguments have names that a model cannot be given.")
    return notes


def _cut_notes(left_out: int, root: _Root, rewriter: Rewriter) -> list[str]:
    """What is missing because of the bounds, or because it is not there."""
    notes = []
    if left_out:
        notes.append(f"{left_out} further arguments are not shown: the schema is too large.")
    if unresolved := dict.fromkeys([*root.unresolved, *rewriter.unresolved]):
        names = ", ".join(clean_line(name, 80) for name in list(unresolved)[:_SHOWN_NOTES])
        notes.append(f"Parts of the schema are not available: {clean_line(names, 300)}.")
    return notes


def _alternatives(flat: Flat, rewriter: Rewriter) -> list[str]:
    """What `anyOf` and `oneOf` at the top said about which arguments belong together."""
    notes = []
    for branches in flat.unions:
        sets = []
        for branch in branches[:8]:
            part = rewriter.fold(branch, frozenset(flat.references))
            names = required_names(part.keywords) or list(part.keywords.get("properties") or {})
            shown = [clean_line(name, 64) for name in names[:8] if is_nested_name(name)]
            if shown and shown not in sets:
                sets.append(shown)
        if len(sets) > 1:
            forms = " or ".join(f"({', '.join(names)})" for names in sets)
            notes.append(clean_line(f"Give one of these sets of arguments: {forms}.", 400))
    return notes
