"""What a new tool list comes to before anybody is offered it: pins, and what looks like words to the model.

Policy: a list is adopted together with what was found in it, so that no call reaches a changed definition in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codebuddy_mcp_tools.policy import (
    PinReport,
    ToolPins,
    clean,
    clean_line,
    command_argument,
    find_injection_signals,
    words_of,
)
from codebuddy_mcp_tools.types import ServerInfo, ToolListing

_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Vetted:
    """A list, and what is to be known about it."""

    listing: ToolListing
    held_back: frozenset[str] = frozenset()
    """Tools that must not be offered or called: their definition is not the accepted one, and the policy is `block`."""
    pins: tuple[str, ...] = ()
    """One line for each definition that is not the accepted one, and for a store that cannot be used."""
    signals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The injection signals of each definition that has any, by tool."""
    invisible: Mapping[str, int] = field(default_factory=dict)
    """How many invisible or control characters a definition holds that no model is shown, by tool."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for the status."""
        signals, invisible = list(self.signals.items())[:_MOST_LINES], list(self.invisible.items())[:_MOST_LINES]
        return (
            *self.pins,
            *(suspicion(f"the definition of tool {quoted(name)}", found) for name, found in signals),
            *(
                f"{count} invisible or control characters in the definition of tool {quoted(n)}"
                for n, count in invisible
            ),
        )


def vet(listing: ToolListing, info: ServerInfo | None, pins: ToolPins | None, *, blocks: bool) -> Vetted:
    """Compares a list with what was accepted, and looks for injection attempts. Reads and writes the pins.

    Args:
        listing: the server's newest list.
        info: what the server said of itself.
        pins: the accepted definitions; `None`: they are not pinned.
        blocks: what is new or changed is held back.
    """
    signals, invisible = {}, {}
    for tool in listing.tools:
        words = words_of(tool)
        if found := find_injection_signals(words):
            signals[tool.name] = found
        if removed := clean(words).removed:
            invisible[tool.name] = removed
    if pins is None:
        return Vetted(listing, signals=signals, invisible=invisible)
    report = pins.check(listing.server, listing, info.instructions if info else None)
    return Vetted(listing, report.held_back if blocks else frozenset(), tuple(_lines(report)), signals, invisible)


def suspicion(what: str, signals: tuple[str, ...]) -> str:
    """One line for the log and the status."""
    return f"{what} looks like an injection attempt ({', '.join(signals)})"


def quoted(tool: str) -> str:
    """A tool's name for such a line."""
    return repr(clean_line(tool, 80))


def _lines(report: PinReport) -> Iterator[str]:
    for change in report.changed:
        accept = f"see and accept with `codebuddy-mcp approve --tools {command_argument(report.server)}`"
        yield f"tool {quoted(change.tool)} {change.kind} since it was approved; {accept}"
    if report.problem:
        yield report.problem
