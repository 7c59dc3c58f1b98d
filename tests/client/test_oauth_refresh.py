"""A stored login in use: signed requests, refreshes, and what happens when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.login import login
from codebuddy_mcp_tools.client.token_store import TokenStore
from codebuddy_mcp_tools.client.transport import ConnectionSpec
from codebuddy_mcp_tools.config.models import HttpServer
from codebuddy_mcp_tools.errors import ProtocolError, ServerError
from tests.client.authorization import Authority, serving
from tests.client.site import Reply, Seen, Site, answer
from tests.client.test_oauth_login import LOCAL, Person, spec


@asynccontextmanager
async def connected(authority: Authority, folder: Path | None) -> AsyncIterator[tuple[MCPClient, Site]]:
    """A client of a server that somebody has logged in to."""
    async with serving(authority) as site:
        assert folder is not None
        await login(spec(site, folder), Person().prompt)
        client = MCPClient(spec(site, folder))
        try:
            await client.connect()
            yield client, site
        finally:
            await client.aclose()


def refreshes(authority: Authority) -> list[dict[str, str]]:
    return [form for form in authority.said["token"] if form["grant_type"] == "refresh_token"]


@pytest.mark.parametrize("rotates", [True, False])
async def test_a_token_that_is_refused_is_refreshed_and_the_call_succeeds(rotates: bool, tmp_path: Path) -> None:
    async with connected(authority := Authority(rotates=rotates), tmp_path) as (client, _):
        for round_ in range(3):
            authority.forget_tokens()
            await client.call_tool("x", {})
            assert len(refreshes(authority)) == round_ + 1
        assert len(authority.said["authorize"]) == 1


async def test_a_token_that_has_ended_is_refreshed_before_it_is_used(tmp_path: Path) -> None:
    async with serving(authority := Authority(expires_in=1)) as site:
        await login(spec(site, tmp_path), Person().prompt)
        _, record = TokenStore(tmp_path, "guarded", site.url).read()
        TokenStore(tmp_path, "guarded", site.url).change(f"{authority.origin}/", lambda r: r.update(expires_at=1.0))
        assert record["expires_at"] > 1.0
        authority.expires_in = 3600
        before = len(site.requests)
        client = MCPClient(spec(site, tmp_path))
        await client.connect()
        await client.aclose()
        # No discovery: the store knows the token endpoint.
        assert [seen.target for seen in site.requests[before:]][:2] == ["/token", "/mcp"]
    assert refreshes(authority)[0]["resource"] == site.url


async def test_parallel_calls_refresh_once(tmp_path: Path) -> None:
    async with connected(authority := Authority(), tmp_path) as (client, _):
        authority.forget_tokens()
        await asyncio.gather(*(client.call_tool("x", {}) for _ in range(10)))
        assert len(refreshes(authority)) == 1


async def test_two_clients_of_one_login_do_not_spend_the_refresh_token_twice(tmp_path: Path) -> None:
    async with connected(authority := Authority(), tmp_path) as (client, site):
        other = MCPClient(spec(site, tmp_path))
        await other.connect()
        authority.forget_tokens()
        await asyncio.gather(client.call_tool("x", {}), other.call_tool("x", {}))
        await client.call_tool("x", {})
        await other.call_tool("x", {})
        await other.aclose()
        assert len(refreshes(authority)) == 1


async def test_when_the_refresh_is_refused_the_error_says_how_to_log_in_again(tmp_path: Path) -> None:
    async with connected(authority := Authority(), tmp_path) as (client, _):
        authority.forget_tokens()
        authority.refresh_tokens.clear()
        for _ in range(2):
            with pytest.raises(ProtocolError) as caught:
                await client.call_tool("x", {})
            assert "`codebuddy-mcp login guarded`" in str(caught.value)
            assert not caught.value.ran
        assert len(refreshes(authority)) == 1
        assert len(authority.said["authorize"]) == 1


async def test_a_login_made_elsewhere_meanwhile_is_taken_up(tmp_path: Path) -> None:
    async with connected(authority := Authority(), tmp_path) as (client, site):
        authority.forget_tokens()
        authority.refresh_tokens.clear()
        with pytest.raises(ServerError):
            await client.call_tool("x", {})
        await login(spec(site, tmp_path), Person().prompt)
        await client.call_tool("x", {})


async def test_calls_of_one_server_do_not_wait_for_each_other(tmp_path: Path) -> None:
    arrived, release = asyncio.Semaphore(0), asyncio.Event()
    authority = Authority()

    async def slow(seen: Seen, reply: Reply) -> None:
        if seen.method == "POST" and seen.target == "/mcp" and seen.rpc == "tools/call":
            arrived.release()
            await release.wait()
            await reply.json(answer(seen, {"content": []}))
        else:
            await authority(seen, reply)

    async with Site(slow) as site:
        authority.port = site.port
        await login(spec(site, tmp_path), Person().prompt)
        client = MCPClient(spec(site, tmp_path))
        calls = [asyncio.create_task(client.call_tool("x", {})) for _ in range(4)]
        async with asyncio.timeout(10):
            for _ in calls:
                await arrived.acquire()
        release.set()
        await asyncio.gather(*calls)
        await client.aclose()


async def test_a_configured_authorization_header_is_sent_in_place_of_a_login(tmp_path: Path) -> None:
    async with serving(authority := Authority()) as site:
        await login(spec(site, tmp_path), Person().prompt)
        config = HttpServer(url=site.url, headers={"authorization": "Bearer own"})
        client = MCPClient(
            ConnectionSpec("guarded", config, outbound=LOCAL, tokens_dir=tmp_path, reconnect_delays=(0.0,))
        )
        with pytest.raises(ServerError) as caught:
            await client.connect()
        await client.aclose()
        assert site.requests[-1].headers["authorization"] == "Bearer own"
    assert "does not accept the configured Authorization" in str(caught.value)
    assert refreshes(authority) == []


async def test_a_damaged_login_file_is_no_login(tmp_path: Path) -> None:
    async with serving(Authority()) as site:
        store = TokenStore(tmp_path, "guarded", site.url)
        store.change("issuer", lambda record: record.update(tokens={"access_token": 1}))
        for content in (b"{", b"[]", b'{"current": 1}', b'{"current": "x", "issuers": []}', None):
            if content is not None and store.path is not None:
                store.path.write_bytes(content)
            client = MCPClient(spec(site, tmp_path))
            with pytest.raises(ServerError) as caught:
                await client.connect()
            await client.aclose()
            assert "401" in str(caught.value)


def test_a_login_without_a_folder_lives_in_memory() -> None:
    store = TokenStore(None, "a", "http://h/")
    assert store.read() == ("", {})
    store.change("issuer", lambda record: record.update(tokens={}))
    assert store.read() == ("issuer", {"tokens": {}})
    assert store.remove()
    assert not store.remove()


def test_the_tokens_of_one_issuer_are_not_offered_to_another(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, "a", "https://h/mcp")
    store.change("https://one.test", lambda record: record.update(tokens={"access_token": "ONE"}))
    store.change("https://two.test", lambda record: record.update(client={"client_id": "c"}))
    assert store.read() == ("https://two.test", {"client": {"client_id": "c"}})
    store.change("https://one.test", lambda record: None)
    assert store.read() == ("https://one.test", {"tokens": {"access_token": "ONE"}})
    assert TokenStore(tmp_path, "a", "https://other/mcp").read() == ("", {})
    assert store.path is not None
    assert store.path.stat().st_mode & 0o777 == 0o600
