"""What ToolSearch answers: the tools it found, how well they fit, and which servers could not be looked into.

Policy: an answer is bounded; definitions that no longer fit are cut to a sentence each, and can be asked for by name.
What a server says, its failure as well, stands in an envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codebuddy_mcp_tools.policy import clean_line, envelope
from codebuddy_mcp_tools.tools.definitions import definition, summary
from codebuddy_mcp_tools.tools.finding import SearchHit, read_query
from codebuddy_mcp_tools.tools.tokens import squashed, terms
from codebuddy_mcp_tools.types import Admission, ClientState, ServerStatus

if TYPE_CHECKING:
    from codebuddy_mcp_tools.tools.catalog import ToolCatalog

MAX_ANSWER_CHARS = 40_000
"""Of whole definitions in one answer, about 10,000 tokens; the first is always whole."""
_MAX_LINES = 10
_SHORT_NAME = 4


def search_answer(catalog: ToolCatalog, query: str, hits: Sequence[SearchHit]) -> str:
    """The text for the model."""
    is_poor = catalog.is_doubtful(query, hits)
    lines = [_headline(catalog, query, hits, is_poor=is_poor), *_definitions(hits), *_misses(catalog, query)]
    is_open = not is_answered(catalog, query)
    lines += _absent(catalog.server_states(), query, hits, everywhere=is_poor or not hits, is_open=is_open)
    return "\n".join(lines)


def absent_servers(catalog: ToolCatalog) -> list[str]:
    """Lines about the servers that are not there and could be."""
    return _absent(catalog.server_states(), "", (), everywhere=True, is_open=True)


def is_answered(catalog: ToolCatalog, query: str) -> bool:
    """Whether no server that is still to come is needed: the query is a tool's name, or a `select:` of such names."""
    wanted = read_query(query)
    names = wanted.names if wanted.names is not None or wanted.required else (wanted.words,)
    return bool(names) and all(catalog.resolve(name).tool is not None for name in names or ())


def is_coming(status: ServerStatus) -> bool:
    """Whether a server has yet to list its tools for the first time, and nothing has gone wrong so far."""
    never_listed = status.tools_total == 0 and status.last_error is None
    waited_for = status.state is not ClientState.CONNECTED or status.message is not None
    return status.admission is Admission.ADMITTED and never_listed and waited_for


def _headline(catalog: ToolCatalog, query: str, hits: Sequence[SearchHit], *, is_poor: bool) -> str:
    if not hits and read_query(query).names is not None:
        return "Nothing was found:"
    if not hits:
        return f"No tool fits {clean_line(query, 200)!r}. Try other words, or fewer."
    call = "call them with execute_tool" if catalog.call_style == "execute" else "they can be called now"
    order = "" if read_query(query).names is not None else "best first; "
    doubt = "None of them fits well; other words may find better. " if is_poor else ""
    return f"{doubt}{len(hits)} of {len(catalog)} tools, {order}{call}:"


def _definitions(hits: Sequence[SearchHit]) -> list[str]:
    found: list[str] = []
    room = MAX_ANSWER_CHARS
    for number, hit in enumerate(hits):
        text = definition(hit.tool)
        if number and len(text) > room:
            rest = [summary(other.tool) for other in hits[number:]]
            return [*found, "In short, describe_tool shows their arguments:", *rest]
        found.append(text)
        room -= len(text)
    return found


def _misses(catalog: ToolCatalog, query: str) -> list[str]:
    found = [(name, catalog.resolve(name)) for name in read_query(query).names or ()]
    lines = [catalog.unknown(clean_line(name, 100), what) for name, what in found if what.tool is None]
    return _shortened(lines, "names that are no tool's")


def _absent(
    states: Sequence[ServerStatus], query: str, hits: Sequence[SearchHit], *, everywhere: bool, is_open: bool
) -> list[str]:
    """Lines about the servers that are not there and that the query could be about.

    A server that is still to list its tools may have anything. One that is down, waits for approval or has a broken
    entry is named when little was found, one that is switched off only when it is spoken of.
    """
    coming = [status.name for status in states if is_coming(status)]
    lines = [f"Still connecting, search again soon: {', '.join(coming)}"] if coming and is_open else []
    found_on = {hit.server for hit in hits}
    for status in states:
        if status.name in coming or status.message is None:
            continue
        off = status.admission in (Admission.DISABLED, Admission.REJECTED)
        if (everywhere and not off) or status.name in found_on or _speaks_of(query, status.name):
            lines.append(_why(status, status.message))
    return _shortened(lines, "servers")


def _speaks_of(query: str, server: str) -> bool:
    name = squashed(server)
    if len(name) >= _SHORT_NAME and name in squashed(query):
        return True
    return not set(terms(server)).isdisjoint(terms(query))


def _why(status: ServerStatus, message: str) -> str:
    line = clean_line(message, 300).removeprefix(f"{status.name}: ").removeprefix(f'server "{status.name}": ')
    if status.admission is not Admission.ADMITTED:
        return f"Server {status.name} cannot be used: {line}"
    return f"Server {status.name} is not available: {envelope(status.name, 'status', line)}"


def _shortened(lines: list[str], what: str) -> list[str]:
    more = len(lines) - _MAX_LINES
    return lines if more <= 0 else [*lines[:_MAX_LINES], f"… and {more} more {what}"]
