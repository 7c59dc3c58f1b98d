"""No secret in any text: one redactor that knows every resolved value, a log filter, and forms of showing a URL.

Policy: what leaves the process (logs, errors, status, command line, audit) passes a `Redactor` that was told every
resolved header value, environment value, URL user-info and query value. Names may be shown, values never. Values
shorter than four characters and a few everyday words are not redacted: taking every `1` and `true` out of every text
would hide nothing. Redact before cutting a text: half a secret is not recognised.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from codebuddy_mcp_tools.policy.spellings import Spellings
from codebuddy_mcp_tools.types import JSON

MASK = "***"
_SHORTEST = 4
_WORDS = (
    "true false null none auto info debug warn warning error trace prod production dev development test testing stage"
    " staging local localhost default http https stdio json text utf-8 utf8 node python npx bearer basic"
    " token 127.0.0.1"
)
_EVERYDAY = frozenset(_WORDS.split())
_SCHEME = re.compile(r"^(?:bearer|basic|token|apikey|key)\s+", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)(:-)?")
_USER_INFO = re.compile(r"(?<=://)[^\s/@'\"<>]{1,512}@")
_QUERY = re.compile(r"(?<=\?)[^\s'\"<>)\]]{1,4096}")
_URL_IN_TEXT = re.compile(r"\bhttps?://[^\s'\"<>)\]]{1,4096}")
_SESSION_ID = re.compile(r"(session[ _-]?id['\"]?\s?[:=]\s?['\"]?)([\w.-]{8,200})", re.IGNORECASE)

PROTECTED_LOGGERS = ("httpx", "httpcore", "mcp", "codebuddy_mcp_tools")
"""Every logger of these names and below them gets the filter."""
_ROOMS = {"mcp": ("client", "shared"), "codebuddy_mcp_tools": ("",)}


class Redactor:
    """Replaces every secret it was told by `***`. Safe to use from several threads."""

    def __init__(self, *values: str) -> None:
        self._lock = threading.Lock()
        self._secrets: dict[str, Spellings] = {}
        self._longest_first: tuple[Spellings, ...] = ()
        self.add(*values)

    def add(self, *values: str | None) -> None:
        """Learns secrets; from now on neither they nor their usual other spellings appear in a redacted text.

        The other spellings: without `Bearer`, percent-encoded and decoded, as in JSON, in `repr` and in HTML, also
        several times over; in base64 and hexadecimal, also as a part of something longer; each line of a value of
        several lines; the password and the query values of a value that is a URL.
        """
        wholes = {whole for value in values if value for whole in _wholes(value)}
        with self._lock:
            if new := wholes - self._secrets.keys():
                self._secrets.update({whole: Spellings(whole) for whole in new})
                # Half of a longer secret must not be left when a shorter one in it is replaced.
                longest_first = sorted(self._secrets, key=lambda whole: (-len(whole), whole))
                self._longest_first = tuple(self._secrets[whole] for whole in longest_first)

    def redact(self, text: str) -> str:
        """The text without any secret."""
        for secret in self._longest_first:
            text = secret.hide(text, MASK)
        return text

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)} secrets>"


def redact_json(value: JSON, redact: Callable[[str], str], depth: int = 32) -> JSON:
    """A JSON value with every text in it redacted, names included; what is nested deeper than `depth` is left out."""
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {redact(str(key)): redact_json(item, redact, depth - 1) for key, item in value.items()}
    return [redact_json(item, redact, depth - 1) for item in value]


class SecretFilter(logging.Filter):
    """Takes secrets, URL user-info, URL queries and session ids out of log records, tracebacks included.

    One filter serves many redactors and holds none of them alive.
    """

    def __init__(self, *redactors: Redactor) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._watched: tuple[weakref.ref[Redactor], ...] = ()
        for redactor in redactors:
            self.watch(redactor)

    def watch(self, redactor: Redactor) -> None:
        """Uses this redactor too, for as long as somebody else keeps it."""
        with self._lock:
            alive = [known for known in self._watched if known() not in (None, redactor)]
            self._watched = (*alive, weakref.ref(redactor))

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the record in place; never drops one."""
        message = _message(record)
        safe = self._safe(message)
        if safe != message or not isinstance(record.msg, str):
            record.msg, record.args = safe, ()
        if record.exc_info and record.exc_info[0] is not None:
            # The exception itself must not travel on: handlers format it again, and trackers read its attributes.
            record.exc_text = self._safe("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self._safe(record.stack_info)
        return True

    def _safe(self, text: str) -> str:
        for reference in self._watched:
            redactor = reference()
            if redactor is not None:
                text = redactor.redact(text)
        return hide_url_secrets(_SESSION_ID.sub(rf"\g<1>{MASK}", text))


_FILTER = SecretFilter()


def watch_logs(redactor: Redactor) -> None:
    """Makes the loggers of httpx, httpcore, mcp and this package use the redactor, for as long as it lives.

    A logger's filter does not see records of its children, so every logger below the protected names gets it too:
    those that exist, and those that a module of mcp or of this package will make when it is imported. Calling it
    twice changes nothing.
    """
    _FILTER.watch(redactor)
    existing = [name for name in logging.getLogger().manager.loggerDict if name.partition(".")[0] in PROTECTED_LOGGERS]
    for name in {*PROTECTED_LOGGERS, *_future_loggers(), *existing}:
        logging.getLogger(name).addFilter(_FILTER)


@cache
def _future_loggers() -> frozenset[str]:
    """The names of the modules whose loggers matter, found without importing them."""
    names = set()
    for package, rooms in _ROOMS.items():
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            files = (file for room in rooms for file in Path(folder, room).rglob("*.py"))
            names |= {".".join((package, *file.relative_to(folder).with_suffix("").parts)) for file in files}
    # httpcore names its loggers without the folder and the underscore of their modules.
    bare = {f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")}
    return frozenset(name.removesuffix(".__init__") for name in names | bare)


def hide_url_secrets(text: str) -> str:
    """The text with the user-info and the query of every URL in it replaced by `***`."""
    if "://" not in text:
        return text
    return _URL_IN_TEXT.sub(lambda match: _QUERY.sub(MASK, _USER_INFO.sub(f"{MASK}@", match[0])), text)


def display_url(url: str) -> str:
    """`scheme://host:port/path`: a URL as it may be shown anywhere."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(unreadable URL)"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme and host else "(unreadable URL)"


def display_raw_url(url: str) -> str:
    """An unexpanded URL for the person who approves it: complete but for the literal values of user-info and query.

    Names of query parameters and `${VARIABLES}` are kept: `https://h/mcp?key=${TOKEN}&v=***`.
    """
    base, question, query = url.partition("?")
    scheme, separator, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    shown = f"{scheme}{separator}{mask(user) if at else ''}{at}{host}{slash}{path}"
    return shown + question + "&".join(_masked_parameter(part) for part in query.split("&")) if question else shown


def mask(value: str) -> str:
    """`***` for a literal; `${NAME}` references stay visible, their defaults do not."""
    if not value:
        return ""
    shown, position = "", 0
    for match in _PLACEHOLDER.finditer(value):
        if match.start() < position:
            continue
        end = _closing_brace(value, match.end())
        if end is None:
            continue
        literal = value[position : match.start()]
        shown += (MASK if literal.strip() else literal) + (f"${{{match[1]}:-{MASK}}}" if match[2] else match[0] + "}")
        position = end
    rest = value[position:]
    return shown + (MASK if rest.strip() or not shown else rest)


def _masked_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    return f"{name}={mask(value)}" if equals else mask(name)


def _closing_brace(value: str, start: int) -> int | None:
    depth = 1
    for index in range(start, len(value)):
        if value.startswith("${", index):
            depth += 1
        elif value[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _wholes(value: str) -> set[str]:
    """The secrets in a value: itself, without its scheme, its lines, what a URL holds, all also percent-decoded."""
    value = value.strip()
    wholes = {value, _SCHEME.sub("", value), *(line.strip() for line in value.splitlines() if len(line.strip()) >= 12)}
    if "://" in value:
        wholes |= _url_secrets(value)
    wholes |= {unquote(whole) for whole in wholes}
    return {whole for whole in wholes if len(whole) >= _SHORTEST and whole.lower() not in _EVERYDAY}


def _url_secrets(value: str) -> set[str]:
    try:
        parts = urlsplit(value)
        return {parts.password or "", *(item for _, item in parse_qsl(parts.query))}
    except ValueError:
        return set()


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # the caller's format does not fit: logging itself will say so
        return str(record.msg)
