"""The threat model names tests; they must exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "THREAT_MODEL.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", TEXT)))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 30
    assert TEXT.count("## Not defended") == 1


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_every_named_test_exists(file: str, test: str) -> None:
    assert re.search(rf"^(?:async )?def {test}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE)


def test_every_row_of_what_is_defended_names_a_test() -> None:
    defended = TEXT.partition("## Defended")[2].partition("## Not defended")[0]
    rows = [line for line in defended.split("\n") if line.startswith("| ") and not line.startswith("| Threat")]
    assert rows
    assert [row for row in rows if "::test_" not in row] == []
