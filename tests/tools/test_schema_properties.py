"""Properties of the bound form over generated schemas."""

from __future__ import annotations

import json
import logging
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.schema import MAX_CHARS, compile_schema
from codebuddy_mcp_tools.types import ToolInfo
from tests.benchmarks.provider_schemas import as_tool, provider_problems
from tests.tools.strategies import SCALARS, sane_documents, wild_documents

_KEYS = st.sampled_from(["a", "b", "c"])
_VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(_KEYS, SCALARS, max_size=2)


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    """Gemini's converter warns of every keyword that it leaves out."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(wild_documents())
def test_whatever_a_server_sends_passes_the_rules_of_all_three_providers(schema: Any) -> None:
    result = compile_schema(ToolInfo("s", "t", input_schema=schema))

    problems = provider_problems(as_tool(ToolInfo("s", "t"), result.bound))

    assert not any(problems.values()), problems


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sane_documents())
def test_every_valid_schema_passes_the_rules_of_all_three_providers(schema: dict[str, Any]) -> None:
    result = compile_schema(ToolInfo("s", "t", input_schema=schema))

    problems = provider_problems(as_tool(ToolInfo("s", "t"), result.bound))

    assert not any(problems.values()), problems


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sane_documents(), st.dictionaries(_KEYS, _VALUES, max_size=3))
def test_what_the_server_accepts_the_bound_form_accepts(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    result = compile_schema(ToolInfo("s", "t", input_schema=schema))

    if result.problem is None and jsonschema_rs.validator_for(schema).is_valid(arguments):
        assert jsonschema_rs.validator_for(result.bound).is_valid(arguments), result.bound


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(wild_documents())
def test_conversion_is_stable_and_bounded(schema: Any) -> None:
    first = compile_schema(ToolInfo("s", "t", input_schema=schema))
    second = compile_schema(ToolInfo("s", "t", input_schema=schema))

    assert json.dumps(first.bound) == json.dumps(second.bound)
    assert len(json.dumps(first.bound)) < MAX_CHARS * 1.2
