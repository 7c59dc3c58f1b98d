"""One permission rule, and what it means among the servers and tools that are there.

Policy: see `permissions`. Two ways of comparing live here. `touches` (deny, ask) is generous: the rule and the names
are reduced to what they look like, and every reading counts. `grants` (allow) is strict: plain names only, and among
all readings of the rule there must be exactly one thing it can mean, counting servers whose tools are not known yet.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from codebuddy_mcp_tools.policy.names import PREFIX, Pair, hashed_name, name_forms, normal, visible_name
from codebuddy_mcp_tools.policy.skeleton import loose
from codebuddy_mcp_tools.policy.text import show

_SIDECAR_PREFIX = re.compile(r"mcp[_-](?![_-])", re.IGNORECASE)
_RULE_PREFIX = re.compile(r"mcp[_.-]{2}", re.IGNORECASE)  # punctuation does not matter
_WHOLE_SERVER = re.compile(r"\s*__\s*\*$")
_SPACED = re.compile(r"\s*__\s*")
_FOREIGN = "is no rule for MCP tools: these start with mcp__"
_HASHED = re.compile(r"_[0-9a-f]{8,56}$")


def several(texts: str | Iterable[str]) -> tuple[str, ...]:
    """The texts; a single one stands for itself, as its letters would be rules that match nothing."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as written, and the parts of it that matching needs."""

    text: str
    origin: str
    """The setting it stands in."""
    body: str = ""
    """What stands behind the prefix; without `__*`."""
    server_only: bool = False
    """`mcp__server__*`: the body is a server and nothing else."""
    tool_only: bool = False
    """A spelling that names one tool, never a whole server."""
    everything: bool = False
    """`mcp__*`."""
    bare: bool = False
    """A tool's own name without a server: `toolPermissions` only."""
    foreign: bool = False
    """It reads like a rule for a tool that is not an MCP tool (`Read`, `Bash(git:*)`)."""
    problem: str | None = None
    """Why the rule can never match an MCP tool."""


@dataclass(frozen=True, slots=True)
class Match:
    """Whether a rule applies to a tool, and for a near miss why not."""

    hit: bool
    why: str | None = None


_MISS = Match(hit=False)
_HIT = Match(hit=True)


def parse_rule(text: str, origin: str) -> Rule:
    """Reads one rule; never fails: a rule that cannot match says why in `problem`."""
    stripped = text.strip().strip("\ufeff\u200b")
    if not stripped:
        return Rule(text, origin, problem="matches nothing: the rule is empty")
    if _RULE_PREFIX.match(unicodedata.normalize("NFKC", stripped[: len(PREFIX)])):
        return _parse_prefixed(text, stripped[len(PREFIX) :], origin)
    if stripped == "*" or (_SIDECAR_PREFIX.match(stripped) and "*" in stripped):
        problem = "does nothing for MCP tools: a rule for all of them is mcp__*, in deny or ask"
        return Rule(text, origin, problem=problem)
    if re.search(r"[*()]", stripped):
        return Rule(text, origin, foreign=True, problem=_FOREIGN)
    if _SIDECAR_PREFIX.match(stripped):
        return Rule(text, origin, body=stripped[len("mcp_") :], tool_only=True)
    if "." in stripped.strip("."):
        return Rule(text, origin, body=stripped, tool_only=True)
    if origin == "toolPermissions":
        return Rule(text, origin, body=stripped, bare=True)
    return Rule(text, origin, body=stripped, foreign=True, problem=_FOREIGN)


def _parse_prefixed(text: str, body: str, origin: str) -> Rule:
    if body.strip() == "*":
        return Rule(text, origin, everything=True)
    whole_server = _WHOLE_SERVER.search(body)
    body = body[: whole_server.start()] if whole_server else body
    if "*" in body:
        return Rule(text, origin, problem="matches nothing: * can only stand for the whole last part (mcp__server__*)")
    if not body.strip("_"):
        return Rule(text, origin, problem="matches nothing: it names no server")
    return Rule(text, origin, body=body, server_only=whole_server is not None)


class Inventory:
    """All servers and tools there are, indexed by the forms in which a rule can name them."""

    def __init__(self, servers: Iterable[str] = (), pairs: Iterable[Pair] = ()) -> None:
        self._pairs = set(pairs)
        self._servers: dict[str, set[str]] = defaultdict(set)
        for server in {*servers, *(server for server, _ in self._pairs)}:
            self._servers[normal(server)].add(server)
        self._named: dict[str, set[Pair]] = defaultdict(set)
        for pair in self._pairs:
            for name in _strict_names(*pair):
                self._named[name].add(pair)

    def extended(self, pairs: Iterable[Pair]) -> Self:
        """The same with more tools."""
        known = {server for servers in self._servers.values() for server in servers}
        return type(self)(known, {*self._pairs, *pairs})

    def waits_for(self, rule: Rule, listed: set[str]) -> bool:
        """Whether the rule may be about a server that is configured and has listed nothing yet."""
        body = normal(rule.body)
        absent = [key for key, servers in self._servers.items() if not servers <= listed]
        return (rule.bare and bool(absent)) or any(body == key or body.startswith(f"{key}_") for key in absent)

    @staticmethod
    def names_server(rule: Rule, servers: Iterable[str]) -> bool:
        """Whether a rule with the prefix is, read plainly, about one of these servers or a tool of one."""
        body = normal(rule.body)
        named = not (rule.bare or rule.tool_only or rule.foreign)
        return named and any(body == key or body.startswith(f"{key}__") for key in map(normal, servers))

    def touches(self, rule: Rule, pair: Pair) -> Match:
        """Deny and ask: any reading, any look-alike."""
        if rule.problem:
            return _MISS
        if rule.everything:
            return _HIT
        body = loose(rule.body)
        if rule.bare:
            tool = loose(pair[1])
            return Match(hit=body == tool and self._unique_bare(tool, pair))
        if rule.tool_only:
            return Match(hit=body in _joined(*pair, "_") or body in _joined(*pair, "__"))
        readings = {body, loose(_SPACED.sub("__", rule.body))}
        if not readings.isdisjoint({loose(pair[0]), f"{loose(pair[0])}__"}):
            return _HIT
        if rule.server_only:
            return _MISS
        return Match(hit=not readings.isdisjoint(_joined(*pair, "__")) or _is_visible_name(normal(rule.body), pair))

    def grants(self, rule: Rule, pair: Pair) -> Match:
        """Allow: exactly one thing the rule can mean, and this tool is it or belongs to it."""
        if rule.problem or rule.everything or rule.bare:
            return _MISS
        body = normal(rule.body)
        server = normal(pair[0])
        as_server = not rule.tool_only and body == server
        as_tool = not rule.server_only and (_key(rule, body) in _strict_names(*pair) or _is_hashed_name(body, pair))
        if not as_server and not as_tool:
            is_prefix = not rule.tool_only and body.removesuffix("__") == server
            return Match(hit=False, why=f"write mcp__{body}* for all of its tools") if is_prefix else _MISS
        return self._unambiguous(rule, body, pair, as_server=as_server)

    def _unambiguous(self, rule: Rule, body: str, pair: Pair, *, as_server: bool) -> Match:
        if not (_is_plain(pair[0]) and _is_plain(pair[1])) and not _is_hashed_name(body, pair):
            spelled = hashed_name(*pair, 8)
            return Match(hit=False, why=f"a name that is not plain ASCII is only allowed when it is spelled {spelled}")
        twins = self._servers[normal(pair[0])] - {pair[0]} if normal(pair[0]) in self._servers else set()
        if twins:
            return Match(
                hit=False, why=f"the servers {_listed({pair[0], *twins})} have names that a rule cannot tell apart"
            )
        others = self._other_readings(rule, body, pair[0])
        if others:
            return Match(hit=False, why=f"it can also mean something of the server {_listed(others)}")
        if not as_server:
            same = (self._named.get(_key(rule, body), set()) | self._hashed(body)) - {pair}
            if same:
                tools = _listed({pair[1], *(tool for _, tool in same)})
                return Match(hit=False, why=f"the tools {tools} have names that a rule cannot tell apart")
        return _HIT

    def _other_readings(self, rule: Rule, body: str, own: str) -> set[str]:
        """Other servers that the rule can mean as a whole, or whose tool it can name (also one not listed yet)."""
        divider = "_" if rule.tool_only else "__"
        if rule.server_only:
            candidates = self._servers.get(body, set())
        else:
            candidates = {
                server
                for key, servers in self._servers.items()
                if (key == body and not rule.tool_only) or body.startswith(f"{key}{divider}")
                for server in servers
            }
        return set(candidates) - {own}

    def _hashed(self, body: str) -> set[Pair]:
        """The known tools that have this visible name with a hash."""
        return {pair for pair in self._pairs if _is_hashed_name(body, pair)} if _HASHED.search(body) else set()

    def _unique_bare(self, tool: str, pair: Pair) -> bool:
        return all(other == pair or loose(other[1]) != tool for other in self._pairs)


def _key(rule: Rule, body: str) -> str:
    return f"one:{body}" if rule.tool_only else f"full:{body}"


@lru_cache(maxsize=1 << 15)
def _strict_names(server: str, tool: str) -> frozenset[str]:
    """The forms of a pair that an allow rule can spell, each marked with the kind of rule that may."""
    server, tool = normal(server), normal(tool)
    return frozenset({f"full:{server}__{tool}", f"one:{server}_{tool}", f"one:{server}__{tool}"})


@lru_cache(maxsize=1 << 15)
def _joined(server: str, tool: str, divider: str) -> frozenset[str]:
    """Server and tool in one, each looked at alone (spaces at its ends do not count) and both together."""
    return frozenset({loose(server) + divider + loose(tool), loose(server + divider + tool)})


@lru_cache(maxsize=1 << 15)
def _visible_body(server: str, tool: str) -> str:
    return normal(visible_name(server, tool))[len(PREFIX) :]


def _is_visible_name(body: str, pair: Pair) -> bool:
    """Whether the body is what stands behind `mcp__` in any visible name of the pair, hashed or not."""
    return body == _visible_body(*pair) or _is_hashed_name(body, pair)


def _is_hashed_name(body: str, pair: Pair) -> bool:
    """Whether the body is what stands behind `mcp__` in a visible name of the pair that carries a hash."""
    return _HASHED.search(body) is not None and body in _hashed_names(*pair)


@lru_cache(maxsize=1 << 12)
def _hashed_names(server: str, tool: str) -> frozenset[str]:
    return frozenset(normal(name)[len(PREFIX) :] for name in name_forms(server, tool) if _HASHED.search(name))


def _is_plain(name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name)
    return plain.isascii() and plain.isprintable()


def _listed(names: set[str]) -> str:
    return ", ".join(show(name) for name in sorted(names))
