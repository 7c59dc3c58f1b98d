"""How one JSON-RPC request can fail, before it is told to anybody: `asking.py` turns these into errors of ours."""

from __future__ import annotations

from codebuddy_mcp_tools.client.transport import TransportFault
from codebuddy_mcp_tools.types import JSON


class AnswerError(Exception):
    """The server answered with a JSON-RPC error: `error` is that object, as far as it is one."""

    def __init__(self, error: JSON) -> None:
        super().__init__("the server answered with an error")
        self.error = error


class AnswerGarbledError(Exception):
    """An answer came and cannot be read; the request has run."""


class RequestLostError(Exception):
    """The channel ended, or did not take the request. `fault.sent` says whether it may have run."""

    def __init__(self, fault: TransportFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class RequestExpiredError(Exception):
    """The deadline passed. `stray` counts answers that came meanwhile and fit no request."""

    def __init__(self, stray: int) -> None:
        super().__init__("no answer in time")
        self.stray = stray


class RequestUnsendableError(Exception):
    """The request cannot be written as JSON, for the reason `cause`; nothing was sent."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause
