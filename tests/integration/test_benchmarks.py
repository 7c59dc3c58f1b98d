"""The benchmarks run; what they measure is for people to look at, nothing here depends on time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def printed_by(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("module", "arguments", "tables"),
    [
        ("calls", ("--rounds", "1", "--calls", "32"), ["stdio", "http, answers by SSE", "connections"]),
        (
            "loading",
            ("--rounds", "1", "--servers", "1"),
            ["start fast", "written with the SDK", "http", "hangs at start"],
        ),
    ],
)
def test_a_benchmark_prints_its_tables(module: str, arguments: tuple[str, ...], tables: list[str]) -> None:
    text = printed_by(module, *arguments)
    positions = [text.find(title) for title in tables]
    assert positions == sorted(positions)
    assert positions[0] >= 0
    assert len(re.findall(r"\d\.\d\dx", text)) >= 3
