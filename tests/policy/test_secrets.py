"""Secrets: nothing that was told to a redactor leaves through a log, a text or a URL."""

from __future__ import annotations

import base64
import gc
import html
import io
import json
import logging
import re
import weakref
from urllib.parse import quote, quote_plus

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.policy.secrets import (
    MASK,
    PROTECTED_LOGGERS,
    Redactor,
    SecretFilter,
    display_raw_url,
    display_url,
    hide_url_secrets,
    mask,
    watch_logs,
)


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("ENVSEC", "MY_TOKEN=ENVSEC failed"),
        ("PASS", "http://u:PASS@h/"),
        ("Bearer HDRSEC", "Authorization: Bearer HDRSEC"),
        ("Bearer HDRSEC", "token HDRSEC was refused"),
        ("Basic dTpwQHNz", "dTpwQHNz"),
        ("user:p@ssword", "Authorization: Basic dXNlcjpwQHNzd29yZA=="),
        ("a b/c+d&e", f"?k={quote('a b/c+d&e', safe='')}"),
        ("a b/c+d&e", f"?k={quote_plus('a b/c+d&e')}"),
        ("a%20b%2Fc", "a b/c"),
        ('qu"ote\\slash', json.dumps({"v": 'qu"ote\\slash'})),
        ("ünïcode-secret", json.dumps("ünïcode-secret")),
        ("line\nbreak\ttab", repr("line\nbreak\ttab")),
        (
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEF\n-----END KEY-----",
            "first line MIIEvQIBADANBgkq leaked",
        ),
        ("postgresql://app:DBPASS@db:5432/x?sslkey=SSLSEC", "password DBPASS, key SSLSEC"),
        ("  padded-secret  ", "padded-secret"),
    ],
)
def test_a_secret_is_found_in_all_its_usual_spellings(secret: str, text: str) -> None:
    redacted = Redactor(secret).redact(text)
    assert MASK in redacted
    for part in secret.split():
        if len(part) > 3 and part not in {"Bearer", "Basic"}:
            assert part not in redacted


_ENCODERS = {
    "as it is": str,
    "percent": lambda text: quote(text, safe=""),
    "percent, lower case": lambda text: re.sub("%..", lambda match: match[0].lower(), quote(text, safe="")),
    "form": quote_plus,
    "httpx": lambda text: str(httpx.URL("http://h/", params={"k": text}).query, "ascii")[2:],
    "JSON": json.dumps,
    "JSON, no ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "repr": repr,
    "bytes": lambda text: repr(text.encode()),
    "HTML": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "Basic": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "inside of base64": lambda text: base64.b64encode(f"k={text};x".encode()).decode(),
}


@pytest.mark.case("B60")
@pytest.mark.parametrize("encoder", _ENCODERS)
@pytest.mark.parametrize(
    "secret",
    [
        "HDRSEC-plain-0123",
        "p@ss w/rd+&=?#%<>'\"",
        "ünï/cøde日本-秘密",
        "back\\slash\nline\ttab",
        "a%20b%2Fc%25d",
        "sk-Zz9__--**~~",
    ],
)
def test_a_secret_is_masked_in_every_encoding_and_in_two_of_them_at_once(secret: str, encoder: str) -> None:
    redactor = Redactor(secret)
    once = _ENCODERS[encoder](secret)
    twice = [json.dumps({"k": once}), repr([once]), *([] if encoder == "HTML" else [quote(once, safe="")])]
    for text in (f"x{once}y", f"({once})", *twice):
        found = redactor.redact(text)
        assert MASK in found, text
        assert secret not in found
        assert len(found) <= len(text.replace(once, "")) + 60 or encoder == "as it is"


@given(st.text(min_size=6, max_size=12), st.sampled_from(sorted(_ENCODERS)))
def test_any_secret_is_masked_in_any_encoding(secret: str, encoder: str) -> None:
    secret = secret.encode("utf-8", "ignore").decode().strip()
    if len(secret) >= 6:
        assert MASK in Redactor(secret).redact(f"\x00{_ENCODERS[encoder](secret)}\x00")


@pytest.mark.parametrize("unit", ["\\", '\\"', "%", "%25", "a", "&#", "\\u00", "YWFh", " "])
def test_a_megabyte_of_near_misses_takes_linear_time(unit: str) -> None:
    # Worse than linear work on a megabyte takes minutes: the timeout of the test run is the assertion.
    secrets = ['a\\\\\\"\\"\\"b', "aaaaaaaaaaaaaaaab", '\\"\\"\\"\\"\\"x', "      x      y"]
    Redactor(*secrets).redact(unit * (1_000_000 // len(unit)))


def test_longer_secrets_are_replaced_before_the_shorter_ones_inside_them() -> None:
    assert Redactor("token", "abcd", "abcdefgh").redact("abcdefgh abcd") == f"{MASK} {MASK}"


def test_everyday_words_and_short_values_are_left_in_the_text() -> None:
    redactor = Redactor("1", "true", "info", "abc", "production", "localhost", "", "Bearer")
    assert (
        redactor.redact("true 1 info abc production localhost Bearer") == "true 1 info abc production localhost Bearer"
    )


def test_an_empty_redactor_changes_nothing_and_shows_nothing_of_a_full_one() -> None:
    assert Redactor().redact("text") == "text"
    assert "hunter2" not in repr(Redactor("hunter2-secret"))
    Redactor("\ud800lone-surrogate")


@given(st.lists(st.text(alphabet='aXé/+ %"\\\n', min_size=6, max_size=20), max_size=5), st.text(max_size=50))
def test_no_secret_survives(secrets: list[str], around: str) -> None:
    redactor = Redactor(*secrets)
    for secret in secrets:
        value = secret.strip()
        if len(value) >= 4:
            assert value not in redactor.redact(f"\x00{value}\x00{around}").split("\x00")[1]


@pytest.fixture
def captured() -> io.StringIO:
    """Everything the root logger writes, at DEBUG."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.case("B60")
@pytest.mark.parametrize(
    "name", [*PROTECTED_LOGGERS, "mcp.client.streamable_http", "httpcore.http11", "codebuddy_mcp_tools.client.http"]
)
def test_protected_loggers_and_their_children_write_no_secret(name: str, captured: io.StringIO) -> None:
    logging.getLogger(name)
    redactor = Redactor("ENVSEC1", "Bearer HDRSEC1")
    watch_logs(redactor)
    watch_logs(redactor)
    logger = logging.getLogger(name)
    logger.info("HTTP Request: GET %s", httpx.URL("http://u:PASSWD@h/mcp?api_key=URLSEC"))
    logger.debug("env %r", {"A": "ENVSEC1"})
    logger.warning("Received session ID: 0123456789abcdef")
    logger.info({"token": "HDRSEC1"})
    try:
        try:
            _fail("cause with ENVSEC1")
        except ValueError as cause:
            raise RuntimeError("failed with HDRSEC1 at http://u:PASSWD@h/?k=URLSEC") from cause
    except RuntimeError:
        logger.exception("it failed", stack_info=True)
    text = captured.getvalue()
    assert "HTTP Request: GET http://***@h/mcp?***" in text
    assert "RuntimeError" in text
    assert "ValueError" in text
    for secret in ("ENVSEC1", "HDRSEC1", "PASSWD", "URLSEC", "0123456789abcdef"):
        assert secret not in text


class _Collector(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


def _fail(message: str) -> None:
    raise ValueError(message)


def test_the_exception_itself_does_not_travel_with_the_record() -> None:
    redactor = Redactor("ENVSEC2")
    records: list[logging.LogRecord] = []
    logger = logging.getLogger("elsewhere.standalone")
    handler = _Collector(records)
    handler.addFilter(SecretFilter(redactor))
    logger.addHandler(handler)
    try:
        _fail("ENVSEC2")
    except ValueError:
        logger.exception("oops %s", "ENVSEC2")
    assert records[0].exc_info is None
    assert "ENVSEC2" not in str(vars(records[0]))


def test_modules_that_are_imported_later_are_covered_too() -> None:
    watch_logs(Redactor("ENVSEC6"))
    for name in ("mcp.client.auth.oauth2", "mcp.client.sse", "mcp.shared.session", "codebuddy_mcp_tools.cli.doctor"):
        assert any(isinstance(item, SecretFilter) for item in logging.getLogger(name).filters), name


def test_messages_without_secrets_keep_their_template_and_arguments() -> None:
    record = logging.LogRecord("httpx", logging.INFO, __file__, 1, "hello %s", ("world",), None)
    assert SecretFilter(Redactor("ENVSEC3")).filter(record)
    assert (record.msg, record.args) == ("hello %s", ("world",))


def test_a_format_that_does_not_fit_is_not_our_error() -> None:
    record = logging.LogRecord("httpx", logging.INFO, __file__, 1, "%d ENVSEC4", ("x",), None)
    assert SecretFilter(Redactor("ENVSEC4")).filter(record)
    assert "ENVSEC4" not in record.getMessage()


def test_the_filter_keeps_no_redactor_alive() -> None:
    redactor = Redactor("ENVSEC5")
    watch_logs(redactor)
    gone = weakref.ref(redactor)
    del redactor
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:PASS@127.0.0.1:1/mcp?api_key=URLSEC#f", "http://127.0.0.1:1/mcp"),
        ("https://h", "https://h"),
        ("https://${HOST}/mcp?k=${K}", "https://${HOST}/mcp"),
        ("https://[::1]:8/x", "https://[::1]:8/x"),
        ("https://a@b@h/x", "https://h/x"),
        ("http://[::1", "(unreadable URL)"),
        ("no url SECRET", "(unreadable URL)"),
        ("", "(unreadable URL)"),
    ],
)
def test_a_url_is_shown_as_scheme_host_and_path(url: str, shown: str) -> None:
    assert display_url(url) == shown


def test_urls_inside_a_text_lose_user_info_and_query() -> None:
    text = "Client error '401' for url 'http://u:PW@h/mcp?api_key=Q&x=y' (see https://docs.example/401)"
    assert hide_url_secrets(text) == "Client error '401' for url 'http://***@h/mcp?***' (see https://docs.example/401)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", ""),
        ("literal", "***"),
        ("${TOKEN}", "${TOKEN}"),
        ("Bearer ${TOKEN}", "***${TOKEN}"),
        ("${A} ${B}", "${A} ${B}"),
        ("${A:-secret}", "${A:-***}"),
        ("${A:-${B:-secret}}x", "${A:-***}***"),
        ("${lower}", "***"),
        ("${A:-open", "***"),
        ("pre${A}post", "***${A}***"),
    ],
)
def test_masking_keeps_references_and_hides_literals(value: str, shown: str) -> None:
    assert mask(value) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://evil/?k=${AWS_SECRET_ACCESS_KEY}&v=1", "https://evil/?k=${AWS_SECRET_ACCESS_KEY}&v=***"),
        ("http://u:PASS@h:1/mcp?flag", "http://***@h:1/mcp?***"),
        ("${BASE:-https://api.example}/mcp", "${BASE:-https://api.example}/mcp"),
        ("https://h/mcp", "https://h/mcp"),
    ],
)
def test_an_unexpanded_url_is_shown_complete_but_for_literal_values(url: str, shown: str) -> None:
    assert display_raw_url(url) == shown
