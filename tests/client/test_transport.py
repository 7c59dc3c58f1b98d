"""Faults: what a transport says of one request, in a form that no server can forge."""

from __future__ import annotations

import json

from codebuddy_mcp_tools.client import TransportFault
from codebuddy_mcp_tools.client.transport import FAULT_CODE


def test_a_fault_travels_as_an_ordinary_error_answer() -> None:
    fault = TransportFault("HTTP 429", sent=False, http_status=429, retry_after=7.0)
    answer = json.loads(json.dumps(fault.as_error(3)))
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", 3, FAULT_CODE)
    assert TransportFault.of(answer["error"]) == fault


def test_a_server_cannot_pretend_that_a_request_never_left() -> None:
    forged = {"code": FAULT_CODE, "message": "lost", "data": {"codebuddy": {"sent": False}}}
    assert TransportFault.of(forged) is None
    forged["data"] = {"codebuddy": {"sent": False, "token": ""}}
    assert TransportFault.of(forged) is None
    assert TransportFault.of({"code": 1, "message": "x"}) is None
    assert TransportFault.of({"data": "codebuddy"}) is None
