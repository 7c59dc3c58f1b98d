"""Tool definitions as text for a model: whole, as a stub, and what each costs.

Policy: a definition is a server's words. Shown as text it is cleaned, bounded, and stands in an envelope of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool

from codebuddy_mcp_tools.policy import clean, clean_description, envelope
from codebuddy_mcp_tools.tools.tool import MCPTool

MAX_SCHEMA_CHARS = 20_000
OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""What a stub is bound with: any arguments; the call is checked against the real schema."""
_POINTER = "(Arguments: describe_tool)"
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")

TokenCounter = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Tokens of a text, as characters / 4, rounded up: the documented estimate where no counter is given."""
    return -(-len(text) // 4)


def first_sentence(text: str, limit: int = 200) -> str:
    """The first sentence of a description, on one line."""
    return _SENTENCE.split(text.strip(), maxsplit=1)[0][:limit].strip()


def definition(tool: MCPTool) -> str:
    """Name, description and JSON schema of a tool, in an envelope."""
    info = tool.info
    schema = json.dumps(info.input_schema, ensure_ascii=False, default=str)
    if len(schema) > MAX_SCHEMA_CHARS:
        schema = f"{schema[:MAX_SCHEMA_CHARS]}… (cut; {len(schema)} characters in all)"
    lines = [tool.name, clean_description(info.description), f"Arguments (JSON schema): {clean(schema).text}"]
    return envelope(info.server, info.name, "\n".join(filter(None, lines)))


def summary(tool: MCPTool) -> str:
    """Name and first sentence of a tool, in an envelope."""
    return envelope(tool.info.server, tool.info.name, f"{tool.name}: {first_sentence(tool.info.description)}")


def stub(tool: MCPTool) -> MCPTool:
    """The tool as a stub: its name, one sentence, and where to read the rest. A call goes where the tool's own goes."""
    sentence = first_sentence(clean_description(tool.info.description or tool.info.title or ""))
    return tool.model_copy(update={"description": f"{sentence} {_POINTER}".lstrip(), "args_schema": OPEN_SCHEMA})


def bound_text(tool: BaseTool) -> str:
    """What a bound tool puts into the context, near enough: its name, description and schema as JSON."""
    about = {"name": tool.name, "description": tool.description, "parameters": tool.args_schema}
    return json.dumps(about, ensure_ascii=False, default=str)
