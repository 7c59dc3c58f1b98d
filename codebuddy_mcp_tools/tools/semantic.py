"""Optional help for the search from an embedding model, fused with the lexical ranks.

Policy: each definition is embedded once (by the hash of its text); an embedding service that fails costs nothing but a
warning, once, and the lexical list stands. Fusion is by reciprocal ranks (Cormack and others, 2009, k = 60).
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codebuddy_mcp_tools.policy import clean_description
from codebuddy_mcp_tools.types import ToolInfo

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

logger = logging.getLogger(__name__)
RRF_K = 60


class SemanticRanks:
    """Ranks tools by the likeness of their embeddings to a query's."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, tuple[float, ...]] = {}
        self._warned = False

    def fuse(
        self, query: str, lexical: Sequence[tuple[str, float]], tools: dict[str, ToolInfo], limit: int
    ) -> list[tuple[str, float]]:
        """Names and scores of both rankings together, best first; the lexical list when the model fails."""
        try:
            similar = self._similar(query, tools, max(limit, 50))
        except Exception as error:  # noqa: BLE001 - any service, any failure; searching must go on
            if not self._warned:
                logger.warning("embeddings failed (%s); tool search goes on without them", type(error).__name__)
            self._warned = True
            return list(lexical)[:limit]
        scores: dict[str, float] = {}
        for ranking in ([name for name, _ in lexical], similar):
            for place, key in enumerate(ranking):
                scores[key] = scores.get(key, 0.0) + 1 / (RRF_K + place + 1)
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def _similar(self, query: str, tools: dict[str, ToolInfo], limit: int) -> list[str]:
        texts = {key: f"{tool.name}: {clean_description(tool.description)}" for key, tool in tools.items()}
        hashes = {key: hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for key, text in texts.items()}
        new = {hashes[key]: text for key, text in texts.items() if hashes[key] not in self._vectors}
        if new:
            vectors = self._embeddings.embed_documents(list(new.values()))
            self._vectors.update(zip(new, map(_unit, vectors), strict=True))
        asked = _unit(self._embeddings.embed_query(query))
        scored = [(sum(a * b for a, b in zip(asked, self._vectors[hashes[key]], strict=True)), key) for key in tools]
        return [key for _, key in sorted(scored, key=lambda s: (-s[0], s[1]))[:limit]]


def _unit(vector: Sequence[float]) -> tuple[float, ...]:
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return tuple(x / length for x in vector)
