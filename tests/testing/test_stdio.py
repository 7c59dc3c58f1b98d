from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError

from codebuddy_mcp_tools.testing import FaultServer, ScriptError

ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


@asynccontextmanager
async def session(server: FaultServer) -> AsyncIterator[ClientSession]:
    config = server.stdio_config()
    parameters = StdioServerParameters(command=config["command"], args=config["args"])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        yield client


async def test_an_ordinary_client_can_talk_to_an_empty_script() -> None:
    with FaultServer({"tools": [ECHO], "name": "plain", "instructions": "be nice"}) as server:
        async with session(server) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            assert (await client.call_tool("echo", {})).content[0].text == "ok"
            with pytest.raises(McpError, match="Unknown tool"):
                await client.call_tool("other", {})
        assert server.messages("initialize")[0]["params"]["clientInfo"]
        assert len(server.pids()) == 1


async def test_every_call_takes_the_next_list_of_steps_and_the_last_one_repeats() -> None:
    script = {"tools": [ECHO], "calls": {"echo": [[{"text": "a"}], [{"echo": True, "counter": True, "pid": True}]]}}
    with FaultServer(script) as server:
        async with session(server) as client:
            first = await client.call_tool("echo", {})
            second = await client.call_tool("echo", {"x": 1})
            third = await client.call_tool("echo", {})
        assert first.content[0].text == "a"
        # the counter counts the `counter` steps' calls in this process; the first call had none
        assert [block.text for block in second.content] == ['{"x": 1}', "1", str(server.pids()[0])]
        assert third.content[1].text == "2"
        assert [call["arguments"] for call in server.calls("echo")] == [{}, {"x": 1}, {}]


async def test_the_count_of_calls_outlives_a_process_that_dies() -> None:
    script = {"tools": [ECHO], "calls": {"echo": [[{"ledger": "ran $args"}, {"exit": 3}], [{"text": "back"}]]}}
    with FaultServer(script) as server:
        async with session(server) as client:
            with pytest.raises(McpError):
                await client.call_tool("echo", {"n": 1})
        async with session(server) as client:
            assert (await client.call_tool("echo", {"n": 2})).content[0].text == "back"
        assert server.ledger() == ['ran {"n": 1}']
        assert len(set(server.pids())) == 2
        assert [entry["code"] for entry in server.log() if entry["event"] == "exit"] == [3]


async def test_a_waiting_call_does_not_hold_up_the_next_one() -> None:
    script = {"tools": [ECHO], "calls": {"echo": [[{"wait_file": "open"}, {"text": "late"}], [{"text": "soon"}]]}}
    with FaultServer(script) as server:
        async with session(server) as client:
            waiting = asyncio.create_task(client.call_tool("echo", {}))
            await server.seen("tools/call")
            assert (await client.call_tool("echo", {})).content[0].text == "soon"
            assert not waiting.done()
            server.gate("open").touch()
            assert (await waiting).content[0].text == "late"


async def test_pages_are_listed_one_by_one() -> None:
    pages = [[{"name": name, "inputSchema": {"type": "object"}}] for name in "abc"]
    with FaultServer({"pages": pages}) as server:
        async with session(server) as client:
            names, cursor = [], None
            while True:
                page = await client.list_tools(cursor)
                names += [tool.name for tool in page.tools]
                cursor = page.nextCursor
                if cursor is None:
                    break
        assert names == ["a", "b", "c"]


async def test_a_server_can_replace_its_tools_and_say_so() -> None:
    renamed = [{"name": "new", "inputSchema": {"type": "object"}}]
    steps = [{"tools": renamed}, {"notify": {"method": "notifications/tools/list_changed"}}, {"text": "done"}]
    with FaultServer({"tools": [ECHO], "calls": {"echo": steps}}) as server:
        async with session(server) as client:
            await client.call_tool("echo", {})
            assert [tool.name for tool in (await client.list_tools()).tools] == ["new"]


async def test_the_answer_of_the_client_to_a_request_of_the_server_can_be_seen() -> None:
    steps = [{"request": {"method": "roots/list"}}, {"client_answer": True}]
    with FaultServer({"tools": [ECHO], "calls": {"echo": steps}}) as server:
        async with session(server) as client:
            answer = json.loads((await client.call_tool("echo", {})).content[0].text)
        assert answer["code"] == -32600  # this client offers no roots


def exchange(server: FaultServer, *messages: dict[str, object]) -> tuple[bytes, bytes, int]:
    text = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    done = subprocess.run(
        [sys.executable, *server.arguments()], input=text, capture_output=True, timeout=60, check=False
    )
    return done.stdout, done.stderr, done.returncode


def call(name: str, identity: int = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": {"name": name, "arguments": {}}}


def test_raw_bytes_reach_stdout_as_they_are() -> None:
    steps = [{"raw": '{"id":$id}\xff\n', "repeat": 3}, {"stderr": "oops\n", "repeat": 2}]
    with FaultServer({"calls": {"x": steps}}) as server:
        out, err, code = exchange(server, call("x", 7))
    assert out == b'{"id":7}\xff\n' * 3
    assert (err, code) == (b"oops\noops\n", 0)


def test_two_answers_and_answers_to_another_id_are_sent() -> None:
    with FaultServer(
        {"calls": {"x": [{"text": "a"}, {"text": "b", "id": 99}, {"error": {"code": 1}, "id": None}]}}
    ) as s:
        out, _, _ = exchange(s, call("x", 1))
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 99, None]


def test_a_list_may_hold_what_is_no_tool() -> None:
    with FaultServer({"tools": ["no tool", None, {"name": None}, {"name": "x"}]}) as server:
        listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        out, _, code = exchange(server, listed, call("x"))
    answers = [json.loads(line)["result"] for line in out.splitlines()]
    assert answers[0]["tools"][:2] == ["no tool", None]
    assert (answers[1]["content"][0]["text"], code) == ("ok", 0)


def test_silence_is_no_answer_and_eof_ends_the_process() -> None:
    with FaultServer({"calls": {"x": [{"hang": True}, {"text": "never"}]}}) as server:
        out, _, code = exchange(server, call("x"))
        assert (out, code) == (b"", 0)
        assert server.log()[-1]["event"] == "eof"


def test_a_signal_ends_the_process() -> None:
    with FaultServer({"on_start": [{"kill": "SIGKILL"}]}) as server:
        assert exchange(server)[2] == -signal.SIGKILL
        assert server.alive() == []


def test_starts_follow_a_plan_too() -> None:
    with FaultServer({"on_start": [[{"exit": 4}], [{"exit": 5}], []]}) as server:
        assert [exchange(server)[2] for _ in range(4)] == [4, 5, 0, 0]


def test_lines_that_are_not_json_are_logged() -> None:
    with FaultServer({}) as server:
        subprocess.run([sys.executable, *server.arguments()], input=b"hello\n", check=True, timeout=60)
        assert [entry["raw"] for entry in server.log() if entry["event"] == "garbage"] == ["hello"]


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ({"tool": []}, "'tool'"),
        ({"calls": {"x": [{"txt": "a"}]}}, "calls.x, time 1, step 1: unknown step 'txt'"),
        ({"calls": {"x": [[], [{"text": "a", "exit": 1}]]}}, "time 2, step 1: one step does one thing"),
        ({"on_start": [{"repeat": 2}]}, "does 0"),
        ({"on": {"ping": "text"}}, "on.ping"),
        ({"on": {"ping": [["text"]]}}, "not 'text'"),
    ],
)
def test_a_wrong_script_is_refused_before_anything_starts(script: dict[str, object], word: str) -> None:
    with pytest.raises(ScriptError, match=word):
        FaultServer(script)


def test_a_step_that_the_transport_cannot_do_is_reported_at_the_end() -> None:
    server = FaultServer({"calls": {"x": [{"status": 500}]}})
    with pytest.raises(ScriptError, match="HTTP status"), server:
        assert exchange(server, call("x"))[2] == 70


def test_a_changed_script_is_played_by_the_next_process() -> None:
    with FaultServer({"name": "one"}) as server:
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        before = json.loads(exchange(server, hello)[0])
        server.update(name="two")
        after = json.loads(exchange(server, hello)[0])
        assert [answer["result"]["serverInfo"]["name"] for answer in (before, after)] == ["one", "two"]


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--port"], ["--port", "x", "s"], ["/no/such/file"]])
def test_wrong_usage_is_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "codebuddy_mcp_tools.testing", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
