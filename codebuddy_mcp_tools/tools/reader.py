"""`read_mcp_result`: reads saved results in parts, so that a model needs no file-system tool for them.

Policy: a saved file must not launder trust, so each part comes in an envelope of the server and tool that wrote it.
Only results of the same session are opened, by name, never through a link; a pattern is matched in linear time.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePath

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, Field

from codebuddy_mcp_tools.policy.envelope import envelope
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.tools.json_path import NoSuchPart
from codebuddy_mcp_tools.tools.private_dir import open_private
from codebuddy_mcp_tools.tools.saved_file import RESULT_NAME, Provenance
from codebuddy_mcp_tools.tools.saved_parts import Part, SavedText, take
from codebuddy_mcp_tools.tools.spill import SpillStore

READER_NAME = "read_mcp_result"
MAX_LIMIT = 2_000
_DESCRIPTION = (
    "Read a saved MCP tool result in parts. `path` is the file named in the tool's answer. Lines are counted from 1; a "
    "line longer than 2,000 characters counts as several. `offset` is the first line, `limit` how many lines. "
    "`pattern` (a regular expression or plain text) returns only the lines that match, with their numbers. "
    "`json_path`, such as `items[0].name`, picks a part of a JSON result; the other arguments then apply to that part."
)


class _Arguments(BaseModel):
    path: str = Field(description="The file, as named in the tool's answer; its name alone is enough")
    offset: int = Field(default=1, ge=1, description="First line to return, counted from 1")
    limit: int = Field(default=200, ge=1, le=MAX_LIMIT, description="How many lines to return")
    pattern: str | None = Field(default=None, max_length=500, description="Return only the lines that match")
    json_path: str | None = Field(default=None, max_length=2_000, description="Part of a JSON result: items[0].name")


def make_reader(store: SpillStore) -> BaseTool:
    """The tool that reads the saved results of a store. It changes nothing: `metadata["readOnly"]` is true."""
    reader = _Reader(store)
    return StructuredTool(
        name=READER_NAME,
        description=_DESCRIPTION,
        args_schema=_Arguments,
        func=reader.read,
        coroutine=reader.aread,
        handle_tool_error=True,
        metadata={"readOnly": True, "effect": "read"},
    )


class _Reader:
    def __init__(self, store: SpillStore) -> None:
        self._store = store

    async def aread(  # noqa: PLR0917 - LangChain passes these by name
        self,
        path: str,
        config: RunnableConfig,
        offset: int = 1,
        limit: int = 200,
        pattern: str | None = None,
        json_path: str | None = None,
    ) -> str:
        return await asyncio.to_thread(self.read, path, config, offset, limit, pattern, json_path)

    def read(  # noqa: PLR0917
        self,
        path: str,
        config: RunnableConfig,
        offset: int = 1,
        limit: int = 200,
        pattern: str | None = None,
        json_path: str | None = None,
    ) -> str:
        thread = (config.get("configurable") or {}).get("thread_id")
        with self._open(path.strip(), None if thread is None else str(thread)) as saved:
            try:
                lines = saved.lines() if json_path is None else saved.json_lines(json_path)
            except NoSuchPart as error:
                origin = saved.origin
                found = envelope(origin.server, origin.tool, f"At {error.place}: {error.offered}")
                raise ToolException(f"Nothing at json_path {clean_line(json_path or '', 200)!r}.\n{found}") from None
            except ValueError as error:
                raise ToolException(f"json_path: {error}.") from None
            return _answer(take(lines, offset, limit, pattern), saved.origin, filtered=pattern is not None)

    def _open(self, path: str, thread: str | None) -> SavedText:
        """The file, when it is a result of this session; of any session of the project when the run has none."""
        name = PurePath(path).name
        if RESULT_NAME.fullmatch(name):
            folders = self._store.folders() if thread is None else (self._store.steps(thread),)
            for steps in folders:
                if path not in {name, str(self._store.root.joinpath(*steps, name))}:
                    continue
                try:
                    with open_private(self._store.root, steps) as folder:
                        return SavedText(folder, name)
                except OSError:
                    continue
        raise ToolException(
            f"There is no saved result {clean_line(path, 200)!r} in this session. Call its tool again to get a new one."
        )


def _answer(part: Part, origin: Provenance, *, filtered: bool) -> str:
    """The lines in their envelope, and behind it which they are and how to read on."""
    last = part.last
    if filtered:
        where = f"{len(part.lines)} matching lines among the lines {part.first} to {last}"
    elif part.lines:
        where = f"lines {part.first} to {part.first + len(part.lines) - 1}"
    else:
        where = f"no line {part.first}: the last one is {last}"
    notes = [where + (f"; more follow, read on with offset={last + 1}" if part.more else "; nothing follows")]
    if part.is_literal:
        notes.append("pattern is no regular expression this tool can use, so it was looked for as plain text")
    return envelope(origin.server, origin.tool, "\n".join(part.lines), notes=notes)
