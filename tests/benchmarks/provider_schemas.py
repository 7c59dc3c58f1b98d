"""Tries the tool lists of real servers against the schema rules of OpenAI, Anthropic and Gemini.

    python -m tests.benchmarks.provider_schemas --servers DIR

`DIR` holds one JSON file for each server: `{"server": name, "tools": [a tools/list entry, …]}`. Prints one line for
each server and every broken rule, with the size of the schemas before and after, and exits with 1 when a rule is
broken.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from codebuddy_mcp_tools.policy.names import visible_name
from codebuddy_mcp_tools.tools.schema import compile_schema
from codebuddy_mcp_tools.types import ToolInfo
from tests.benchmarks.provider_rules import (
    anthropic_problems,
    anthropic_tool,
    gemini_problems,
    gemini_tool,
    openai_problems,
    openai_tool,
)

PROVIDERS: dict[str, tuple[Callable[[BaseTool], dict[str, Any]], Callable[[Mapping[str, Any]], Iterator[str]]]] = {
    "OpenAI": (openai_tool, openai_problems),
    "Anthropic": (anthropic_tool, anthropic_problems),
    "Gemini": (gemini_tool, gemini_problems),
}


@dataclass
class ServerResult:
    """What came of one server's list."""

    server: str
    tools: int = 0
    chars: int = 0
    bound: int = 0
    ms: float = 0.0
    problems: dict[str, list[str]] = field(default_factory=lambda: {provider: [] for provider in PROVIDERS})


def as_tool(info: ToolInfo, bound: dict[str, Any]) -> BaseTool:
    """A LangChain tool with a bound schema, that does nothing."""
    return StructuredTool(
        name=visible_name(info.server, info.name), description=info.description or "-", args_schema=bound, func=dict
    )


def provider_problems(tool: BaseTool) -> dict[str, list[str]]:
    """For each provider the rules that a tool breaks; a converter that raises is a broken rule."""
    found: dict[str, list[str]] = {}
    for provider, (convert, problems) in PROVIDERS.items():
        try:
            found[provider] = list(problems(convert(tool)))
        except Exception as error:  # whatever a converter raises is the finding
            found[provider] = [f"its converter raises {type(error).__name__}: {error}"[:200]]
    return found


def try_server(server: str, listed: list[Mapping[str, Any]]) -> ServerResult:
    """Converts one server's tools and tries each of them."""
    result = ServerResult(server, len(listed))
    for entry in listed:
        info = ToolInfo(
            server, entry["name"], entry.get("description") or "", input_schema=entry.get("inputSchema") or {}
        )
        started = time.perf_counter()
        schema = compile_schema(info)
        result.ms += (time.perf_counter() - started) * 1e3
        result.chars += len(json.dumps(info.input_schema))
        result.bound += len(json.dumps(schema.bound))
        problems = provider_problems(as_tool(info, schema.bound))
        for provider, lines in problems.items():
            result.problems[provider] += [f"{info.name}: {line}" for line in lines]
        if schema.problem is not None:
            result.problems["OpenAI"].append(f"{info.name}: hopeless: {schema.problem}")
    return result


def main(arguments: list[str] | None = None) -> int:
    """Runs the trial; the exit status is 1 when a rule is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--servers", type=Path, required=True, help="folder with one JSON file for each server")
    folder = parser.parse_args(arguments).servers
    logging.disable(logging.WARNING)  # Gemini's converter warns of every keyword that it leaves out
    results = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        results.append(try_server(document.get("server", path.stem), document["tools"]))
    print(f"{'server':<28}{'tools':>6}{'chars':>9}{'bound':>9}{'ms':>8}  " + "  ".join(PROVIDERS))
    for one in results:
        marks = "  ".join(f"{len(one.problems[p]) or 'ok':>{len(p)}}" for p in PROVIDERS)
        print(f"{one.server:<28}{one.tools:>6}{one.chars:>9}{one.bound:>9}{one.ms:>8.1f}  {marks}")
    lines = [f"{p} · {one.server} · {line}" for one in results for p in PROVIDERS for line in one.problems[p]]
    total = sum(one.tools for one in results)
    print(f"{total} tools, {sum(one.ms for one in results):.0f} ms, {len(lines)} broken rules", *lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
