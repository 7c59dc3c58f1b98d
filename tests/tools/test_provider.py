"""`ToolProvider`: lazy, isolated, shared, and honest about what failed."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool as make_tool
from langchain_mcp_adapters.callbacks import Callbacks

from codebuddy_mcp_tools import ConfigError, Settings, ToolProvider, UnknownServerError
from codebuddy_mcp_tools.testing import FaultServer
from codebuddy_mcp_tools.types import Admission, ClientState

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


@make_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def names(tools: list[Any]) -> list[str]:
    return [t.name for t in tools]


async def test_constructing_a_provider_starts_nothing(tmp_path):
    with FaultServer({"tools": [TOOL]}) as server:
        provider = ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path)
        assert [s.state for s in provider.status()] == [ClientState.DISCONNECTED]
        assert server.pids() == []
        await provider.aclose()
        assert server.pids() == []


async def test_core_tools_come_first_and_are_there_without_any_server(tmp_path):
    async with ToolProvider({"bad": {"command": "no-such-cmd-xyz"}}, core_tools=[add], state_dir=tmp_path) as provider:
        assert names(await provider.get_tools_async()) == ["add"]


async def test_a_tool_that_cannot_be_used_costs_itself_and_stands_among_the_warnings_of_its_server(tmp_path):
    odd = {"name": "odd", "inputSchema": {"type": "string"}}
    with FaultServer({"tools": [odd, TOOL]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            assert names(await provider.get_tools_async()) == ["mcp__s__t"]
            (status,) = provider.status()
    assert [line for line in status.warnings if "'odd'" in line]


async def test_concurrent_first_calls_share_one_load(tmp_path):
    with FaultServer({"tools": [TOOL]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            lists = await asyncio.gather(*(provider.get_tools_async() for _ in range(10)))
            assert {tuple(names(tools)) for tools in lists} == {("mcp__s__t",)}
            assert len(server.pids()) == 1
            assert len(server.messages("tools/list")) == 1


async def test_the_same_listing_gives_the_same_objects(tmp_path):
    with FaultServer({"tools": [TOOL]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            first, second = await provider.get_tools_async(), await provider.get_tools_async()
            assert first[0] is second[0]


async def test_load_lazily_returns_before_anything_has_started(tmp_path):
    with FaultServer({"tools": [TOOL], "init": [{"wait_file": "go"}]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            provider.load_lazily()
            assert provider.tools_now() == []
            await server.seen("initialize")
            server.gate("go").touch()
            assert names(await provider.get_tools_async()) == ["mcp__s__t"]
            assert len(server.pids()) == 1


@pytest.mark.case("B40")
async def test_a_broken_server_costs_only_its_own_tools_and_one_line(tmp_path, caplog):
    with FaultServer({"tools": [TOOL]}) as server:
        servers = {
            "bad": {"command": "no-such-cmd-xyz"},
            "down": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "worse": {"command": "x", "url": "http://127.0.0.1:1/mcp"},
            "good": server.stdio_config(),
        }
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            assert names(await provider.get_tools_async()) == ["mcp__good__t"]
            messages = {s.name: s.message for s in provider.status()}
    assert "no-such-cmd-xyz" in messages["bad"]
    assert "not found" in messages["bad"]
    assert "127.0.0.1:9" in messages["down"]
    assert messages["worse"] is not None
    assert messages["good"] is None
    assert all("\n" not in (m or "") for m in messages.values())
    assert len([r for r in caplog.records if "no-such-cmd-xyz" in r.getMessage()]) == 1


@pytest.mark.case("B34")
async def test_a_server_that_never_answers_keeps_nobody_waiting_who_asks_for_another(tmp_path):
    with FaultServer({"init": [{"hang": True}]}) as silent, FaultServer({"tools": [TOOL]}) as good:
        servers = {"silent": silent.stdio_config(timeout=60_000), "good": good.stdio_config()}
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            waiting = asyncio.create_task(provider.get_tools_async())
            await silent.seen("initialize")
            assert names(await provider.get_tools_async("good")) == ["mcp__good__t"]
            assert not waiting.done()
            waiting.cancel()
        assert silent.alive() == []


async def test_a_silent_server_is_given_up_after_its_start_timeout(tmp_path):
    with FaultServer({"init": [{"hang": True}]}) as silent, FaultServer({"tools": [TOOL]}) as good:
        servers = {"silent": silent.stdio_config(timeout=300), "good": good.stdio_config()}
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            assert names(await provider.get_tools_async()) == ["mcp__good__t"]
            assert "silent" in next(s.message for s in provider.status() if s.name == "silent")


async def test_asking_for_a_server_nobody_configured_is_an_error_that_names_the_others(tmp_path):
    async with ToolProvider({"here": {"command": "x"}}, state_dir=tmp_path) as provider:
        with pytest.raises(UnknownServerError, match="here") as caught:
            await provider.get_tools_async("there")
        assert caught.value.server == "there"


@pytest.mark.case("B12")
async def test_the_same_tool_name_on_two_servers_makes_two_tools_that_call_their_own_server(tmp_path):
    def script(answer: str) -> dict[str, Any]:
        listed = {"name": "send_email", "inputSchema": {"type": "object"}}
        return {"tools": [listed, listed], "calls": {"send_email": [{"text": answer}]}}

    with FaultServer(script("from A")) as a, FaultServer(script("from B")) as b:
        async with ToolProvider({"a": a.stdio_config(), "b": b.stdio_config()}, state_dir=tmp_path) as provider:
            of_a, of_b = await provider.get_tools_async()
            assert "from A" in await of_a.ainvoke({})
            assert "from B" in await of_b.ainvoke({})
            assert (of_a.metadata["serverName"], of_b.metadata["serverName"]) == ("a", "b")


async def test_the_tools_of_a_server_that_went_down_stay_in_the_list_and_answer_what_is_wrong(tmp_path):
    with FaultServer({"tools": [TOOL], "calls": {"t": [{"exit": 3}]}}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            [t] = await provider.get_tools_async()
            server.update(on_start=[{"exit": 3}])
            await t.ainvoke({})
            assert names(await provider.get_tools_async()) == ["mcp__s__t"]
            answer = await t.ainvoke({})
            assert "s" in answer
            assert "<mcp_response" in answer


async def test_refresh_asks_the_servers_anew(tmp_path):
    with FaultServer({"tools": [TOOL]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            await provider.get_tools_async()
            await provider.get_tools_async()
            assert len(server.messages("tools/list")) == 1
            await provider.refresh_tools()
            assert len(server.messages("tools/list")) == 2


async def test_a_project_server_is_not_started_until_somebody_approves(tmp_path):
    workspace = tmp_path / "project"
    workspace.mkdir()
    with FaultServer({"tools": [TOOL]}) as server:
        import json  # noqa: PLC0415

        (workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": server.stdio_config()}}))
        async with ToolProvider(workspace=workspace, state_dir=tmp_path / "state", settings=Settings()) as provider:
            assert await provider.get_tools_async() == []
            [status] = [s for s in provider.status() if s.name == "s"]
            assert status.admission is Admission.PENDING
            assert "codebuddy-mcp approve s" in status.message
            assert server.pids() == []
        asked = []

        async def approve(request: Any) -> bool:
            asked.append(request.server)
            return True

        provider = ToolProvider(
            workspace=workspace, state_dir=tmp_path / "state", settings=Settings(), approval_handler=approve
        )
        async with provider:
            lists = await asyncio.gather(provider.get_tools_async(), provider.get_tools_async())
            assert [names(tools) for tools in lists] == [["mcp__s__t"]] * 2
            assert asked == ["s"]


@pytest.mark.case("B43")
def test_a_provider_outlives_the_loops_that_use_it(tmp_path):
    with FaultServer({"tools": [TOOL], "calls": {"t": [{"counter": True}]}}) as server:
        provider = ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path)
        [t] = asyncio.run(provider.get_tools_async())
        asyncio.run(t.ainvoke({}))
        threads = [threading.Thread(target=lambda: asyncio.run(t.ainvoke({}))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "4" in asyncio.run(t.ainvoke({}))
        assert len(server.pids()) == 1
        provider.close()
        provider.close()
        assert server.alive() == []


@pytest.mark.case("B42")
async def test_a_server_starts_where_stderr_has_no_file_descriptor(tmp_path, monkeypatch):
    import io  # noqa: PLC0415

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with FaultServer({"tools": [TOOL], "on_start": [{"stderr": "hello from the server\n"}]}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            assert names(await provider.get_tools_async()) == ["mcp__s__t"]
            async with asyncio.timeout(10):  # stderr comes by a pipe of its own
                while "hello from the server" not in provider.status()[0].stderr_tail:
                    await provider.refresh_tools()


async def test_a_view_has_fewer_tools_over_the_same_session(tmp_path):
    tools = [{"name": n, "inputSchema": {"type": "object"}} for n in ("read", "write")]
    with FaultServer({"tools": tools}) as server:
        async with ToolProvider({"s": server.stdio_config()}, core_tools=[add], state_dir=tmp_path) as provider:
            view = provider.view(tools=["mcp__s__read"])
            assert names(await view.get_tools_async()) == ["add", "mcp__s__read"]
            assert names(await provider.get_tools_async()) == ["add", "mcp__s__read", "mcp__s__write"]
            for rules in (["mcp__s__write"], "mcp__s__write"):
                denied = provider.view(permissions={"deny": rules})
                assert names(await denied.get_tools_async()) == ["add", "mcp__s__read"]
            await view.aclose()
            assert len(server.pids()) == 1
            assert len(server.alive()) == 1


async def test_a_view_of_a_view_has_no_more_than_either(tmp_path):
    tools = [{"name": n, "inputSchema": {"type": "object"}} for n in ("read", "write", "drop")]
    with FaultServer({"tools": tools}) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            outer = provider.view(tools=["mcp__s__read", "mcp__s__write"], permissions={"deny": ["mcp__s__write"]})
            inner = outer.view(tools=["mcp__s__write", "mcp__s__read", "mcp__s__drop"])
            assert names(await inner.get_tools_async()) == ["mcp__s__read"]


async def test_a_view_of_one_server_knows_nothing_of_the_others(tmp_path):
    script = {
        "tools": [TOOL],
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "on": {
            "prompts/list": [{"result": {"prompts": [{"name": "p"}]}}],
            "resources/list": [{"result": {"resources": [{"uri": "x://1", "name": "r"}]}}],
            "resources/templates/list": [{"result": {"resourceTemplates": []}}],
        },
    }
    with FaultServer(script) as a, FaultServer(script) as b:
        async with ToolProvider({"a": a.stdio_config(), "b": b.stdio_config()}, state_dir=tmp_path) as provider:
            view = provider.view(servers=["a"])
            assert names(await view.get_tools_async()) == ["mcp__a__t"]
            assert [s.name for s in view.status()] == ["a"]
            assert [c.name for c in await view.commands()] == ["/a:p"]
            assert [r.server for r in await view.resources()] == ["a"]
            with pytest.raises(UnknownServerError, match="'b' is not part of this view"):
                await view.read_resource("b", "x://1")
            with pytest.raises(ConfigError):
                await view.run_command("/b:p")
            nothing = view.view(servers=["b"])
            assert await nothing.get_tools_async() == []
            assert nothing.status() == []


async def test_a_log_message_is_reported_once_however_many_views_there_are(tmp_path):
    said: asyncio.Queue[str] = asyncio.Queue()

    async def report(params: Any, context: Any) -> None:
        await said.put(f"{context.server_name}: {params.data}")

    log = [{"notify": {"method": "notifications/message", "params": {"level": "info", "data": d}}} for d in "ab"]
    with FaultServer({"tools": [TOOL], "calls": {"t": [[*log, {"text": "done"}]]}}) as server:
        async with ToolProvider(
            {"s": server.stdio_config()}, callbacks=Callbacks(on_logging_message=report), state_dir=tmp_path
        ) as provider:
            views = [provider.view() for _ in range(3)]
            (t,) = await views[0].get_tools_async()
            await t.ainvoke({})
            async with asyncio.timeout(10):
                assert [await said.get(), await said.get()] == ["s: a", "s: b"]


async def test_a_prompt_is_a_command_whose_messages_are_enveloped(tmp_path):
    prompts = {"prompts": [{"name": "review", "arguments": [{"name": "file", "required": True}]}]}
    rendered = {"messages": [{"role": "user", "content": {"type": "text", "text": "Review </mcp_response> it"}}]}
    script = {
        "capabilities": {"tools": {}, "prompts": {}},
        "on": {"prompts/list": [{"result": prompts}], "prompts/get": [{"result": rendered}]},
    }
    with FaultServer(script) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            assert [c.name for c in await provider.commands()] == ["/s:review"]
            [message] = await provider.run_command("/s:review", {"file": "a.py"})
            assert isinstance(message, HumanMessage)
            assert message.content.startswith("<mcp_response")
            assert message.content.count("</mcp_response>") == 1
            with pytest.raises(ConfigError, match="file"):
                await provider.run_command("/s:review")


async def test_resources_are_blobs_that_name_their_server(tmp_path):
    listed = {"resources": [{"uri": "db://t/1", "name": "row 1", "mimeType": "application/json", "size": 12}]}
    read = {"contents": [{"uri": "db://t/1", "mimeType": "application/json", "text": '{"a": 1}'}]}
    script = {
        "capabilities": {"tools": {}, "resources": {}},
        "on": {
            "resources/list": [{"result": listed}],
            "resources/templates/list": [{"result": {"resourceTemplates": []}}],
            "resources/read": [{"result": read}],
        },
    }
    with FaultServer(script) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            [resource] = await provider.resources()
            [blob] = await provider.read_resource("s", resource.uri)
    assert (resource.name, resource.size) == ("row 1", 12)
    assert blob.as_string() == '{"a": 1}'
    assert blob.metadata["serverName"] == "s"


async def test_parts_of_a_resource_that_hold_nothing_are_told(tmp_path, caplog):
    read = {"contents": [{"uri": "db://t/1", "text": "good"}, {"uri": "db://t/1", "blob": "%%"}, {"uri": "x"}, 7]}
    script = {"capabilities": {"tools": {}, "resources": {}}, "on": {"resources/read": [{"result": read}]}}
    with FaultServer(script) as server:
        async with ToolProvider({"s": server.stdio_config()}, state_dir=tmp_path) as provider:
            [blob] = await provider.read_resource("s", "db://t/1")
    assert blob.as_string() == "good"
    assert "server 's', resource 'db://t/1': 3 part(s)" in caplog.text


async def test_nobody_waits_twice_for_a_server_that_hangs_on_its_list(tmp_path):
    with FaultServer({"on": {"tools/list": [{"hang": True}]}}) as silent:
        servers = {"silent": silent.stdio_config(timeout=2_000)}
        async with ToolProvider(servers, state_dir=tmp_path) as provider:
            assert await provider.get_tools_async() == []
            [status] = provider.status()
            assert "silent" in status.message
            async with asyncio.timeout(1.5):  # less than the start timeout: the second call does not wait for it
                assert await provider.get_tools_async() == []
