"""A scriptable MCP server that misbehaves on demand, for testing agents and clients. Standard library only.

    from codebuddy_mcp_tools.testing import FaultServer

    script = {
        "tools": [{"name": "pay", "inputSchema": {"type": "object"}}],
        "calls": {"pay": [[{"ledger": "paid $args"}, {"exit": 1}], [{"text": "paid"}]]},
    }
    with FaultServer(script) as server:
        provider = ToolProvider({"bank": server.stdio_config()})
        ...                                  # the first call kills the server after it has paid
        assert server.ledger() == ['paid {"amount": 5}']

The same by hand: `python -m codebuddy_mcp_tools.testing SCRIPT.json [--http] [--port N]`; the log (`log.jsonl`) and the
ledger (`ledger.txt`) are written beside the script.

**Keys of a script** (all optional): `name`, `version`, `instructions`, `protocol_version`, `capabilities`: what
`initialize` answers. `tools` (one list) or `pages` (a list of lists): the tool list. `calls`: tool name → plan. `on`:
any JSON-RPC method, or `GET`, `POST`, `DELETE` → plan, carried out before the ordinary answer and in place of it when
a step answers. `init`: short for `on.initialize`. `on_start`: a plan for the start of the process. `paths`: URL path
→ plan. `http`: `{"answer": "sse" | "json", "session": true | false, "endpoint": …}` (`endpoint`: what the older
transport announces, `""` for nothing).

**A plan** is a list of steps (the same every time), or a list of lists of steps: the n-th for the n-th time, counted
over all processes that run the script; the last one repeats.

**Steps that answer**: `{"text": "…"}`, `{"echo": true}` (the arguments as JSON text), `{"counter": true}` (calls of
this tool in this process), `{"pid": true}`, `{"client_answer": true}` (what the client answered to a `request` step):
these may stand together and become one text block each, with `is_error`, `structured`, `repeat` beside them.
`{"result": {…}}`, `{"error": {"code", "message", "data"}}`. All take `"id"` to answer to another id. `{"raw": "…"}`:
bytes as latin-1 text, `$id` stands for the request's id as JSON; over http the whole response. Two answers in one
plan are two answers. Without any, `tools/call` is answered with the text `ok`.

**Steps that delay or end**: `{"sleep": seconds}`, `{"wait_file": name}` (see `FaultServer.gate`), `{"hang": true}`
(never answer this one; at start: never read), `{"stop_reading": true}`, `{"exit": code}`, `{"kill": "SIGKILL"}`,
`{"close_stdin": true}`, `{"close_stdout": true}`, `{"ignore_eof": true}`, `{"ignore_sigterm": true}` (at start).

**Steps beside the answer**: `{"notify": {"method", "params"}}`, `{"progress": [done, total, message]}` (when the
client sent a token), `{"request": {"method", "params"}}` (waits for the client's answer up to `timeout` seconds
unless `"wait": false`), `{"stderr": "…"}`, `{"ledger": "line"}` (`$args`: the arguments; written to disk before the
next step), `{"touch": name}`, `{"tools": […]}` (replaces the list in this process; announce it with `notify`),
`{"spawn": [argv]}` (`$python`: this interpreter). `notify`, `request`, `raw`, `stderr`, `ledger`, `sse` take
`"repeat": n`; `notify` and `request` take `"stream": "get"` to go to the standing stream of an http session.

**Steps for http**: `{"status": 503, "headers": {}, "body": ""}`, `{"redirect": url, "code": 307}`, `{"drop": true}`
(reset), `{"sse": "text"}` (written into the event stream as it is), `{"sse_cut": true}` (the stream breaks off),
`{"end": true}` (the stream ends in good order), `{"forget_sessions": true}` (the next request of a known session gets
a 404).
"""

from __future__ import annotations

from codebuddy_mcp_tools.testing.errors import ScriptError

__all__ = ["FaultServer", "HttpEndpoint", "ScriptError"]


def __getattr__(name: str) -> object:
    # Lazy, because the server process itself imports this package and must start fast.
    if name in ("FaultServer", "HttpEndpoint"):
        from codebuddy_mcp_tools.testing import fault_server  # noqa: PLC0415

        return getattr(fault_server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
