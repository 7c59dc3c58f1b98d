"""Arithmetic on embeddings that somebody else computed, and so may be anything."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from operator import mul
from typing import Any, TypeAlias

Vector: TypeAlias = "array[float]"
"""Of length 1, or all zeros; 4 bytes a number."""

_ROUNDING = 1e-6
"""Cosines of 4-byte numbers that differ by less are equal."""


class UnusableError(Exception):
    """What should be vectors cannot be used; the text says what is wrong with them, and quotes nothing."""


def unit(vector: Any) -> Vector:
    """A vector of length 1 in the same direction; zeros stay zeros.

    Raises:
        UnusableError: it is empty, or a number is not finite.
        TypeError, ValueError: it is no sequence of numbers.
    """
    numbers = [float(x) for x in vector]
    length = math.hypot(*numbers)
    if not numbers or not math.isfinite(length):
        raise UnusableError("vectors that are empty or not finite")
    return array("f", [x / (length or 1.0) for x in numbers])


def likeness(asked: Vector, vectors: Mapping[str, Vector]) -> dict[str, float]:
    """How much nearer to `asked` each vector is than the mean of all, in standard deviations of the cosine.

    Raises:
        UnusableError: the vectors are not all equally long.
    """
    if any(len(vector) != len(asked) for vector in vectors.values()):
        raise UnusableError("vectors of different lengths")
    query = tuple(asked)  # numbers of an array are made anew each time they are read
    cosines = {name: sum(map(mul, query, vector)) for name, vector in vectors.items()}
    count = max(1, len(cosines))
    mean = sum(cosines.values()) / count
    spread = math.sqrt(sum((x - mean) ** 2 for x in cosines.values()) / count)
    if spread < _ROUNDING:
        return dict.fromkeys(cosines, 0.0)
    return {name: (x - mean) / spread for name, x in cosines.items()}
