"""Logging in to a remote server: the whole flow against an authorization server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import stat
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from mcp.client.auth import OAuthFlowError

from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.login import LoginPrompt, LoginResult, authorization_url, login, logout
from codebuddy_mcp_tools.client.token_store import TokenStore
from codebuddy_mcp_tools.client.transport import ConnectionSpec
from codebuddy_mcp_tools.config.models import HttpServer, OAuthConfig, StdioServer
from codebuddy_mcp_tools.errors import BlockedURLError, ConfigError, ConnectError, ServerError
from codebuddy_mcp_tools.policy.outbound import OutboundRules
from codebuddy_mcp_tools.policy.secrets import Redactor
from tests.client.authorization import Authority, serving
from tests.client.site import Reply, Seen, Site

LOCAL = OutboundRules(allow_loopback=True)


def spec(site: Site, folder: Path, **changes: object) -> ConnectionSpec:
    oauth = changes.pop("oauth", None)
    config = HttpServer(url=site.url, oauth=oauth)
    return ConnectionSpec(
        "guarded", config, **{"outbound": LOCAL, "tokens_dir": folder, "reconnect_delays": (0.0,), **changes}
    )


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def visit(url: str) -> None:
    """A browser whose person agrees."""
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url, timeout=10) as page:
        page.read()


class Person:
    """Sees what is shown and agrees in the browser."""

    def __init__(self, **changes: object) -> None:
        self.shown: list[str] = []
        self.prompt = LoginPrompt(show=self.shown.append, **{"open_browser": visit, "patience": 10.0, **changes})


async def logged_in(site: Site, folder: Path, **changes: object) -> LoginResult:
    result = await login(spec(site, folder, **changes), Person().prompt)
    assert result is not None
    return result


async def test_a_login_registers_asks_and_keeps_tokens_that_the_next_connection_uses(tmp_path: Path) -> None:
    async with serving(authority := Authority()) as site:
        person = Person()
        result = await login(spec(site, tmp_path), person.prompt)
        assert result is not None
        assert (result.server, result.issuer, result.renewable) == ("guarded", f"{authority.origin}/", True)
        assert result.expires_at is not None
        client = MCPClient(spec(site, tmp_path))
        await client.call_tool("x", {})
        await client.aclose()
    (asked,) = authority.said["authorize"]
    assert asked["code_challenge_method"] == "S256"
    assert asked["resource"] == site.url
    assert asked["redirect_uri"].startswith("http://127.0.0.1:")
    assert authority.said["register"][0]["application_type"] == "native"
    assert len(authority.said["token"]) == 1


async def test_the_address_is_shown_in_full_before_it_is_opened(tmp_path: Path) -> None:
    order: list[str] = []

    def open_browser(url: str) -> None:
        order.append(f"opened {url}")
        visit(url)

    async with serving(Authority()) as site:
        await login(spec(site, tmp_path), LoginPrompt(show=order.append, open_browser=open_browser, patience=10.0))
    shown, opened = order
    assert opened.removeprefix("opened ") in shown
    assert f"it is on 127.0.0.1:{site.port}" in shown


async def test_tokens_are_private_to_the_user_and_to_the_url(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "oauth"
    async with serving(Authority()) as site:
        await logged_in(site, folder)
        file = only_file(folder)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        other = HttpServer(url=f"http://127.0.0.1:{site.port}/other")
        assert not logout(ConnectionSpec("guarded", other, outbound=LOCAL, tokens_dir=folder))
        content = json.loads(file.read_text())
        assert list(content["issuers"]) == [content["current"]]


async def test_a_file_that_others_can_read_does_not_count(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Authority()) as site:
        await logged_in(site, tmp_path)
        file = only_file(tmp_path)
        os.chmod(file, 0o644)
        client = MCPClient(spec(site, tmp_path))
        with pytest.raises(ConnectError) as caught:
            await client.connect()
        await client.aclose()
    assert "codebuddy-mcp login guarded" in str(caught.value)
    assert "can be read by others" in caplog.text


async def test_logout_forgets_the_login_once(tmp_path: Path) -> None:
    async with serving(Authority()) as site:
        await logged_in(site, tmp_path)
        assert logout(spec(site, tmp_path))
        assert not logout(spec(site, tmp_path))
        assert not TokenStore(tmp_path, "guarded", site.url).exists()


async def test_without_a_login_a_401_says_which_command_logs_in(tmp_path: Path) -> None:
    async with serving(Authority()) as site:
        client = MCPClient(spec(site, tmp_path))
        with pytest.raises(ConnectError) as caught:
            await client.connect()
        await client.aclose()
        assert len(site.requests) == 1
    assert "`codebuddy-mcp login guarded`" in str(caught.value)
    assert not caught.value.retryable


async def test_a_server_that_asks_for_no_login_says_so(tmp_path: Path) -> None:
    async with serving(Authority(needs_login=False)) as site:
        assert await login(spec(site, tmp_path), Person().prompt) is None


async def test_logging_in_again_replaces_the_login(tmp_path: Path) -> None:
    async with serving(authority := Authority()) as site:
        await logged_in(site, tmp_path)
        await logged_in(site, tmp_path)
        assert len(authority.said["authorize"]) == 2
        assert len(authority.tokens) == 2
        first, second = (asked["redirect_uri"] for asked in authority.said["authorize"])
        # The registration is for one redirect URI: either the port was free again, or the client was registered anew.
        assert first == second or len(authority.said["register"]) == 2


async def test_a_login_that_fails_keeps_the_old_one(tmp_path: Path) -> None:
    async with serving(authority := Authority()) as site:
        await logged_in(site, tmp_path)
        authority.redirect = {"code": "", "error": "access_denied", "error_description": "no \x1b[31mway"}
        with pytest.raises(ServerError) as caught:
            await login(spec(site, tmp_path), Person().prompt)
        client = MCPClient(spec(site, tmp_path))
        await client.connect()
        await client.aclose()
    assert "access_denied: no way" in str(caught.value)


async def test_headless_shows_the_address_and_takes_a_pasted_one(tmp_path: Path) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    pasted: list[str] = []

    def at_home(url: str) -> str:
        """The browser of another machine: it cannot reach our listener, but shows where it was sent."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_: object, **__: object) -> None:
                return None

        try:
            urllib.request.build_opener(Stay).open(url, timeout=10)
        except urllib.error.HTTPError as answer:
            return answer.headers["location"]
        raise AssertionError("no redirect")

    async def paste() -> str:
        if not pasted:
            pasted.append("http://127.0.0.1/callback?code=x&state=wrong")
            return pasted[0]
        text = shown.get_nowait() if not shown.empty() else await shown.get()
        address = next(word for word in text.split() if word.startswith("http"))
        return await asyncio.to_thread(at_home, address)

    async with serving(Authority()) as site:
        prompt = LoginPrompt(show=shown.put_nowait, open_browser=None, paste=paste, patience=10.0)
        assert await login(spec(site, tmp_path), prompt) is not None


async def test_a_login_that_nobody_finishes_ends(tmp_path: Path) -> None:
    async with serving(Authority()) as site:
        with pytest.raises(ServerError) as caught:
            await login(spec(site, tmp_path), Person(open_browser=None, patience=0.05).prompt)
    assert "nobody finished it within 0.05 s" in str(caught.value)


async def test_a_stranger_at_the_listener_changes_nothing(tmp_path: Path) -> None:
    answers: list[int] = []

    def attacked(url: str) -> None:
        asked = dict(parse_qsl(urlsplit(url).query))
        for target in ("?code=evil&state=guess", "?code=evil", "/elsewhere?code=evil&state=" + asked["state"]):
            try:
                urllib.request.urlopen(asked["redirect_uri"] + target, timeout=10).close()
            except urllib.error.HTTPError as error:
                answers.append(error.code)
                error.close()
        visit(url)

    async with serving(authority := Authority()) as site:
        assert await login(spec(site, tmp_path), Person(open_browser=attacked).prompt) is not None
    assert answers == [404, 404, 404]
    assert all(form.get("code") != "evil" for form in authority.said["token"])


@pytest.mark.parametrize(
    ("promised", "named", "good"), [(True, "", False), (False, "http://evil.test", False), (True, "own", True)]
)
async def test_a_redirect_names_the_server_that_was_asked(
    promised: bool, named: str, good: bool, tmp_path: Path
) -> None:
    authority = Authority(metadata={"authorization_response_iss_parameter_supported": promised})
    async with serving(authority) as site:
        authority.redirect = {"iss": authority.origin if named == "own" else named}
        if good:
            await logged_in(site, tmp_path)
            return
        with pytest.raises(ServerError) as caught:
            await login(spec(site, tmp_path), Person().prompt)
    assert "another authorization server" in str(caught.value)
    assert "token" not in authority.said


async def test_discovery_goes_through_the_guard(tmp_path: Path) -> None:
    opened: list[str] = []

    async def send_elsewhere(seen: Seen, reply: Reply) -> None:
        where = 'Bearer resource_metadata="http://169.254.169.254/latest/meta-data"'
        await reply.status(401, www_authenticate=where)

    async with Site(send_elsewhere) as site:
        with pytest.raises(BlockedURLError):
            await login(spec(site, tmp_path), Person(open_browser=opened.append).prompt)
    assert opened == []


async def test_a_token_endpoint_elsewhere_goes_through_the_guard(tmp_path: Path) -> None:
    authority = Authority(metadata={"token_endpoint": "http://169.254.169.254/token"})
    async with serving(authority) as site:
        with pytest.raises(BlockedURLError):
            await login(spec(site, tmp_path), Person().prompt)


@pytest.mark.parametrize(
    "endpoint",
    ["http://public.test/authorize", "http://127.0.0.1.evil.test/a", "http://user:pass@127.0.0.1/a"],
)
async def test_an_authorization_address_that_is_not_https_is_never_opened(endpoint: str, tmp_path: Path) -> None:
    opened: list[str] = []
    async with serving(Authority(metadata={"authorization_endpoint": endpoint})) as site:
        with pytest.raises(ServerError) as caught:
            await login(spec(site, tmp_path), Person(open_browser=opened.append).prompt)
    assert opened == []
    assert "login failed" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://example.com/a",
        "--flag",
        "https://",
        "https://u:p@h/",
        "data:,x",
        "ftp://h/",
        "https://h/" + "x" * 9000,
    ],
)
def test_only_https_addresses_reach_a_browser(url: str) -> None:
    with pytest.raises(OAuthFlowError):
        authorization_url(url)


def test_scopes_that_the_user_names_replace_those_of_the_server() -> None:
    assert authorization_url("https://h/a?scope=all+of+it&state=s", "read") == "https://h/a?scope=read&state=s"


async def test_a_client_registered_by_hand_is_used_as_it_is(tmp_path: Path) -> None:
    oauth = OAuthConfig(client_id="mine", client_secret="SECRETCANARY", scope="read")
    metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with serving(authority := Authority(metadata=metadata)) as site:
        await logged_in(site, tmp_path, oauth=oauth)
    assert "register" not in authority.said
    assert authority.said["authorize"][0]["client_id"] == "mine"
    assert authority.said["authorize"][0]["scope"] == "read"
    assert authority.said["token"][0]["client_secret"] == "SECRETCANARY"


async def test_a_redirect_uri_that_was_registered_by_hand_is_listened_on(tmp_path: Path) -> None:
    async with Site(Authority()) as free:
        port = free.port
    oauth = OAuthConfig(client_id="mine", redirect_uri=f"http://localhost:{port}/oauth/done")
    async with serving(authority := Authority()) as site:
        await logged_in(site, tmp_path, oauth=oauth)
    assert authority.said["authorize"][0]["redirect_uri"] == f"http://localhost:{port}/oauth/done"


@pytest.mark.parametrize("uri", ["https://example.com/cb", "http://example.com/cb", "http://0.0.0.0:1/x"])
async def test_a_redirect_uri_on_another_machine_is_an_error_of_the_configuration(uri: str, tmp_path: Path) -> None:
    async with serving(Authority()) as site:
        with pytest.raises(ConfigError):
            await login(spec(site, tmp_path, oauth=OAuthConfig(redirect_uri=uri)), Person().prompt)


async def test_a_local_server_has_nothing_to_log_in_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        await login(ConnectionSpec("here", StdioServer(command="x"), tokens_dir=tmp_path), Person().prompt)


async def test_registration_that_fails_is_one_line(tmp_path: Path) -> None:
    async with serving(Authority(metadata={"registration_endpoint": "http://127.0.0.1:1/register"})) as site:
        with pytest.raises(ServerError) as caught:
            await login(spec(site, tmp_path), Person().prompt)
    assert "\n" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


async def test_no_text_shows_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    redactor = Redactor()
    with caplog.at_level(logging.DEBUG):
        async with serving(authority := Authority()) as site:
            result = await login(spec(site, tmp_path), Person().prompt, redactor=redactor)
            client = MCPClient(spec(site, tmp_path), redactor=redactor)
            await client.connect()
            authority.forget_tokens()
            authority.refresh_tokens.clear()
            with pytest.raises(ServerError) as caught:
                await client.call_tool("x", {})
            await client.aclose()
    said = "\n".join([caplog.text, repr(result), str(caught.value), repr(client.snapshot())])
    assert "CANARY" not in said
