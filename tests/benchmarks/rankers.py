"""Ways to find a tool by words, all with the same face: built from tool records, asked for ids.

A record has `id`, `server`, `name`, `description`, `input_schema` and perhaps `title`. Those of other packages are
there where these are installed, and are used by their public API.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from codebuddy_mcp_tools.tools.search import SearchIndex
from codebuddy_mcp_tools.tools.semantic import SemanticRanks
from codebuddy_mcp_tools.types import ToolInfo

Record = Mapping[str, Any]


class Ranker(Protocol):
    """Ranks ids of tools for a query, best first."""

    def rank(self, query: str, k: int) -> Sequence[str]: ...


def tool_info(record: Record) -> ToolInfo:
    return ToolInfo(
        server=record.get("server") or "",
        name=record["name"],
        description=record.get("description") or "",
        title=record.get("title"),
        input_schema=record.get("input_schema") or {},
    )


class Ours:
    """The index of `ToolCatalog`."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.index = SearchIndex()
        for record in records:
            self.index.add(record["id"], tool_info(record))

    def rank(self, query: str, k: int) -> Sequence[str]:
        return self.index.rank(query, k)


def with_embeddings(path: str) -> Callable[[Sequence[Record]], Ranker]:
    """Ours, fused with an embedding model: `path` is `module:name` of something that makes LangChain `Embeddings`."""
    module, _, name = path.partition(":")
    embeddings = getattr(importlib.import_module(module), name)()

    class Fused(Ours):
        def __init__(self, records: Sequence[Record]) -> None:
            super().__init__(records)
            self.infos = {record["id"]: tool_info(record) for record in records}
            self.semantic = SemanticRanks(embeddings, timeout=3600.0)  # embed all, however long it takes

        def rank(self, query: str, k: int) -> Sequence[str]:
            lexical = [(hit.key, hit.score) for hit in self.index.search(query, 60)]
            return [key for key, _ in self.semantic.fuse(query, lexical, self.infos, k)]

    return Fused


def _text(record: Record) -> str:
    parts = [record.get("server") or "", record["name"], record.get("description") or ""]
    for name, about in ((record.get("input_schema") or {}).get("properties") or {}).items():
        parts += [name, str(about.get("description") or "") if isinstance(about, Mapping) else ""]
    return " ".join(parts)


class Substring:
    """Ranked by how many words of the query occur somewhere in the definition."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.texts = [(record["id"], _text(record).lower()) for record in records]

    def rank(self, query: str, k: int) -> Sequence[str]:
        words = set(re.findall(r"\w+", query.lower()))
        scored = [(-sum(word in text for word in words), at, key) for at, (key, text) in enumerate(self.texts)]
        return [key for score, _, key in sorted(scored)[:k] if score]


class Regex:
    """Every tool that has one of the words, in the order of the list."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.texts = [(record["id"], _text(record)) for record in records]

    def rank(self, query: str, k: int) -> Sequence[str]:
        words = re.findall(r"\w+", query)
        pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)", re.IGNORECASE)
        return [key for key, text in self.texts if pattern.search(text)][:k]


class Bm25s:
    """`bm25s` as it comes."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.bm25s = importlib.import_module("bm25s")
        self.ids = [record["id"] for record in records]
        self.index = self.bm25s.BM25()
        self.index.index(self._tokens([_text(record) for record in records]), show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        return self.bm25s.tokenize(texts, show_progress=False)

    def rank(self, query: str, k: int) -> Sequence[str]:
        tokens = self._tokens([query])
        if not tokens.vocab or not any(word in self.index.vocab_dict for word in tokens.vocab):
            return []
        found, scores = self.index.retrieve(tokens, k=min(k, len(self.ids)), show_progress=False)
        return [self.ids[at] for at, score in zip(found[0], scores[0], strict=True) if score > 0]


class FastMCP:
    """The BM25 search transform of `fastmcp`, asked through a client in the same process."""

    def __init__(self, records: Sequence[Record]) -> None:
        fastmcp = importlib.import_module("fastmcp")
        tools = importlib.import_module("fastmcp.tools")
        search = importlib.import_module("fastmcp.server.transforms.search")
        server = fastmcp.FastMCP("haystack")
        self.ids: dict[str, str] = {}
        for record in records:
            name = re.sub(r"[^\w.-]", "_", f"{record.get('server') or ''}_{record['name']}".strip("_"), flags=re.ASCII)
            name = name if name not in self.ids else f"{name}_{len(self.ids)}"
            self.ids[name] = record["id"]
            schema = {"type": "object", "properties": {}, **(record.get("input_schema") or {})}
            server.add_tool(tools.Tool(name=name, description=record.get("description") or "", parameters=schema))
        server.add_transform(search.BM25SearchTransform(max_results=10))
        self.runner = asyncio.Runner()
        self.client = fastmcp.Client(server)
        self.runner.run(self.client.__aenter__())

    def rank(self, query: str, k: int) -> Sequence[str]:
        found = self.runner.run(self.client.call_tool("search_tools", {"query": query}))
        listed = found.structured_content["result"]
        return [self.ids[tool["name"]] for tool in listed[:k]]


def installed() -> dict[str, Callable[[Sequence[Record]], Ranker]]:
    """The peers that can be measured here, by name."""
    peers: dict[str, Callable[[Sequence[Record]], Ranker]] = {"substring": Substring, "regex": Regex}
    if importlib.util.find_spec("bm25s") is not None:
        peers["bm25s"] = Bm25s
    if importlib.util.find_spec("fastmcp") is not None:
        peers["fastmcp"] = FastMCP
    return peers
