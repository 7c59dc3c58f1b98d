"""Secrets from outside: whatever is run, and however it fails, no marked value is in anything that comes out."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from codebuddy_mcp_tools import ServerApprovals, Settings, ToolProvider
from codebuddy_mcp_tools.errors import MCPToolsError
from codebuddy_mcp_tools.testing import FaultServer
from tests.cli.conftest import CommandLine

SECRETS = {"header": "HDR/SEC+ret=01", "env": "ENV SEC:ret\\02", "password": "PASS@SEC%ret03", "query": "QRY&SEC ret04"}
TOOL = {"name": "t", "description": "Says.", "inputSchema": {"type": "object", "properties": {"a": {}}}}
ECHO = "; ".join(
    [
        *SECRETS.values(),
        quote(SECRETS["query"]),
        json.dumps(SECRETS),
        repr(SECRETS["env"]),
        base64.b64encode(f"u:{SECRETS['password']}".encode()).decode(),
    ]
)
"""What a server says that repeats all that it was sent."""


def found_in(text: str) -> list[str]:
    """The secrets in a text, in any of the spellings of `ECHO`."""
    spelled = {
        name: {
            value,
            quote(value),
            quote(value, safe=""),
            json.dumps(value)[1:-1],
            repr(value)[1:-1],
            base64.b64encode(value.encode()).decode(),
        }
        for name, value in SECRETS.items()
    }
    spelled["password"].add(base64.b64encode(f"u:{SECRETS['password']}".encode()).decode())
    places = {(name, text.find(form)) for name, forms in spelled.items() for form in forms}
    return sorted(f"{name}: …{text[max(place - 80, 0) : place + 60]}…" for name, place in places if place >= 0)


class Traces(BaseTracer):
    """What a tracing service would be sent: every run, whole."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run)

    def text(self) -> str:
        return "\n".join(f"{vars(run)!r} {json.dumps(run.model_dump(), default=repr)}" for run in self.runs)


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Everything any logger of this process writes, at DEBUG."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level, own = root.level, logging.getLogger("codebuddy_mcp_tools")
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    own.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def remote(url: str) -> dict[str, Any]:
    host = url.removeprefix("http://")
    login = f"u:{quote(SECRETS['password'], safe='')}"
    return {
        "url": f"http://{login}@{host}?key={quote(SECRETS['query'], safe='')}",
        "headers": {"X-Key": f"Token {SECRETS['header']}"},
    }


def local(server: FaultServer) -> dict[str, Any]:
    return server.stdio_config(env={"MY_TOKEN": SECRETS["env"]})


HTTP_FAULTS = {
    "ok": {},
    "refusing": {"init": [{"status": 401, "headers": {"WWW-Authenticate": f"Bearer {ECHO}"}, "body": ECHO}]},
    "failing": {"on": {"tools/call": [{"status": 500, "body": f"<h1>{ECHO}</h1>"}]}},
    "redirecting": {"init": [{"redirect": f"http://127.0.0.1:1/{quote(SECRETS['query'])}"}]},
    "dropping": {"on": {"tools/call": [{"drop": True}]}},
}
STDIO_FAULTS = {
    "protocol": {"calls": {"t": [{"error": {"code": -32001, "message": ECHO, "data": {"why": [ECHO]}}}]}},
    "dying": {"calls": {"t": [{"stderr": f"{ECHO}\n"}, {"exit": 3}]}},
    "stillborn": {"on_start": [{"stderr": f"{ECHO}\n"}, {"exit": 3}]},
    "babbling": {"calls": {"t": [{"raw": f"{ECHO}\n"}, {"stderr": f"{ECHO}\n"}, {"text": "fine"}]}},
    "logging": {
        "calls": {"t": [{"notify": {"method": "notifications/message", "params": {"level": "error", "data": ECHO}}}]}
    },
    "invalid": {"calls": {"t": [{"result": {"content": ECHO}}]}},
}


async def everything(workspace: Path) -> str:
    """Every server is listed, called, read and asked; what comes out of the package's public objects and of traces."""
    traces, texts = Traces(), []
    async with AsyncExitStack() as stack:
        servers: dict[str, Any] = {}
        for name, script in HTTP_FAULTS.items():
            server = stack.enter_context(FaultServer({"tools": [TOOL], **script}))
            servers[name] = remote(await stack.enter_async_context(server.http()))
        for name, script in STDIO_FAULTS.items():
            servers[name] = local(stack.enter_context(FaultServer({"tools": [TOOL], **script})))
        servers["down"] = remote("http://127.0.0.1:9/mcp")
        servers["unknown"] = remote("http://nowhere.invalid/mcp")
        servers["forbidden"] = remote("http://169.254.169.254/mcp")
        servers["missing"] = {"command": "no-such-command", "env": {"MY_TOKEN": SECRETS["env"]}}
        servers["broken"] = {"command": 5, "env": {"MY_TOKEN": [SECRETS["env"]]}, "headers": SECRETS}
        settings = Settings.model_validate({"reconnectDelaysS": [0.01]})
        options = {"workspace": workspace, "settings": settings, "state_dir": workspace / "state"}
        provider = await stack.enter_async_context(ToolProvider(servers, **options))
        tools = await provider.get_tools_async()
        for tool in tools:
            call = {"name": tool.name, "args": {"a": 1}, "id": "1", "type": "tool_call"}
            message = await tool.ainvoke(call, {"callbacks": [traces]})
            if tool.metadata["serverName"] not in ("invalid",):  # a result's own text is passed on as it is
                texts.append(repr(message))
            texts += [repr(tool), str(tool), repr(vars(tool)), repr(tool.metadata), repr(tool.info)]
            assert "SEC" not in repr(tool.server_config)
        for name in (*servers, "nobody"):
            try:
                await provider.read_resource(name, "x://y")
            except MCPToolsError as error:
                texts += [repr(error), str(error), repr(vars(error)), "".join(traceback.format_exception(error))]
        texts += [repr(provider), str(provider), repr(provider.status()), repr(provider.service)]
        texts += [repr(provider.catalog)]
        texts += [repr(provider.service.configuration), repr(settings), repr(provider.service.server("ok"))]
        texts += [repr(provider.service.server("ok").client), repr(provider.service.redactor)]
        approvals = ServerApprovals(workspace / "state", workspace)
        asked = [approvals.request(entry) for entry in provider.service.configuration.entries.values() if entry.config]
        texts += [repr(approvals), *map(repr, asked), *(request.text() for request in asked)]
        texts += [repr(await provider.resources()), repr(await provider.commands())]
        texts += [repr(vars(status)) if hasattr(status, "__dict__") else repr(status) for status in provider.status()]
        entries = provider.service.configuration.entries.values()
        texts += [repr(entry) for entry in entries] + [str(entry.config) for entry in entries]
        await asyncio.sleep(0)
    invalid = {run.id for run in traces.runs if run.name == "mcp__invalid__t"}
    traces.runs = [run for run in traces.runs if run.id not in invalid]
    return "\n".join([*texts, traces.text()])


@pytest.mark.case("B60")
async def test_nothing_that_comes_out_of_a_provider_holds_a_secret(tmp_path: Path, said: io.StringIO) -> None:
    text = await everything(tmp_path)
    assert "SEC" not in said.getvalue() or found_in(said.getvalue()) == []
    assert found_in(text) == []
    written = await asyncio.to_thread(files, tmp_path)
    assert (tmp_path / ".codebuddy" / "logs" / "mcp.jsonl") in written
    assert found_in("\n".join(written.values())) == []


def files(folder: Path) -> dict[Path, str]:
    """Everything below a folder, by file."""
    return {file: file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()}


def test_the_search_finds_what_it_looks_for() -> None:
    assert {found.partition(":")[0] for found in found_in(ECHO)} == set(SECRETS)


@pytest.mark.case("B60")
def test_no_command_prints_or_keeps_a_secret(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: io.StringIO
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    cli = CommandLine(home, workspace)
    dying = "import os, sys; sys.stderr.write(os.environ['MY_TOKEN'] + '\\n'); sys.exit(3)"
    with FaultServer({"tools": [TOOL], **STDIO_FAULTS["protocol"]}) as server:
        servers = {
            "good": local(server),
            "dying": {"command": sys.executable, "args": ["-c", dying], "env": {"MY_TOKEN": SECRETS["env"]}},
            "down": remote("http://127.0.0.1:9/mcp"),
            "broken": {"command": 5, "env": SECRETS, "url": remote("http://h/")["url"]},
        }
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": servers})
        cli.write(".mcp.json", {"mcpServers": {"theirs": remote("http://127.0.0.1:9/mcp"), "mine": local(server)}})
        commands = [
            ["list"], ["list", "--json"], *([["get", name] for name in (*servers, "theirs")]),
            ["get", "good", "--json"], ["approve"], ["approve", "theirs", "mine", "--yes"], ["approve", "--tools"],
            ["status"], ["status", "--json"],
            ["tools"], ["tools", "good", "--json"], ["describe", "t"], ["search", "says"], ["call", "good.t", "a=1"],
            ["call", "mine.t", "--json"], ["call", "nothing"], ["doctor"], ["doctor", "--json"], ["login", "down"],
            ["logout", "down"], ["add", "-e", f"T={SECRETS['env']}", "new", "--", "x"],
            ["add", "-H", f"K: {SECRETS['header']}", "far", remote("http://h/")["url"]], ["remove", "far"],
            ["add-json", "bad", json.dumps({"command": 5, "env": SECRETS})], ["reset-approvals"], ["remove", "broken"],
        ]  # fmt: skip
        for command in commands:
            for verbose in ([], ["-vv"]):
                result = cli.run(*verbose, *command, code=None)
                assert found_in(result.output + result.stderr) == [], command
    assert found_in(said.getvalue()) == []
    kept = files(home) | files(workspace)
    assert kept
    configs = {".mcp.json", ".codebuddy.json"}
    assert found_in("\n".join(text for file, text in kept.items() if file.name not in configs)) == []
