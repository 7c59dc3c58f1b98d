"""Hosts that the user lists: what they open, and what they do not."""

from __future__ import annotations

import ipaddress

import pytest

from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import OutboundRules, validate_outbound_url_async
from tests.policy.test_outbound import answering, never


@pytest.mark.parametrize(
    ("entry", "url", "answers"),
    [
        ("intranet.example", "http://intranet.example/", ["10.1.2.3"]),
        ("Intranet.Example.", "http://intranet.example./", ["10.1.2.3"]),
        ("*.corp.example", "http://a.b.corp.example/", ["192.168.1.1"]),
        ("10.1.0.0/16", "http://anything.example/", ["10.1.2.3"]),
        ("10.1.2.3", "http://10.1.2.3/", []),
        ("10.1.2.3:8080", "http://10.1.2.3:8080/", []),
        ("fd12:3456::/32", "http://[fd12:3456::9]/", []),
        ("[fd12:3456::9]:8080", "http://[fd12:3456::9]:8080/", []),
        ("localhost", "http://localhost:3001/", ["127.0.0.1"]),
        ("localhost:3001", "http://localhost:3001/", ["127.0.0.1", "::1"]),
        ("127.0.0.1", "http://127.0.0.1:3001/", []),
    ],
)
async def test_hosts_the_user_lists_may_be_private(entry: str, url: str, answers: list[str]) -> None:
    assert await validate_outbound_url_async(
        url, allowed_hosts=[entry], resolver=answering(*answers) if answers else never
    )


@pytest.mark.parametrize(
    ("entry", "url", "answers"),
    [
        ("corp.example", "http://a.corp.example/", ["10.0.0.1"]),
        ("*.corp.example", "http://corp.example/", ["10.0.0.1"]),
        ("*.corp.example", "http://evilcorp.example/", ["10.0.0.1"]),
        ("*", "http://x.example/", ["10.0.0.1"]),
        ("*.", "http://x.example/", ["10.0.0.1"]),
        ("", "http://x.example/", ["10.0.0.1"]),
        ("10.1.2.3:8080", "http://10.1.2.3:9090/", []),
        ("10.1.0.0/16", "http://x.example/", ["10.2.0.1"]),
        ("localhost:3001", "http://localhost:3002/", ["127.0.0.1"]),
    ],
)
async def test_a_listed_host_opens_nothing_else(entry: str, url: str, answers: list[str]) -> None:
    with pytest.raises(BlockedURLError):
        await validate_outbound_url_async(url, allowed_hosts=[entry], resolver=answering(*answers))


def test_an_address_alone_can_be_judged() -> None:
    rules = OutboundRules(allowed_hosts=("10.1.0.0/16", "intranet.example"))
    rules.check_address("10.1.2.3")
    rules.check_address("10.9.9.9", host="intranet.example")
    rules.check_address(ipaddress.ip_address("8.8.8.8"))
    for address in ("10.9.9.9", "169.254.169.254", "fe80::1%eth0", "x"):
        with pytest.raises(BlockedURLError):
            rules.check_address(address)
