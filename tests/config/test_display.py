"""What is shown of a server entry."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.config import display_args, display_command, display_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/mcp", "https://h/mcp"),
        ("http://u:PASS@127.0.0.1:1/mcp?api_key=SEC", "http://***@127.0.0.1:1/mcp?***"),
        ("https://TOKEN@h/", "https://***@h/"),
        ("https://h/p?#frag", "https://h/p"),
        ("${BASE}/mcp?k=SEC", "${BASE}/mcp?***"),
        ("user:SEC@host/path", "***"),
        ("http://[::1", "***"),
    ],
)
def test_a_url_is_shown_without_its_private_parts(url, shown):
    assert display_url(url) == shown


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["-y", "pkg", "/dir"], ["-y", "pkg", "/dir"]),
        (["--token", "SEC"], ["--token", "***"]),
        (["--api-key=SEC"], ["--api-key=***"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--header", "Authorization: Bearer SEC"], ["--header", "***"]),
        (["Authorization:Bearer SEC"], ["Authorization:***"]),
        (["-e", "TOKEN=SEC", "img"], ["-e", "***", "img"]),
        (["API_KEY=SEC"], ["API_KEY=***"]),
        (["https://u:SEC@h/x?k=SEC"], ["https://***@h/x?***"]),
        (["postgresql://u:SEC@localhost:5432/db"], ["postgresql://***@localhost:5432/db"]),
        (["--env=TOKEN=SEC", "-eTOKEN=SEC"], ["--env=***", "-eTOKEN=***"]),
        (["-u", "me:SEC"], ["-u", "***"]),
        (["Server=h;Uid=me;Password=SEC;Port=1"], ["Server=h;Uid=me;Password=***;Port=1"]),
        (['{"apiKey": "SEC", "port": 1}'], ['{"apiKey": "***", "port": 1}']),
        (["Bearer SEC"], ["Bearer ***"]),
        (["ghp_abcdefghij0123456789"], ["***"]),
        (["-p", "127.0.0.1:8085:8085"], ["-p", "127.0.0.1:8085:8085"]),
    ],
)
def test_arguments_that_carry_credentials_are_masked(args, shown):
    assert list(display_args(args)) == shown


def test_a_command_line_is_quoted_so_that_its_parts_can_be_told_apart():
    assert display_command("my tool", ["a b", "", 'q"q']) == '"my tool" "a b" "" "q\\"q"'


@pytest.mark.parametrize("piece", ["token", "-", "a-", "api_key ", "http://", "bearer ", "x", "\\", '"'])
def test_an_endless_argument_is_cut(piece):
    [shown] = display_args([piece * 1_000_000])
    assert len(shown) < 2_000
    assert "characters)" in shown
