"""The tool list of one server, while it is fresh.

Policy: fresh for a time to live, unless something said otherwise since the list was *asked* for: a `list_changed`
notification that arrives while the answer is under way makes that answer stale on arrival. A stale list stays
available, so that the tools of a server that is down do not vanish from a prompt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from codebuddy_mcp_tools.types import ToolInfo, ToolListing


class ToolCache:
    """The newest list of one server. Changed on the owner loop, read from anywhere.

    Args:
        ttl: seconds.
        clock: monotonic seconds.
    """

    def __init__(self, server: str, ttl: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._ttl = ttl
        self._clock = clock
        self._listing: ToolListing | None = None
        self._fresh_until = float("-inf")
        self._listed: frozenset[str] = frozenset()
        self._ever_listed: set[str] = set()
        self.epoch = 0
        """Grows with every `invalidate`; note it before asking for a list."""

    @property
    def listing(self) -> ToolListing | None:
        """The newest list, fresh or not."""
        return self._listing

    @property
    def fresh(self) -> ToolListing | None:
        """The list, if it is fresh."""
        return self._listing if self._clock() < self._fresh_until else None

    def invalidate(self) -> None:
        """What is here, and what is being fetched now, may be out of date."""
        self.epoch += 1
        self._fresh_until = float("-inf")

    def store(self, tools: Sequence[ToolInfo], problems: Sequence[str], *, epoch: int) -> ToolListing:
        """Take a list that was asked for at `epoch`. A list that says nothing new is the same object as before."""
        before = self._listing
        listing = ToolListing(self._server, tuple(tools), tuple(problems), version=before.version if before else 1)
        if before is None:
            self._listing = listing
        elif listing != before:
            listing = ToolListing(self._server, listing.tools, listing.problems, version=before.version + 1)
            self._listing = listing
        else:
            listing = before
        self._listed = frozenset(tool.name for tool in listing.tools)
        self._ever_listed |= self._listed
        if epoch == self.epoch:
            self._fresh_until = self._clock() + self._ttl
        return listing

    def has_vanished(self, tool: str) -> bool:
        """Whether the server once listed this tool, and its fresh list does not."""
        return tool not in self._listed and tool in self._ever_listed and self.fresh is not None
