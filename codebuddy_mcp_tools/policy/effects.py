"""What a tool does to the world, as far as its server and its name tell.

Policy: a server's hint counts only when it is a real boolean and nothing contradicts it; anything else counts as a
write. A tool without hints is judged by its name, and only for verification (the completion gate): a name never lets
a call run beside others, be sent twice, or pass a permission rule. Hints come from the server and are not proof of
anything.
"""

from __future__ import annotations

import re
from itertools import pairwise

from codebuddy_mcp_tools.types import Effect, ToolInfo

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SEGMENT = re.compile(r"[./:]")
_NAMESPACES = frozenset({"api", "mcp"})

_READS = "get list search read find fetch describe show lookup retrieve count view inspect peek"
_READ_VERBS = frozenset(_READS.split())
# Never a noun: may follow one word that the server's own name does not explain, as in `ha_get_state`.
_PLAIN_READ_VERBS = frozenset({"get", "describe", "retrieve", "fetch", "find"})
_WRITES = (
    "create delete remove write insert add send replace rename modify append execute upload clear reset enable disable"
    " install uninstall deploy apply trigger submit approve reject drop purge destroy overwrite upsert"
    " publish unpublish invite grant revoke subscribe unsubscribe transfer pay charge refund acknowledge dismiss"
    " truncate alter"
)
_WRITE_VERBS = frozenset(_WRITES.split())
# Nouns too (`get_commit`): they only make a write after "and", "or", "then", "to".
_NOUNS_TOO = (
    "post commit run call update set put copy patch push mark open close start stop edit merge save release lock"
    " archive restore move assign import export sync cancel kill fork tag"
)
_WRITE_OR_NOUN = frozenset(_NOUNS_TOO.split())
_CONJUNCTIONS = frozenset({"and", "or", "then", "to"})


def effect_of(tool: ToolInfo) -> Effect:
    """Whether a successful call needs to be read back: `READ` only on good evidence.

    `readOnlyHint` decides when it is a boolean that `destructiveHint` does not contradict. Without it, a conservative
    list of read verbs decides on the name, split at `_`, `-`, `.`, `/` and capitals.
    """
    if "readOnlyHint" in tool.annotations:
        return Effect.READ if _says_read_only(tool) else Effect.WRITE
    if tool.annotations.get("destructiveHint", False) is not False:
        return Effect.WRITE
    return Effect.READ if _reads_by_name(tool.server, tool.name) else Effect.WRITE


def may_run_concurrently(tool: ToolInfo) -> bool:
    """Whether it may run beside other reads of the same turn: only an explicit, uncontradicted `readOnlyHint: true`."""
    return _says_read_only(tool)


def may_replay(tool: ToolInfo) -> bool:
    """Whether a call whose answer was lost may be sent a second time: read-only, or `idempotentHint: true`, by hint."""
    return _says_read_only(tool) or tool.annotations.get("idempotentHint") is True


def _says_read_only(tool: ToolInfo) -> bool:
    if tool.annotations.get("readOnlyHint") is not True:
        return False
    destructive = tool.annotations.get("destructiveHint")
    return destructive is None or destructive is False


def split_words(name: str) -> list[str]:
    """Lower-case words of a snake, kebab, camel or dotted name: `getHTTPLog2` → get, http, log, 2."""
    return [word.lower() for word in _WORDS.findall(name)]


def _reads_by_name(server: str, name: str) -> bool:
    if not name.isascii():
        return False
    words = split_words(_SEGMENT.split(name)[-1])
    known = _NAMESPACES | set(split_words(server))
    while len(words) > 1 and words[0] in known and words[0] not in _READ_VERBS:
        words.pop(0)
    if not words or _writes(words):
        return False
    return words[0] in _READ_VERBS or (len(words) > 2 and words[1] in _PLAIN_READ_VERBS)


def _writes(words: list[str]) -> bool:
    if _WRITE_VERBS.intersection(words) or words[0] in _WRITE_OR_NOUN:
        return True
    return any(before in _CONJUNCTIONS and word in _WRITE_OR_NOUN for before, word in pairwise(words))
