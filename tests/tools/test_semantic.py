"""Search with an embedding model: it can only help, whatever the service behind it does."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings

from codebuddy_mcp_tools.tools.search import EXACT
from codebuddy_mcp_tools.tools.semantic import BATCH, SemanticRanks
from codebuddy_mcp_tools.types import ToolInfo

LEXICAL = [("weather", 2.0), ("mail", 1.0)]
TOOLS = {
    "mail": ToolInfo("office", "mail", "Send a letter"),
    "rain": ToolInfo("sky", "rain", "Is an umbrella needed"),
    "weather": ToolInfo("sky", "weather", "What the sky will do"),
}
AXES = ("mail", "rain", "weather")


def axis(text: str) -> list[float]:
    """A vector that says which of the three words a query or the name of a tool has."""
    return [3.0 if word in text.partition(":")[0] else 0.1 for word in AXES]


class Model(Embeddings):
    """Counts what it is asked; `answer` makes the vectors of a list of texts."""

    def __init__(self, answer: Callable[[Sequence[str]], Any] = lambda texts: [axis(text) for text in texts]) -> None:
        self.answer = answer
        self.documents: list[list[str]] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.documents.append(texts)
        return self.answer(texts)

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return self.answer([text])[0]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


Fuse = Callable[..., Any]


@pytest.fixture(params=["fuse", "afuse"])
def fuse(request: pytest.FixtureRequest) -> Fuse:
    """Both faces of the search, called alike."""

    async def call(ranks: SemanticRanks, query: str = "rain", **changes: Any) -> list[tuple[str, float]]:
        arguments = {"lexical": LEXICAL, "tools": TOOLS, "limit": 5} | changes
        if request.param == "afuse":
            return await ranks.afuse(query, **arguments)
        return await asyncio.to_thread(ranks.fuse, query, **arguments)

    return call


def names(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [name for name, _ in ranked]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_tool_that_only_the_model_finds_is_found(fuse: Fuse) -> None:
    found = names(await fuse(SemanticRanks(Model())))
    assert "rain" in found
    assert found[0] in {"rain", "weather"}


async def test_a_tool_that_both_rankings_have_first_is_first(fuse: Fuse) -> None:
    assert names(await fuse(SemanticRanks(Model()), "weather", limit=1)) == ["weather"]


async def test_a_tool_whose_name_was_typed_stays_first_whatever_the_model_says(fuse: Fuse) -> None:
    exact = [("mail", EXACT + 0.5), ("rain", 3.0), ("weather", 1.0)]
    found = await fuse(SemanticRanks(Model()), "rain", lexical=exact)
    assert found[0][0] == "mail"
    assert found[0][1] >= EXACT


async def test_a_model_whose_vectors_all_lie_close_together_counts_as_much(fuse: Fuse) -> None:
    def close(texts: Sequence[str]) -> list[list[float]]:
        return [[*axis(text), 100.0] for text in texts]

    one, other = await fuse(SemanticRanks(Model())), await fuse(SemanticRanks(Model(close)))
    assert names(one) == names(other)
    assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=0.01)


async def test_a_search_without_a_common_word_goes_by_likeness_alone(fuse: Fuse) -> None:
    assert names(await fuse(SemanticRanks(Model()), "rain", lexical=[]))[0] == "rain"


async def test_a_strong_match_by_words_is_not_pushed_aside(fuse: Fuse) -> None:
    assert names(await fuse(SemanticRanks(Model()), "rain", lexical=[("mail", 6.0), ("rain", 1.0)]))[0] == "mail"


async def test_a_single_tool_is_like_nothing_in_particular(fuse: Fuse) -> None:
    assert await fuse(SemanticRanks(Model()), "mail", lexical=[("mail", 2.0)], tools={"mail": TOOLS["mail"]}) == [
        ("mail", 2.0)
    ]


async def test_only_the_tools_that_are_allowed_are_found(fuse: Fuse) -> None:
    assert names(await fuse(SemanticRanks(Model()), "rain", lexical=[("mail", 1.0)], only={"mail"})) == ["mail"]


async def test_the_length_of_a_vector_does_not_matter(fuse: Fuse) -> None:
    def long(texts: Sequence[str]) -> list[list[float]]:
        return [[x * 10 ** len(text) for x in axis(text)] for text in texts]

    assert names(await fuse(SemanticRanks(Model(long)))) == names(await fuse(SemanticRanks(Model())))


async def test_definitions_are_embedded_once_in_batches(fuse: Fuse) -> None:
    tools = {f"t{n}": ToolInfo("s", f"t{n}") for n in range(BATCH + 1)}
    model = Model()
    ranks = SemanticRanks(model)
    for query in ("mail", "rain", "weather"):
        await fuse(ranks, query, tools=tools)
    assert [len(batch) for batch in model.documents] == [BATCH, 1]
    assert model.queries == ["mail", "rain", "weather"]


async def test_only_new_and_changed_definitions_are_embedded(fuse: Fuse) -> None:
    model = Model()
    ranks = SemanticRanks(model)
    await fuse(ranks)
    changed = {
        "mail": ToolInfo("office", "mail", "Send a letter"),
        "rain": ToolInfo("sky", "rain", "Another text"),
        "snow": ToolInfo("sky", "snow", "Is it white outside"),
    }
    await fuse(ranks, tools=changed)
    assert model.documents[1:] == [["sky rain: Another text", "sky snow: Is it white outside"]]


async def test_what_is_gone_for_long_is_forgotten(fuse: Fuse) -> None:
    model = Model()
    ranks = SemanticRanks(model)
    await fuse(ranks)
    many = {f"t{n}": ToolInfo("s", f"t{n}") for n in range(4 * BATCH)}
    await fuse(ranks, tools=many)
    await fuse(ranks)
    await fuse(ranks, tools={"new": ToolInfo("s", "new")})
    assert len(ranks._digests) <= BATCH
    assert len(ranks._vectors) <= BATCH


async def test_a_query_goes_to_the_service_bounded_and_without_invisible_characters(fuse: Fuse) -> None:
    model = Model()
    await fuse(SemanticRanks(model), "rain\ud800\x1b[31m" + "x" * 100_000)
    assert model.queries[0].startswith("rainx")
    assert len(model.queries[0]) <= 2000


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[math.nan, 1.0, 0.0] for _ in texts],
        lambda texts: [[math.inf, 1.0, 0.0] for _ in texts],
        lambda texts: [[] for _ in texts],
        lambda texts: [[1.0]] * (len(texts) + 1) if len(texts) > 1 else [[1.0]],
        lambda texts: [[1.0] * (n + 1) for n, _ in enumerate(texts)],
        lambda texts: [[1.0, 2.0]] * len(texts) if len(texts) > 1 else [[1.0]],
        lambda texts: None,
        lambda texts: [["a"] for _ in texts],
        lambda texts: 1 / 0,
    ],
    ids=["nan", "inf", "empty", "too many", "ragged", "query of another length", "none", "words", "error"],
)
async def test_nonsense_from_the_service_leaves_the_lexical_list_and_one_warning(
    fuse: Fuse, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ranks = SemanticRanks(Model(answer), pause=0.0)
    for _ in range(3):
        assert await fuse(ranks) == LEXICAL
    assert len(warnings(caplog)) == 1


async def test_zero_vectors_are_like_nothing_and_do_no_harm(fuse: Fuse, caplog: pytest.LogCaptureFixture) -> None:
    ranks = SemanticRanks(Model(lambda texts: [[0.0, 0.0, 0.0] for _ in texts]))
    assert len(await fuse(ranks)) == 3
    assert warnings(caplog) == []


async def test_the_words_of_a_failing_service_are_not_logged(fuse: Fuse, caplog: pytest.LogCaptureFixture) -> None:
    def fails(texts: Sequence[str]) -> Any:
        raise RuntimeError("key sk-secret refused")

    await fuse(SemanticRanks(Model(fails)))
    assert "RuntimeError" in warnings(caplog)[0]
    assert "sk-secret" not in caplog.text


async def test_a_service_that_failed_is_left_alone_and_asked_again_after_the_pause(
    fuse: Fuse, caplog: pytest.LogCaptureFixture
) -> None:
    def works(texts: Sequence[str]) -> Any:
        return [axis(text) for text in texts]

    model, clock = Model(lambda texts: 1 / 0), Clock()
    ranks = SemanticRanks(model, pause=60.0, clock=clock)
    await fuse(ranks)
    await fuse(ranks)
    assert len(model.documents) == 1
    model.answer = works
    clock.now = 61.0
    assert "rain" in names(await fuse(ranks))
    model.answer = lambda texts: 1 / 0
    await fuse(ranks)
    assert len(warnings(caplog)) == 2, "one warning for each outage"


async def test_a_change_of_the_models_dimension_is_overcome(fuse: Fuse) -> None:
    model = Model()
    ranks = SemanticRanks(model, pause=0.0)
    await fuse(ranks)
    model.answer = lambda texts: [[*axis(text), 0.0] for text in texts]
    assert await fuse(ranks) == LEXICAL
    assert "rain" in names(await fuse(ranks))


async def test_a_query_that_cannot_be_embedded_does_not_cost_the_definitions(fuse: Fuse) -> None:
    model = Model()
    ranks = SemanticRanks(model, pause=0.0)
    await fuse(ranks)
    model.answer = lambda texts: [[math.nan, 0.0, 0.0] for _ in texts]
    assert await fuse(ranks) == LEXICAL
    model.answer = lambda texts: [axis(text) for text in texts]
    assert "rain" in names(await fuse(ranks))
    assert len(model.documents) == 1


async def test_nothing_is_asked_when_there_are_no_tools(fuse: Fuse) -> None:
    model = Model()
    assert await fuse(SemanticRanks(model), lexical=[], tools={}) == []
    assert model.queries == model.documents == []


class AsyncModel(Model):
    """Answers definitions when `open` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.open = asyncio.Event()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.set()
        await self.open.wait()
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def search(ranks: SemanticRanks, query: str = "rain") -> asyncio.Task[list[tuple[str, float]]]:
    return asyncio.create_task(ranks.afuse(query, LEXICAL, TOOLS, 5))


async def test_searches_at_the_same_time_embed_the_definitions_once() -> None:
    model = AsyncModel()
    ranks = SemanticRanks(model)
    searches = [search(ranks, query) for query in ("mail", "rain", "weather")]
    await model.asked.wait()
    model.open.set()
    results = await asyncio.gather(*searches)
    assert len(model.documents) == 1
    assert all(len(result) == 3 for result in results)


async def test_a_search_that_is_cancelled_does_not_stop_the_others() -> None:
    model = AsyncModel()
    ranks = SemanticRanks(model)
    first, second = search(ranks), search(ranks)
    await model.asked.wait()
    first.cancel()
    model.open.set()
    assert "rain" in names(await second)
    assert len(model.documents) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_service_that_hangs_costs_a_search_its_patience_once(caplog: pytest.LogCaptureFixture) -> None:
    model = AsyncModel()
    ranks = SemanticRanks(model, timeout=0.01)
    assert await search(ranks) == LEXICAL
    assert await search(ranks) == LEXICAL
    assert model.documents == []
    assert warnings(caplog) == ["embeddings failed (no answer in time); tool search goes on without them"]


async def test_after_a_hang_the_next_try_starts_anew() -> None:
    model = AsyncModel()
    ranks = SemanticRanks(model, timeout=0.01, pause=0.0)
    assert await search(ranks) == LEXICAL
    model.open.set()
    ranks._timeout = 10.0
    assert "rain" in names(await search(ranks))


def test_an_event_loop_that_ends_in_the_middle_leaves_nobody_waiting() -> None:
    async def given_up(model: AsyncModel, ranks: SemanticRanks) -> None:
        search(ranks)
        await model.asked.wait()

    async def again(model: AsyncModel, ranks: SemanticRanks) -> list[tuple[str, float]]:
        model.open = asyncio.Event()
        model.open.set()
        return await search(ranks)

    model = AsyncModel()
    ranks = SemanticRanks(model)
    asyncio.run(given_up(model, ranks))
    assert "rain" in names(asyncio.run(again(model, ranks)))


def test_threads_at_the_same_time_embed_the_definitions_once() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(Model):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            entered.set()
            assert leave.wait(10)
            return super().embed_documents(texts)

    model = Slow()
    ranks = SemanticRanks(model)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(ranks.fuse("rain", LEXICAL, TOOLS, 5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    leave.set()
    for thread in threads:
        thread.join(10)
    assert len(model.documents) == 1
    assert [len(result) for result in results] == [3, 3, 3, 3]


def test_a_hanging_service_does_not_keep_a_thread_waiting(caplog: pytest.LogCaptureFixture) -> None:
    leave = threading.Event()

    class Hangs(Model):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            leave.wait(10)
            return super().embed_documents(texts)

    ranks = SemanticRanks(Hangs(), timeout=0.01)
    try:
        assert ranks.fuse("rain", LEXICAL, TOOLS, 5) == LEXICAL
        assert len(warnings(caplog)) == 1
    finally:
        leave.set()
