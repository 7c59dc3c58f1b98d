"""Measuring in one process, interleaved, so that the ratio of two ways of doing the same thing means something."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        wall: seconds by the clock.
        cpu: seconds of CPU of this process, all its threads, servers excluded.
    """

    wall: float
    cpu: float


async def timed(work: Work) -> Sample:
    """Run once and measure."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


async def interleaved(ways: Mapping[str, Work], rounds: int) -> dict[str, Sample]:
    """The median wall and CPU time of each way; one round that does not count comes first, and the order turns."""
    samples: dict[str, list[Sample]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            sample = await timed(ways[name])
            if number:
                samples[name].append(sample)
    return {
        name: Sample(statistics.median(s.wall for s in taken), statistics.median(s.cpu for s in taken))
        for name, taken in samples.items()
    }


def one_by_one(call: Work, times: int) -> Work:
    """Calls after each other."""

    async def work() -> None:
        for _ in range(times):
            await call()

    return work


def together(call: Work, times: int, callers: int) -> Work:
    """Calls by so many callers at once, `times` in all."""

    async def caller() -> None:
        for _ in range(times // callers):
            await call()

    async def work() -> None:
        await asyncio.gather(*(caller() for _ in range(callers)))

    return work


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text with aligned columns; the first is left-aligned."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    lines = [title]
    for row in [columns, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
