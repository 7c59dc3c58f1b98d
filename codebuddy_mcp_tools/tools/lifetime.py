"""A provider that nobody closed and nobody can reach any more, as when a notebook cell is run again.

What it started must not outlive it. So whatever lives longer (the service's listeners, the watcher's thread) refers to
it weakly, and its end is the end of its sessions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import ParamSpec

from codebuddy_mcp_tools.config import ConfigWatcher
from codebuddy_mcp_tools.service import MCPService

P = ParamSpec("P")


def weakly(method: Callable[P, None]) -> Callable[P, None]:
    """The bound method without a hold on its object; it does nothing once the object is gone."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        bound = reference()
        if bound is not None:
            bound(*args, **kwargs)

    return call


def close_when_collected(owner: object, service: MCPService, watcher: ConfigWatcher | None) -> None:
    """End the service's sessions once Python collects `owner`. At exit they end by themselves."""
    weakref.finalize(owner, _abandon, service, watcher).atexit = False


def _abandon(service: MCPService, watcher: ConfigWatcher | None) -> None:
    if watcher is not None:
        watcher.stop(wait=False)
    service.abandon()
