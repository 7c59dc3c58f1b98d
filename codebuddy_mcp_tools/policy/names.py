"""The names a model sees, and the way back from any spelling a person types to the one tool it means.

Policy: a visible name is made *from* a (server, tool) pair and never parsed back into one; `NameTable` keeps the
pairs. `mcp__<server>__<tool>` with every character outside `[A-Za-z0-9_-]` folded to `_`, at most 64 characters.
Names that would be equal are told apart by digits of a hash over the whole original pair. Which of them keeps the
plain form depends on the set of pairs alone, never on their order: the one that folding left unchanged, if there is
exactly one.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

PREFIX = "mcp__"
MAX_NAME = 64
"""The longest tool name that every model provider accepts."""

Pair = tuple[str, str]
"""(server, tool), both exactly as configured and as listed."""

_OUTSIDE = re.compile(r"[^A-Za-z0-9_-]")
_NOT_WORD = re.compile(r"\W")
_HASH_DIGITS = (8, 16, 24, 32, 40, 48, 56)


def fold(text: str) -> str:
    """Every character outside `[A-Za-z0-9_-]` becomes `_`; the length stays."""
    return _OUTSIDE.sub("_", text)


@lru_cache(maxsize=1 << 15)
def normal(text: str) -> str:
    """The form in which spellings are compared: compatibility forms resolved, lower case, punctuation as `_`."""
    return _NOT_WORD.sub("_", unicodedata.normalize("NFKC", text).casefold())


def visible_name(server: str, tool: str) -> str:
    """The name of one tool when no other tool is in its way; `NameTable` gives the name in company.

    Longer than 64 characters: cut, then `_` and 8 hex digits of a hash of the pair.
    """
    plain = _plain(server, tool)
    return plain if len(plain) <= MAX_NAME else hashed_name(server, tool, _HASH_DIGITS[0])


def hashed_name(server: str, tool: str, digits: int) -> str:
    """The plain name, cut to make room, with `digits` hex digits of SHA-256 over the pair."""
    raw = json.dumps([server, tool]).encode("ascii")
    return f"{_plain(server, tool)[: MAX_NAME - digits - 1]}_{hashlib.sha256(raw).hexdigest()[:digits]}"


def name_forms(server: str, tool: str) -> frozenset[str]:
    """Every visible name the pair can have in any company: the plain one, where it fits, and the hashed ones.

    Rules are matched against all of them, so that a clash that comes or goes never changes a decision.
    """
    return frozenset({visible_name(server, tool), *(hashed_name(server, tool, digits) for digits in _HASH_DIGITS)})


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The text fits several tools equally well."""

    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class NearMisses:
    """The text fits no tool; these visible names come close, best first, at most five."""

    names: tuple[str, ...]


class NameTable:
    """The visible names of a set of tools: distinct, at most 64 characters, the same for the same set in any order.

    Args:
        pairs: all tools; repeated pairs count once.
        reserved: names that are taken already (core tools, discovery tools) and never given to a tool here.
    """

    def __init__(self, pairs: Iterable[Pair], reserved: Iterable[str] = ()) -> None:
        self._visible = _assign(dict.fromkeys(pairs), frozenset(reserved))
        self._pairs = {name: pair for pair, name in self._visible.items()}
        self._spellings: dict[str, set[Pair]] | None = None
        self._grams: list[tuple[str, frozenset[str], frozenset[str]]] | None = None

    def __len__(self) -> int:
        return len(self._visible)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._visible)

    def __contains__(self, pair: object) -> bool:
        return pair in self._visible

    def visible(self, server: str, tool: str) -> str:
        """The visible name of a pair of this table; `KeyError` for any other pair."""
        return self._visible[server, tool]

    def pair(self, name: str) -> Pair | None:
        """The tool that has exactly this visible name."""
        return self._pairs.get(name)

    def resolve(self, text: str) -> Pair | Ambiguous | NearMisses:
        """The tool a person or a model means.

        Accepted, first hit wins: the visible name; `<server>.<tool>`, `mcp_<server>_<tool>` and the uncut
        `mcp__<server>__<tool>` as written; a tool's own name where only one server has it; then the same again
        without regard to case and punctuation.
        """
        text = text.strip()
        if text in self._pairs:
            return self._pairs[text]
        spellings = self._all_spellings()
        for key in (text, f"~{normal(text)}"):
            found = spellings.get(key)
            if found:
                return next(iter(found)) if len(found) == 1 else Ambiguous(tuple(sorted(found)))
        return NearMisses(self._near(text))

    def _all_spellings(self) -> Mapping[str, set[Pair]]:
        """Spelling → pairs; the forgiving spellings are marked with `~`, so that an exact one always comes first."""
        if self._spellings is None:
            self._spellings = defaultdict(set)
            for (server, tool), name in self._visible.items():
                for spelling in (f"{server}.{tool}", f"mcp_{server}_{tool}", f"{PREFIX}{server}__{tool}", tool):
                    self._spellings[spelling].add((server, tool))
                for spelling in (name, f"{server}.{tool}", f"mcp_{server}_{tool}", f"{PREFIX}{server}__{tool}", tool):
                    self._spellings[f"~{normal(spelling)}"].add((server, tool))
        return self._spellings

    def _near(self, text: str) -> tuple[str, ...]:
        wanted = _trigrams(normal(text).removeprefix(PREFIX))
        if self._grams is None:
            self._grams = [
                (name, _trigrams(normal(tool)), _trigrams(normal(f"{server}_{tool}")))
                for (server, tool), name in self._visible.items()
            ]
        scored = []
        for name, own, full in self._grams:
            score = max(_likeness(wanted, own), _likeness(wanted, full))
            if score >= 0.3:
                scored.append((-score, name))
        return tuple(name for _, name in sorted(scored)[:5])


def names_another_server(text: str, server: str, others: Iterable[str]) -> bool:
    """Whether a spelling says that it is a tool of another server than `server`, which may only be away.

    A server can name a tool `mcp__bank__pay`; a call of that is the bank's, or nobody's.

    Args:
        others: all configured servers.
    """
    spelled, own = normal(text.strip()), normal(server)
    if re.match(r"mcp_+[^_]+_", spelled):
        return re.match(rf"mcp_+{re.escape(own)}_", spelled) is None
    claims = (f"{normal(other)}{separator}" for other in others if normal(other) != own for separator in ("__", "."))
    return any(spelled.startswith(claim) or text.strip().casefold().startswith(claim) for claim in claims)


def _plain(server: str, tool: str) -> str:
    return f"{PREFIX}{fold(server)}__{fold(tool)}"


def _assign(pairs: Mapping[Pair, None], reserved: frozenset[str]) -> dict[Pair, str]:
    """Names for all pairs. Each round gives longer hashes to those who lose a clash, until there is none.

    A name with a hash beats a plain one that happens to spell the same, so a server cannot take another tool's name
    by guessing it. Hashes of different lengths never spell the same name, so the rounds end.
    """
    level = dict.fromkeys(pairs, 0)
    names = {pair: visible_name(*pair) for pair in pairs}
    while losers := _losers(names, level, reserved):
        for pair in losers:
            level[pair] += 1
            names[pair] = hashed_name(*pair, _HASH_DIGITS[level[pair] - 1])
    return names


def _losers(names: Mapping[Pair, str], level: Mapping[Pair, int], reserved: frozenset[str]) -> list[Pair]:
    claims: dict[str, list[Pair]] = defaultdict(list)
    for pair, name in names.items():
        claims[name].append(pair)
    losers: list[Pair] = []
    for name, claimants in claims.items():
        if len(claimants) == 1 and name not in reserved:
            continue
        keeps = _keeper(name, claimants, level) if name not in reserved else None
        losers.extend(pair for pair in claimants if pair != keeps and level[pair] < len(_HASH_DIGITS))
    return losers


def _keeper(name: str, claimants: list[Pair], level: Mapping[Pair, int]) -> Pair | None:
    hashed = [pair for pair in claimants if level[pair] > 0]
    unchanged = [pair for pair in claimants if f"{PREFIX}{pair[0]}__{pair[1]}" == name]
    entitled = hashed or unchanged
    return entitled[0] if len(entitled) == 1 else None


def _trigrams(text: str) -> frozenset[str]:
    padded = f"  {text} "
    return frozenset(padded[index : index + 3] for index in range(len(padded) - 2))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Dice's coefficient: 0 for nothing in common, 1 for the same."""
    return 2 * len(one & other) / (len(one) + len(other) or 1)
