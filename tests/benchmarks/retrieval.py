"""How well tools are found: `python -m tests.benchmarks.retrieval --data DIR`.

DIR holds one folder a set. `tools.jsonl` has one tool record a line (`id`, `server`, `name`, `description`,
`input_schema`, perhaps `title`); `queries.jsonl` has `query`, `kind` and `groups`: each group is one need, and any id
in it meets it.

One line for each ranker, set and kind: recall at 1, 5 and 10 (the share of needs met), the mean reciprocal rank of the
first hit (cut at 10), milliseconds a query (median and 95 %), and the time to build. Then, for each ranker, plain
means over the kinds with one need (`macro`) and over the keyword kinds; ours comes last.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.rankers import Ours, Ranker, Record, installed, tool_info, with_embeddings

KEYWORD4 = (("livemcp", "kw"), ("livemcp", "route"), ("realmcp", "kw_server"), ("realmcp", "kw_plain"))
OURS = "ours"
Maker = Callable[[Sequence[Record]], Ranker]


@dataclass(frozen=True)
class Score:
    """Means over the queries of one kind."""

    recall_1: float
    recall_5: float
    recall_10: float
    mrr: float

    def __str__(self) -> str:
        return f"R@1 {self.recall_1:.3f} R@5 {self.recall_5:.3f} R@10 {self.recall_10:.3f} MRR {self.mrr:.3f}"


def read_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def score_of(ranked: Sequence[str], groups: Sequence[Sequence[str]]) -> Score:
    """The figures of one query."""
    places = {key: place for place, key in enumerate(ranked[:10])}
    best = [min((places[key] for key in group if key in places), default=10) for group in groups]
    first = min(best, default=10)
    recall = [sum(place < k for place in best) / max(1, len(best)) for k in (1, 5, 10)]
    return Score(*recall, 1 / (1 + first) if first < 10 else 0.0)


def mean(scores: Iterable[Score]) -> Score:
    found = list(scores)
    count = max(1, len(found))
    return Score(
        sum(s.recall_1 for s in found) / count,
        sum(s.recall_5 for s in found) / count,
        sum(s.recall_10 for s in found) / count,
        sum(s.mrr for s in found) / count,
    )


def measure(ranker: Ranker, queries: Sequence[Mapping[str, Any]]) -> tuple[Score, float, float]:
    """The mean score, and milliseconds a query: median and 95 %."""
    scores, times = [], []
    for query in queries:
        start = time.perf_counter()
        ranked = ranker.rank(query["query"], 10)
        times.append((time.perf_counter() - start) * 1000)
        scores.append(score_of(ranked, query["groups"]))
    times.sort()
    return mean(scores), times[len(times) // 2], times[int(len(times) * 0.95)]


def run(data: Path, makers: Mapping[str, Maker], limit: int) -> dict[str, dict[tuple[str, str], Score]]:
    """Every ranker on every set; prints a line for each kind."""
    cells: dict[str, dict[tuple[str, str], Score]] = {name: {} for name in makers}
    for folder in sorted(path for path in data.iterdir() if (path / "tools.jsonl").is_file()):
        records = read_lines(folder / "tools.jsonl")
        kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for query in read_lines(folder / "queries.jsonl"):
            kinds[query["kind"]].append(query)
        for name, make in makers.items():
            start = time.perf_counter()
            ranker = make(records)
            built = (time.perf_counter() - start) * 1000
            for kind, queries in sorted(kinds.items()):
                random.Random(3).shuffle(queries)
                score, median, tail = measure(ranker, queries[:limit])
                cells[name][folder.name, kind] = score
                head = f"{folder.name}/{kind}".ljust(22) + name.ljust(16)
                sizes = f"n={len(queries[:limit]):<4} tools={len(records):<5}"
                print(f"{head} {sizes} {score} {median:.3f} ms p95 {tail:.3f} ms build {built:.0f} ms", flush=True)
    return cells


def speed(data: Path, sizes: Sequence[int]) -> None:
    """How long ours takes to build (the best of three), to answer, and to renew a server of 100 tools, at given sizes.

    Tools of all sets, repeated under other server names where there are too few.
    """
    folders = sorted(path for path in data.iterdir() if (path / "tools.jsonl").is_file())
    pool = [record for folder in folders for record in read_lines(folder / "tools.jsonl")]
    queries = [q["query"] for folder in folders for q in read_lines(folder / "queries.jsonl")]
    queries = [query for query in queries if len(query.split()) <= 8]
    random.Random(3).shuffle(pool)
    random.Random(3).shuffle(queries)
    for size in sizes:
        records = [
            {**pool[at % len(pool)], "id": str(at), "server": f"{pool[at % len(pool)].get('server')}_{at // len(pool)}"}
            for at in range(size)
        ]
        builds = []
        for _ in range(3):
            gc.collect()
            start = time.perf_counter()
            ranker = Ours(records)
            builds.append((time.perf_counter() - start) * 1000)
        ranker.rank("warm up xyzzy", 10)
        _, median, tail = measure(ranker, [{"query": query, "groups": []} for query in queries[:500]])
        start = time.perf_counter()
        ranker.index.remove([record["id"] for record in records[:100]])
        for record in records[:100]:
            ranker.index.add(record["id"], tool_info(record))
        updated = (time.perf_counter() - start) * 1000
        head = f"speed {size:>6} tools: build {min(builds):.0f} ms"
        print(f"{head}, query {median:.3f} ms, p95 {tail:.3f} ms, 100 tools renewed {updated:.0f} ms", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.retrieval", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of set folders")
    parser.add_argument("--limit", type=int, default=500, help="queries a kind at the most")
    parser.add_argument("--only-ours", action="store_true", help="leave the other rankers out")
    parser.add_argument("--embeddings", metavar="MODULE:NAME", help="also measure ours fused with LangChain embeddings")
    parser.add_argument("--speed", action="store_true", help="also measure 1,000 and 10,000 tools")
    options = parser.parse_args(arguments)
    makers: dict[str, Maker] = {OURS: Ours}
    if options.embeddings:
        makers[f"{OURS}+embeddings"] = with_embeddings(options.embeddings)
    if not options.only_ours:
        makers |= installed()
    cells = run(options.data, makers, options.limit)
    if options.speed:
        speed(options.data, (1_000, 10_000))
    for name in (*(name for name in makers if name != OURS), OURS):
        label = "" if name == OURS else f"{name} "
        print(f"{label}macro", mean(score for (_, kind), score in cells[name].items() if kind != "multi"))
        print(f"{label}keyword4", mean(cells[name][cell] for cell in KEYWORD4 if cell in cells[name]))


if __name__ == "__main__":
    main()
