"""Checks values against a schema that a stranger wrote, within a budget.

Policy: the check runs in a Rust validator whose regular expressions take linear time; nothing is fetched. A schema
that is not quite valid is checked without its bad parts; one that could cost too much, or that nothing can be made
of, is not checked at all and says so in a note: then the server decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs

from codebuddy_mcp_tools.tools.json_bounds import Measured
from codebuddy_mcp_tools.tools.schema_repair import REGEX_OPTIONS, tolerant
from codebuddy_mcp_tools.tools.schema_survey import Survey, survey
from codebuddy_mcp_tools.types import JSON

MAX_WORK = 20_000_000
"""Node visits one check may take: half a second at the worst, microseconds for real schemas and arguments."""


class SchemaCheck:
    """A schema, compiled when it is first needed.

    Attributes:
        note: why values are checked in part or not at all; `None` when the schema is checked as it stands. Known after
            the first check.
    """

    def __init__(self, schema: JSON) -> None:
        self._schema = schema
        self._validator: jsonschema_rs.Validator | None = None
        self._survey: Survey | None = None
        self.note: str | None = None

    def errors(self, value: JSON, measured: Measured, limit: int = 5) -> list[jsonschema_rs.ValidationError] | None:
        """What does not fit, at most `limit` places; `None` when the value was not checked (see `note`)."""
        if self._survey is None:
            self._compile()
        if self._validator is None or self._survey is None:
            return None
        if self._survey.work(measured.values, measured.depth) > MAX_WORK:
            self.note = "not checked against the schema: that could take too long"
            return None
        if self._validator.is_valid(value):
            return []
        found = []
        for error in self._validator.iter_errors(value):
            found.append(error)
            if len(found) >= limit:
                break
        return found

    def _compile(self) -> None:
        self._survey = survey(self._schema)
        if self._survey.too_deep or self._survey.expanded > MAX_WORK // 10:
            self.note = "not checked against the schema: it is too large or too deeply nested"
            return
        self._validator = _validator(self._schema)
        if self._validator is None:
            self._validator = _validator(tolerant(self._schema))
            self.note = (
                "checked in part: the tool's schema is not valid JSON Schema"
                if self._validator is not None
                else "not checked against the schema: it is not valid JSON Schema"
            )


def check_of(schema: Mapping[str, JSON]) -> SchemaCheck:
    """The check of a schema object; the same object gives the same check, so that it is compiled once."""
    return _kept(_Identity(schema))


class _Identity:
    __slots__ = ("schema",)

    def __init__(self, schema: Mapping[str, JSON]) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.schema is self.schema


@lru_cache(maxsize=512)
def _kept(key: _Identity) -> SchemaCheck:
    return SchemaCheck(key.schema)


def _validator(schema: Any) -> jsonschema_rs.Validator | None:
    if not isinstance(schema, Mapping | bool):
        return None
    document = schema if isinstance(schema, bool) else dict(schema)
    try:
        return jsonschema_rs.validator_for(
            document, retriever=_refuse, pattern_options=REGEX_OPTIONS, validate_formats=False
        )
    except (ValueError, TypeError, jsonschema_rs.ReferencingError):  # ValidationError is a ValueError
        return None


def _refuse(uri: str) -> Any:
    """A reference out of the document: nothing is ever fetched."""
    raise LookupError(f"{uri[:200]} is outside the schema")
