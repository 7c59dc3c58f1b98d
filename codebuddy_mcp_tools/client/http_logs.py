"""What httpcore tells at level DEBUG holds the headers of every answer: session ids, cookies, targets of redirects.

Servers issue them, so no redactor can know them beforehand; this filter masks them by the header's name.
"""

from __future__ import annotations

import logging
import re

from codebuddy_mcp_tools.policy.secrets import MASK, Redactor, watch_logs

_LOGGERS = ("httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy")
_PAIR = re.compile(
    r"\(b'([\w-]*(?:session|cookie|auth|token|key|secret|location|link)[\w-]*)', "
    r"b(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)",
    re.IGNORECASE,
)


class HeaderFilter(logging.Filter):
    """Masks the values of telling headers in records of httpcore."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG and isinstance(record.msg, str):
            message = record.getMessage()
            if (masked := _PAIR.sub(rf"(b'\1', {MASK})", message)) != message:
                record.msg, record.args = masked, ()
        return True


_FILTER = HeaderFilter()


def watch_http_logs(redactor: Redactor) -> None:
    """Makes the loggers of the HTTP libraries keep secrets: those of `redactor`, and those that servers issue."""
    watch_logs(redactor)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
