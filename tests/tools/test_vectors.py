"""Arithmetic on embeddings that may be anything."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.tools.vectors import UnusableError, likeness, unit


def test_a_vector_becomes_one_of_length_1() -> None:
    assert list(unit([3, 4.0])) == pytest.approx([0.6, 0.8])
    assert list(unit([1e200, 0.0])) == [1.0, 0.0]
    assert list(unit([0.0, 0.0])) == [0.0, 0.0]


@pytest.mark.parametrize("vector", [[], [math.nan], [1.0, math.inf], [-math.inf]])
def test_a_vector_without_a_direction_is_refused(vector: list[float]) -> None:
    with pytest.raises(UnusableError):
        unit(vector)


@pytest.mark.parametrize("vector", [None, 7, ["a"], [None], {"a": 1}])
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        unit(vector)


def test_the_nearest_is_most_alike_and_the_mean_is_zero() -> None:
    found = likeness(unit([1, 0]), {"same": unit([2, 0]), "other": unit([0, 1]), "between": unit([1, 1])})
    assert sorted(found, key=found.__getitem__) == ["other", "between", "same"]
    assert sum(found.values()) == pytest.approx(0.0)


def test_vectors_that_are_all_alike_differ_by_nothing() -> None:
    third = unit([1 / 3, 1 / 7, 1 / 9])
    assert likeness(third, dict.fromkeys("abc", third)) == {"a": 0.0, "b": 0.0, "c": 0.0}
    assert likeness(third, {}) == {}


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(UnusableError):
        likeness(unit([1, 0]), {"a": unit([1, 0, 0])})


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=8))
def test_likeness_is_finite_and_bounded_by_the_number_of_vectors(vectors: list[list[float]]) -> None:
    found = likeness(unit([1, 2, 3]), {str(n): unit(vector) for n, vector in enumerate(vectors)})
    assert all(abs(x) <= math.sqrt(len(vectors)) for x in found.values())
