"""The whole login from the command line, against an authorization server on loopback."""

from __future__ import annotations

import asyncio
import json
import stat
import webbrowser

import pytest

from tests.client.authorization import Authority, serving
from tests.client.test_oauth_login import visit


class Browser:
    """A browser whose person agrees."""

    def __init__(self):
        self.opened = []

    def open(self, url, new=0, autoraise=True):
        self.opened.append(url)
        visit(url)
        return True


@pytest.fixture
def browser(monkeypatch):
    browser = Browser()
    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setattr(webbrowser, "_tryorder", [])
    webbrowser.register("agreeable", None, browser, preferred=True)
    return browser


async def test_login_shows_the_address_opens_it_keeps_the_tokens_and_logout_forgets_them(cli, browser):
    async with serving(authority := Authority()) as site:
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"guarded": {"url": site.url}}})

        def run(*command, code=0):
            return asyncio.to_thread(cli.run, *command, code=code)

        refused = await run("status", code=1)
        assert "codebuddy-mcp login guarded" in refused.output
        result = await run("login", "guarded")
        assert browser.opened[0] in result.stderr
        assert f'Logged in to "guarded" at {authority.origin}/' in result.stdout
        [kept] = [file for file in cli.path("~/.codebuddy/oauth").iterdir() if file.suffix == ".json"]
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert list(json.loads(kept.read_text())["issuers"]) == [f"{authority.origin}/"]
        for token in authority.tokens | authority.refresh_tokens:
            assert token not in result.output + result.stderr
        assert "connected" in (await run("status")).stdout
        assert "Logged out" in (await run("logout", "guarded")).stdout
        assert not kept.exists()
        await run("status", code=1)


@pytest.mark.parametrize("endpoint", ["javascript:alert(1)", "file:///etc/passwd", "http://public.test/a", "--flag"])
async def test_login_opens_nothing_that_is_no_web_address(cli, browser, endpoint):
    async with serving(authority := Authority(metadata={"authorization_endpoint": endpoint})) as site:
        cli.write("~/.codebuddy/.mcp.json", {"mcpServers": {"guarded": {"url": site.url}}})
        result = await asyncio.to_thread(cli.run, "login", "guarded", code=None)
    # What is no URL at all does not count, and the address of the standard is taken instead.
    assert all(url.startswith(f"{authority.origin}/authorize?") for url in browser.opened)
    assert endpoint.startswith("http") is not bool(browser.opened)
    assert (result.exit_code, result.stderr.startswith("error: ")) in {(0, False), (1, True)}
    assert "Traceback" not in result.stderr
