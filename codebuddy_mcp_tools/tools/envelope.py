"""The envelope of `policy.envelope` round a result as LangChain carries it: a string, or blocks in order.

Policy: each text stands in an envelope of its own, so that an image between two texts never lies inside an open one.
Our own lines stand behind the last envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codebuddy_mcp_tools.policy.envelope import envelope
from codebuddy_mcp_tools.tools.limits import Limited
from codebuddy_mcp_tools.types import ToolInfo

Content = str | list[str | dict[str, Any]]


def enclose(tool: ToolInfo, limited: Limited) -> Content:
    """A result, ready for a `ToolMessage`: one enveloped string, or blocks whose first is an enveloped text."""
    return enclose_text(tool, limited.text, limited.blocks, notes=(*limited.warnings, *limited.notes))


def enclose_text(
    tool: ToolInfo, text: str, blocks: Sequence[dict[str, Any]] = (), *, notes: Sequence[str] = ()
) -> Content:
    """Any text of a server's, with the blocks it consists of when there are images.

    Args: tool: whose words they are; its server and name go into the envelope. text: the text when there are no blocks.
        blocks: standard LangChain content blocks. notes: lines of our own.
    """
    if not blocks:
        return envelope(tool.server, tool.name, text, notes=notes)
    if blocks[0].get("type") != "text":
        blocks = [{"type": "text", "text": "(image)"}, *blocks]
    last = max(index for index, block in enumerate(blocks) if block.get("type") == "text")
    return [
        {"type": "text", "text": envelope(tool.server, tool.name, block["text"], notes=notes if index == last else ())}
        if block.get("type") == "text"
        else block
        for index, block in enumerate(blocks)
    ]
