"""Redirects are followed within the origin, keep the method, and end."""

from __future__ import annotations

import httpx
import pytest

from codebuddy_mcp_tools.client.http import open_http
from codebuddy_mcp_tools.client.origin import same_origin
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.site import Recorder, Reply, Seen, Site, answer
from tests.client.test_http_faults import request, spec


def redirecting(code: int, location: str, then: str = "/mcp/") -> Site:
    async def handle(seen: Seen, reply: Reply) -> None:
        if seen.target == then:
            await reply.json(answer(seen))
        else:
            await reply.status(code, "moved", location=location)

    return Site(handle)


async def outcome(site: Site) -> Recorder:
    sink = Recorder()
    async with open_http(spec(site.url, headers={"Authorization": "Bearer t"}), sink, redactor=Redactor()) as channel:
        await channel.send(request(0, "initialize"))
        await sink.answer(0)
    return sink


@pytest.mark.case("B61")
@pytest.mark.parametrize("code", [307, 308])
async def test_a_trailing_slash_redirect_is_followed_with_body_and_headers(code: int) -> None:
    async with redirecting(code, "/mcp/") as site:
        sink = await outcome(site)
    assert sink.answers(0)[0]["result"] == {}
    first, second = site.requests
    assert second.target == "/mcp/"
    assert (second.method, second.body, second.headers["authorization"]) == ("POST", first.body, "Bearer t")
    assert site.connections == 1


@pytest.mark.case("B61")
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_port_is_refused_and_the_other_server_sees_nothing(code: int) -> None:
    async def never(seen: Seen, reply: Reply) -> None:
        await reply.status(500)

    async with Site(never) as other, redirecting(code, f"{other.url}?token=LOCATIONCANARY") as site:
        sink = await outcome(site)
    fault = await sink.fault(0)
    assert other.connections == 0
    assert fault.message.startswith(f"redirect (HTTP {code}) to {other.url} not followed: it leaves the origin")
    assert "CANARY" not in fault.message
    assert not fault.retryable


@pytest.mark.parametrize("code", [301, 302, 303])
async def test_a_redirect_that_would_turn_a_message_into_a_page_request_is_refused(code: int) -> None:
    async with redirecting(code, "/mcp/") as site:
        sink = await outcome(site)
    assert "would turn a message into a page request" in (await sink.fault(0)).message
    assert len(site.requests) == 1


@pytest.mark.case("B61")
async def test_a_redirect_loop_ends() -> None:
    async with redirecting(307, "/mcp", then="/nowhere") as site:
        sink = await outcome(site)
    assert "redirects in a circle" in (await sink.fault(0)).message
    assert len(site.requests) == 6


@pytest.mark.parametrize(
    "location",
    [
        "http://[",
        "file:///etc/passwd",
        "//evil.test/mcp",
        "javascript:alert(1)",
        "http://127.0.0.1./mcp",
        "http://127.0.0.1:1/mcp",
        "http://2130706433/mcp",
        "http://[::ffff:127.0.0.1]/mcp",
        "//user:pass@127.0.0.1/mcp",
        "https://127.0.0.1/mcp",
        "http://169.254.169.254/latest/meta-data",
        "http://evil.test#@127.0.0.1/",
    ],
)
async def test_a_location_that_leads_elsewhere_is_refused(location: str) -> None:
    async with redirecting(307, location) as site:
        sink = await outcome(site)
    assert "not followed" in (await sink.fault(0)).message
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "http://h:80/b", True),
        ("https://h/a", "https://H:443/b", True),
        ("http://h/a", "https://h/a", False),
        ("https://h/a", "http://h/a", False),
        ("http://h/a", "http://h:81/a", False),
        ("http://h/a", "http://h.evil/a", False),
        ("http://h/a", "http://user:pass@h/a", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert same_origin(httpx.URL(one), httpx.URL(other)) is same
