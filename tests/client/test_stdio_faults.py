"""What real processes do wrong over stdio, and the one bounded outcome that each has."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import sys
from typing import Any

import pytest

from codebuddy_mcp_tools.client import MCPClient
from codebuddy_mcp_tools.errors import CallTimeoutError, ConnectError, ConnectionLostError, ProtocolError
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import ClientState
from tests.client.conftest import MakeClient
from tests.client.fake import until

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def script(*plan: Any, **more: Any) -> dict[str, Any]:
    """A script with a tool `t` that does what the plan says, and a tool `ok` that works."""
    return {"tools": [TOOL, {**TOOL, "name": "ok"}], "calls": {"t": list(plan)}, **more}


async def said(client: MCPClient, tool: str = "t", **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    return str(result.content[0]["text"])


# -- the start -------------------------------------------------------------------------------------------------------


@pytest.mark.case("X9")
async def test_exit_at_start_names_the_code_and_the_last_words(client_of: MakeClient) -> None:
    with FaultServer({"on_start": [{"stderr": "booting\nno API key\n"}, {"exit": 3}]}) as server:
        client = client_of(server)
        with pytest.raises(ConnectError, match=r"s: the process exited with code 3.*no API key") as caught:
            await client.connect()
        assert caught.value.__cause__ is None
        assert client.snapshot().stderr_tail == ("booting", "no API key")
        assert len(server.pids()) == 3
        assert server.alive() == []


async def test_exit_at_initialize_is_told_the_same_way(client_of: MakeClient) -> None:
    with (
        FaultServer({"init": [{"stderr": "bad config\n"}, {"exit": 1}]}) as server,
        pytest.raises(ConnectError, match=r"exited with code 1.*bad config"),
    ):
        await client_of(server).connect()


async def test_death_by_a_signal_is_named(client_of: MakeClient) -> None:
    with (
        FaultServer({"init": [{"kill": "SIGSEGV"}]}) as server,
        pytest.raises(ConnectError, match="was ended by SIGSEGV"),
    ):
        await client_of(server).connect()


@pytest.mark.case("B34")
async def test_silence_at_start_ends_with_the_start_timeout_and_the_child_is_gone(client_of: MakeClient) -> None:
    with FaultServer({"init": [{"hang": True}]}) as server:
        client = client_of(server, timeouts={"connect": 0.6})
        with pytest.raises(ConnectError, match=r"no answer to initialize within 0\.6 s"):
            await client.connect()
        await client.aclose()
        assert server.alive() == []


async def test_a_start_that_never_reads_ends_the_same_way(client_of: MakeClient) -> None:
    with FaultServer({"on_start": [{"ignore_sigterm": True}, {"hang": True}]}) as server:
        client = client_of(server, timeouts={"connect": 0.6, "close": 0.6})
        with pytest.raises(ConnectError, match="no answer to initialize"):
            await client.connect()
        await client.aclose()
        assert server.alive() == []


@pytest.mark.case("B35")
async def test_a_slow_start_within_the_timeout_is_waited_for(client_of: MakeClient) -> None:
    with FaultServer({"on_start": [{"wait_file": "warm"}], **script()}) as server:
        client = client_of(server)
        connecting = asyncio.create_task(client.list_tools())
        await until(server.pids)
        assert client.state is ClientState.CONNECTING
        server.gate("warm").touch()
        assert [tool.name for tool in (await connecting).tools] == ["t", "ok"]


async def test_what_it_printed_in_place_of_an_answer_is_shown(client_of: MakeClient) -> None:
    with (
        FaultServer({"init": [{"raw": "Usage: server --port N\n"}]}) as server,
        pytest.raises(ConnectError, match="Usage: server --port N"),
    ):
        await client_of(server, timeouts={"connect": 0.6}).connect()


# -- death in between ------------------------------------------------------------------------------------------------


@pytest.mark.case("B30")
async def test_death_during_a_call_is_told_once_and_the_next_call_reconnects(client_of: MakeClient) -> None:
    with FaultServer(script([{"exit": 1}], [{"text": "back"}])) as server:
        client = client_of(server)
        with pytest.raises(ConnectionLostError, match=r"s: connection lost.*exited with code 1") as caught:
            await client.call_tool("t", {})
        assert caught.value.sent
        assert len(server.calls("t")) == 1
        assert client.breaker.failures == 1
        assert await said(client) == "back"
        assert len(set(server.pids())) == 2


@pytest.mark.case("B31")
@pytest.mark.parametrize(("replayable", "lines"), [(False, 1), (True, 2)])
async def test_a_write_is_never_replayed(client_of: MakeClient, replayable: bool, lines: int) -> None:
    with FaultServer(script([{"ledger": "paid"}, {"exit": 1}], [{"ledger": "paid"}, {"text": "paid"}])) as server:
        call = client_of(server).call_tool("t", {}, replayable=replayable)
        if replayable:
            await call
        else:
            with pytest.raises(ConnectionLostError, match="may have run: find out before"):
                await call
        assert server.ledger() == ["paid"] * lines


async def test_an_answer_right_before_death_is_delivered(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "done"}, {"exit": 1}])) as server:
        assert await said(client_of(server)) == "done"


async def test_kill_with_twenty_calls_in_flight_fails_all_of_them_at_once(client_of: MakeClient) -> None:
    with FaultServer(script([{"hang": True}])) as server:
        client = client_of(server)
        calls = [asyncio.create_task(client.call_tool("t", {})) for _ in range(20)]
        await server.seen("tools/call", 20)
        killer = asyncio.create_task(client.call_tool("kill", {}))
        await server.seen("tools/call", 21)
        pid = client.snapshot().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        results = await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.gather(killer, return_exceptions=True)
        assert {type(result) for result in results} == {ConnectionLostError}
        assert "SIGKILL" in str(results[0])
        assert client.breaker.failures == 1


async def test_death_while_idle_is_noticed_and_mended_without_a_call(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "fine"}, {"exit": 0}], [{"text": "fine"}])) as server:
        client = client_of(server)
        await said(client)
        await until(lambda: len(server.pids()) == 2 and client.state is ClientState.CONNECTED)
        assert await said(client) == "fine"


@pytest.mark.parametrize(
    ("step", "reason"), [({"close_stdout": True}, "closed its output"), ({"close_stdin": True}, "closed its input")]
)
async def test_a_closed_pipe_is_the_end_although_the_process_lives(
    client_of: MakeClient, step: dict[str, Any], reason: str
) -> None:
    with FaultServer(script([step, {"hang": True}], [{"text": "fresh"}])) as server:
        client = client_of(server, timeouts={"close": 0.6})
        with pytest.raises(ConnectionLostError, match=f"{reason} but still runs"):
            await client.call_tool("t", {})
        assert await said(client) == "fresh"
        await client.aclose()
        assert server.alive() == []


async def test_the_leader_dies_and_a_child_keeps_the_pipes_open(client_of: MakeClient) -> None:
    # The grandchild inherits stdout, so that no end of file comes.
    command = f"({sys.executable} -c 'import time; time.sleep(60)' &) ; read line; exit 7"
    client = client_of({"command": "sh", "args": ["-c", command]}, timeouts={"close": 0.6})
    with pytest.raises(ConnectError, match="exited with code 7"):
        await client.connect()


# -- bad bytes -------------------------------------------------------------------------------------------------------


async def test_noise_on_stdout_is_skipped_with_one_warning(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    noise = "Listening on stdio\n\n[]\n{}\nnull\n\x1b[31mred\x1b[0m\n"
    with FaultServer({"on_start": [{"raw": noise}], **script([{"raw": "debug: t\n"}, {"text": "fine"}])}) as server:
        with caplog.at_level(logging.WARNING):
            assert await said(client_of(server)) == "fine"
        warnings = [r for r in caplog.records if "no MCP message" in r.getMessage()]
        assert len(warnings) == 1
        assert "Listening on stdio" in warnings[0].getMessage()


@pytest.mark.parametrize(
    "answer",
    [
        '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"fine"}]}}\r\n',
        '\xef\xbb\xbf{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"fine"}]}}\n',
        '{"jsonrpc":"1.0","id":$id,"result":{"content":[{"type":"text","text":"fine"}]}}\n',
        '{"id":"$id","result":{"content":[{"type":"text","text":"fine"}]}}\n',
        '[{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"fine"}]}}]\n',
        '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"fine","x":NaN}]}}\n',
        (
            '{"jsonrpc":"2.0","id":9999,"result":{}}\n'
            '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"fine"}]}}\n'
            '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"twice"}]}}\n'
        ),
    ],
)
async def test_an_answer_in_a_strange_form_is_an_answer(client_of: MakeClient, answer: str) -> None:
    with FaultServer(script([{"raw": answer}])) as server:
        client = client_of(server)
        assert await said(client) == "fine"
        assert await said(client, "ok") == "ok"


async def test_a_byte_that_is_not_utf8_costs_one_character(client_of: MakeClient) -> None:
    answer = '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}\n'
    with FaultServer(script([{"raw": answer}])) as server:
        client = client_of(server)
        assert await said(client) == "caf\ufffd"
        assert await said(client, "ok") == "ok"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"jsonrpc":"2.0","id":$id,"result":{"content":[}\n', "not valid JSON"),
        ('{"jsonrpc":"2.0","id":$id,"result":' + "[" * 20_000 + "]" * 20_000 + "}\n", "nested too deeply"),
        ('{"jsonrpc":"2.0","id":$id}\n', "neither a result nor an error"),
    ],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_and_says_that_it_has_run(
    client_of: MakeClient, answer: str, reason: str
) -> None:
    with FaultServer(script([{"raw": answer}])) as server:
        client = client_of(server)
        with pytest.raises(ProtocolError, match=reason) as caught:
            await client.call_tool("t", {}, replayable=True)
        assert caught.value.ran
        assert len(server.calls("t")) == 1
        assert await said(client, "ok") == "ok"
        assert len(server.pids()) == 1


async def test_a_line_of_fifty_megabytes_fails_its_call_and_nothing_else(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "x" * 1000, "repeat": 50_000}])) as server:
        client = client_of(server)
        with pytest.raises(ProtocolError, match=r"more than 16\.8 MB"):
            await client.call_tool("t", {})
        assert await said(client, "ok") == "ok"
        assert len(server.pids()) == 1


async def test_a_line_of_ten_megabytes_is_delivered(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "x" * 1000, "repeat": 10_000}])) as server:
        assert len(await said(client_of(server))) == 10_000_000


async def test_a_wrong_id_ends_with_the_deadline_and_the_error_says_why(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "for somebody else", "id": 4711}])) as server:
        client = client_of(server)
        with pytest.raises(CallTimeoutError, match="fit no request"):
            await client.call_tool("t", {}, timeout=0.5)
        assert await said(client, "ok") == "ok"


async def test_an_error_without_id_fails_the_only_call(client_of: MakeClient) -> None:
    with (
        FaultServer(script([{"error": {"code": -32700, "message": "Parse error"}, "id": None}])) as server,
        pytest.raises(ProtocolError, match="Parse error"),
    ):
        await client_of(server).call_tool("t", {})


async def test_the_last_words_are_those_that_name_the_error(client_of: MakeClient) -> None:
    written = "node:internal/modules/cjs/loader:1210\nError: Cannot find module 'x.js'\n  at load\n{\n}\nNode.js v20\n"
    with FaultServer({"on_start": [{"stderr": written}, {"exit": 1}]}) as server:
        client = client_of(server)
        with pytest.raises(ConnectError, match=r"last words: Error: Cannot find module 'x.js' \| } \| Node.js v20"):
            await client.connect()


async def test_a_flood_on_stderr_blocks_nobody_and_is_not_kept(client_of: MakeClient) -> None:
    with FaultServer(script([{"stderr": "x" * 99 + "\n", "repeat": 100_000}, {"text": "fine"}])) as server:
        client = client_of(server)
        assert await said(client) == "fine"
        tail = client.snapshot().stderr_tail
        assert 0 < len(tail) <= 50
        assert tail[-1] == "x" * 99


async def test_stderr_goes_to_a_logger_of_the_server_without_escapes(
    client_of: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    with FaultServer(script([{"stderr": "\x1b]0;title\x07hello\x1b[1m there\n"}, {"text": "fine"}])) as server:
        with caplog.at_level(logging.INFO, "codebuddy_mcp_tools.server.s"):
            client = client_of(server)
            await said(client)
            await until(lambda: client.snapshot().stderr_tail)
        assert client.snapshot().stderr_tail == ("hello there",)
        assert [r.getMessage() for r in caplog.records if r.name == "codebuddy_mcp_tools.server.s"] == ["hello there"]


@pytest.mark.case("B42")
async def test_a_host_without_a_file_behind_stderr_can_start_servers(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NotebookStderr(io.TextIOBase):
        def write(self, text: str) -> int:
            return len(text)

    monkeypatch.setattr(sys, "stderr", NotebookStderr())
    with FaultServer(script([{"stderr": "words\n"}, {"text": "fine"}])) as server:
        assert await said(client_of(server)) == "fine"


# -- our side --------------------------------------------------------------------------------------------------------


@pytest.mark.case("X7")
@pytest.mark.parametrize("arguments", [{"s": "\ud83d"}, {"s": float("nan")}, {"s": object()}])
async def test_arguments_that_are_no_json_fail_that_call_only(client_of: MakeClient, arguments: dict[str, Any]) -> None:
    with FaultServer(script([{"text": "fine"}])) as server:
        client = client_of(server)
        with pytest.raises(ProtocolError, match="was not sent") as caught:
            await client.call_tool("t", arguments)
        assert not caught.value.ran
        assert await said(client) == "fine"
        assert len(server.calls("t")) == 1
        assert len(server.pids()) == 1


async def test_a_server_that_stops_reading_fails_what_cannot_be_written(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "last"}, {"stop_reading": True}])) as server:
        client = client_of(server, timeouts={"write": 0.3, "ping": 0.3, "close": 0.6})
        assert await said(client) == "last"
        big = {"x": "y" * 1_000_000}
        results = await asyncio.gather(
            *(client.call_tool("ok", big) for _ in range(3)), client.call_tool("ok", {}), return_exceptions=True
        )
        assert {type(result) for result in results} == {ConnectionLostError}
        outcomes = [result.sent for result in results if isinstance(result, ConnectionLostError)]
        assert outcomes == [True, False, False, False]
        await until(lambda: client.breaker.failures >= 1)
        await until(lambda: len(server.pids()) == 2 and client.state is ClientState.CONNECTED)
        assert await said(client, "ok") == "ok"
        assert server.calls("ok")[-1]["arguments"] == {}


async def test_a_cancelled_call_is_told_to_the_server_and_the_session_goes_on(client_of: MakeClient) -> None:
    with FaultServer(script([{"hang": True}])) as server:
        client = client_of(server)
        call = asyncio.create_task(client.call_tool("t", {}))
        (request,) = await server.seen("tools/call")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (told,) = await server.seen("notifications/cancelled")
        assert told["params"]["requestId"] == request["id"]
        assert await said(client, "ok") == "ok"
        assert len(server.pids()) == 1


async def test_a_timed_out_call_is_told_to_the_server_and_a_late_answer_is_ignored(client_of: MakeClient) -> None:
    with FaultServer(script([{"wait_file": "late"}, {"text": "late"}])) as server:
        client = client_of(server)
        with pytest.raises(CallTimeoutError, match=r"within 0\.2 s"):
            await client.call_tool("t", {}, timeout=0.2)
        await server.seen("notifications/cancelled")
        server.gate("late").touch()
        assert await said(client, "ok") == "ok"
        assert len(server.pids()) == 1


@pytest.mark.case("B27")
async def test_any_task_may_open_use_and_close(client_of: MakeClient) -> None:
    with FaultServer(script([{"text": "fine"}])) as server:
        client = client_of(server)
        await asyncio.create_task(client.connect())
        assert await asyncio.create_task(said(client)) == "fine"
        await asyncio.create_task(client.aclose())
        assert server.alive() == []


@pytest.mark.case("B29")
async def test_calls_share_one_process(client_of: MakeClient) -> None:
    with FaultServer(script([{"counter": True}])) as server:
        client = client_of(server)
        assert [await said(client) for _ in range(3)] == ["1", "2", "3"]
        assert len(server.pids()) == 1
