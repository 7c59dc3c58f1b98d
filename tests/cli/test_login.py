"""Logging in to remote servers from the command line; the login itself is the client's matter."""

from __future__ import annotations

import pytest

from codebuddy_mcp_tools.testing import FaultServer


def test_a_local_program_has_no_login(cli):
    cli.run("add", "-s", "user", "a", "--", "x")
    cli.run("login", "a", code=2)
    cli.run("logout", "a", code=2)


@pytest.mark.case("B65")
def test_nothing_is_sent_to_a_server_that_has_not_been_approved(cli):
    with FaultServer({"tools": []}) as server, server.http() as url:
        cli.run("add", "-s", "project", "a", url)
        assert "approve" in cli.run("login", "a", code=3).stderr
        assert [entry["event"] for entry in server.log()] == ["start"]  # it runs, and has heard nothing


def test_a_server_that_asks_for_none_is_told_and_there_is_nothing_to_log_out_of(cli):
    with FaultServer({"tools": []}) as server, server.http() as url:
        cli.run("add", "-s", "user", "a", url)
        assert "asks for no login" in cli.run("login", "a", "--headless").stdout
        assert "no login" in cli.run("logout", "a").stdout


def test_an_unknown_server_is_an_error(cli):
    cli.run("login", "nobody", code=1)
