"""Logging in to a remote server, and out again: what `codebuddy-mcp login` and `logout` do.

Policy: an authorization URL is https, or http on this machine; it is shown in full before anything opens it, and it is
handed to the browser as one argument, never to a shell. Without a browser (headless) it is only shown, and the address
that the browser ends at may be pasted. The redirect comes back to a port of 127.0.0.1 that is open for this one login.
A new login replaces the old one when it has succeeded.
"""

from __future__ import annotations

import asyncio
import logging
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl, ValidationError

from codebuddy_mcp_tools.client.connection import MCPClient
from codebuddy_mcp_tools.client.http import open_http
from codebuddy_mcp_tools.client.loop import OwnerLoop
from codebuddy_mcp_tools.client.loopback import Redirect, RedirectListener, listening
from codebuddy_mcp_tools.client.oauth import ServerAuth, configured_client, provider_for, remote_config
from codebuddy_mcp_tools.client.oauth_storage import StoredLogin
from codebuddy_mcp_tools.client.sse import open_sse
from codebuddy_mcp_tools.client.token_store import TokenStore
from codebuddy_mcp_tools.client.transport import Channel, ConnectionSpec, Opener, Sink
from codebuddy_mcp_tools.config.models import OAuthConfig
from codebuddy_mcp_tools.errors import ConfigError, ConnectError
from codebuddy_mcp_tools.policy.outbound import Resolver, system_resolver
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.policy.text import clean_line
from codebuddy_mcp_tools.types import Transport

logger = logging.getLogger(__name__)

PATIENCE = 300.0
"""Seconds a person has for a login."""
_LONGEST_URL = 8192
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class LoginResult:
    """A login that worked.

    Attributes:
        issuer: the authorization server.
        scope: what was granted, space-separated, or `None` when it did not say.
        expires_at: the end of the access token; `None` when nobody said. A refresh token, if there is one, outlives it.
        renewable: whether there is a refresh token.
    """

    server: str
    issuer: str
    scope: str | None
    expires_at: datetime | None
    renewable: bool


@dataclass(frozen=True)
class LoginPrompt:
    """How a person is brought to the authorization server.

    Attributes:
        show: prints a text for the person, the whole URL in it.
        open_browser: opens a URL; `None` for headless.
        paste: asks for the address at which the browser ended, for when it cannot reach this machine.
        patience: seconds the person has.
    """

    show: Callable[[str], None]
    open_browser: Callable[[str], object] | None = webbrowser.open
    paste: Callable[[], Awaitable[str]] | None = None
    patience: float = PATIENCE


async def login(
    spec: ConnectionSpec,
    prompt: LoginPrompt,
    *,
    redactor: Redactor | None = None,
    scope: str | None = None,
    resolver: Resolver = system_resolver,
) -> LoginResult | None:
    """Log in to a remote server and keep the tokens; `None` when the server asks for no login.

    Callbacks of `prompt` run on the thread of the MCP loop.

    Args:
        scope: the scopes to ask for, space-separated, in place of what configuration and server say.

    Raises:
        ConfigError: the server is not remote, or its OAuth settings cannot be used.
        ConnectError, BlockedURLError and the rest of `ServerError`: the login failed, or the server did after it.
    """
    return await OwnerLoop.shared().run(_login(spec, prompt, redactor or Redactor(), scope, resolver))


async def _login(
    spec: ConnectionSpec, prompt: LoginPrompt, redactor: Redactor, scope: str | None, resolver: Resolver
) -> LoginResult | None:
    patient = replace(spec.timeouts, connect=prompt.patience + 60.0, list=prompt.patience + 60.0)
    spec = replace(spec, timeouts=patient, reconnect_delays=(0.0,))
    async with interactive_opener(spec, prompt, redactor=redactor, scope=scope, resolver=resolver) as (opener, kept):
        client = MCPClient(spec, redactor=redactor, opener=opener)
        try:
            await client.list_tools()
        finally:
            await client.aclose()
    if kept.problem is not None:
        raise ConnectError(f"{spec.name}: the login worked, but {kept.problem}", server=spec.name, retryable=False)
    tokens = kept.new_tokens
    if tokens is None:
        return None
    ends = None if tokens.expires_in is None else datetime.now(UTC).timestamp() + tokens.expires_in
    return LoginResult(
        server=spec.name,
        issuer=kept.issuer,
        scope=tokens.scope,
        expires_at=None if ends is None else datetime.fromtimestamp(ends, UTC),
        renewable=tokens.refresh_token is not None,
    )


def logout(spec: ConnectionSpec) -> bool:
    """Forget the login of a server; whether there was one.

    The tokens are deleted here and not revoked there: their end is the authorization server's matter.

    Raises:
        ConfigError: the server is not remote.
    """
    return _store(spec).remove()


def _store(spec: ConnectionSpec) -> TokenStore:
    return TokenStore(spec.tokens_dir, spec.name, remote_config(spec).url)


class NativeClient(OAuthClientMetadata):
    """What we register: a client on a person's own machine (SEP-837)."""

    application_type: str = "native"


@asynccontextmanager
async def interactive_opener(
    spec: ConnectionSpec,
    prompt: LoginPrompt,
    *,
    redactor: Redactor,
    scope: str | None = None,
    resolver: Resolver = system_resolver,
) -> AsyncIterator[tuple[Opener, StoredLogin]]:
    """An opener whose channels log in when the server asks for it; its redirect listener is open inside the block.

    It belongs to the loop that it was made on.

    Raises:
        ConfigError: the server is not remote, or its OAuth settings cannot be used.
    """
    store, settings = _store(spec), remote_config(spec).oauth or OAuthConfig()
    login = StoredLogin(store, redactor, configured_client(settings), fresh=True)
    async with _redirects(spec, settings, login) as listener:
        try:
            metadata = NativeClient(
                redirect_uris=[AnyUrl(listener.uri)], client_name=settings.client_name or "codebuddy-mcp-tools"
            )
        except ValidationError:
            raise ConfigError(f"server {spec.name!r}: the OAuth settings cannot be used") from None
        login.redirect_uri = listener.uri
        browser = _Browser(spec.name, prompt, listener, login, scope or settings.scope)
        provider = provider_for(
            spec,
            metadata,
            login,
            redirect_handler=browser.send,
            callback_handler=browser.answer,
        )
        auth = ServerAuth(provider, login, store, redactor, interactive=True)

        def open_channel(sink: Sink) -> AbstractAsyncContextManager[Channel]:
            opens = open_sse if spec.transport is Transport.SSE else open_http
            return opens(spec, sink, redactor=redactor, auth=auth, resolver=resolver)

        yield open_channel, login


@asynccontextmanager
async def _redirects(
    spec: ConnectionSpec, settings: OAuthConfig, login: StoredLogin
) -> AsyncIterator[RedirectListener]:
    """The listener for the redirect: where the configuration says, else on the registered port, else on any."""
    async with AsyncExitStack() as stack:
        if settings.redirect_uri or settings.callback_port:
            try:
                wanted = listening(settings.redirect_uri, settings.callback_port or 0)
                yield await stack.enter_async_context(wanted)
            except (OSError, ValueError) as error:
                text = f"server {spec.name!r}: nothing can listen for the redirect of a login: {error}"
                raise ConfigError(text) from None
            return
        known = await login.get_client_info()
        listener: RedirectListener | None = None
        if known is not None and known.redirect_uris:
            with suppress(OSError, ValueError):  # the port is taken by now: register anew
                listener = await stack.enter_async_context(listening(str(known.redirect_uris[0])))
        if listener is None:
            listener = await stack.enter_async_context(listening())
        yield listener


class _Browser:
    """The person's part of the flow: sends them off, and takes what they come back with."""

    def __init__(
        self, server: str, prompt: LoginPrompt, listener: RedirectListener, login: StoredLogin, scope: str | None
    ) -> None:
        self._server = server
        self._prompt = prompt
        self._listener = listener
        self._scope = scope
        self._login = login

    async def send(self, url: str) -> None:
        """Show the URL, then open it."""
        target = authorization_url(url, self._scope)
        self._listener.expect(httpx.URL(target).params.get("state", ""))
        host = urlsplit(target).netloc
        self._prompt.show(f"To log in to {self._server}, open this address (it is on {host}):\n\n{target}\n")
        if self._prompt.open_browser is not None:
            await asyncio.to_thread(self._prompt.open_browser, target)

    async def answer(self) -> tuple[str, str | None]:
        """Wait for the redirect, or for its address to be pasted."""
        pasting = asyncio.ensure_future(self._pasted()) if self._prompt.paste is not None else None
        try:
            async with asyncio.timeout(self._prompt.patience):
                redirect = await self._listener.answer()
        except TimeoutError:
            raise OAuthFlowError(f"nobody finished it within {self._prompt.patience:g} s") from None
        finally:
            if pasting is not None:
                pasting.cancel()
        return self._accepted(redirect)

    def _accepted(self, redirect: Redirect) -> tuple[str, str | None]:
        if not self._login.accepts_issuer(redirect.issuer):
            raise OAuthFlowError("the answer comes from another authorization server than the one that was asked")
        if redirect.error is not None or redirect.code is None:
            raise OAuthFlowError(f"the authorization server refused: {clean_line(redirect.error or 'no reason', 160)}")
        return redirect.code, redirect.state

    async def _pasted(self) -> None:
        try:
            while self._prompt.paste is not None:
                if self._listener.take(Redirect.parse((await self._prompt.paste()).strip())):
                    return
                self._prompt.show("That is not the address of this login; paste the whole one the browser ended at.")
        except (EOFError, OSError, RuntimeError):
            logger.debug("nothing can be pasted; the browser may still come back by itself", exc_info=True)


def authorization_url(url: str, scope: str | None = None) -> str:
    """The URL for the browser, after a check; with `scope` in place of the scope in it.

    Raises:
        OAuthFlowError: it is no https URL (nor an http one of this machine), or holds what no URL should.
    """
    try:
        parsed = httpx.URL(url)
        host = parsed.host  # decodes an international name, which may be none
    except (httpx.InvalidURL, ValueError):
        raise OAuthFlowError("the server names an authorization address that is no URL") from None
    local = parsed.scheme == "http" and host in _LOCAL_HOSTS
    if not (parsed.scheme == "https" or local) or not host or parsed.userinfo:
        shown = clean_line(f"{parsed.scheme}://{host}", 80)
        raise OAuthFlowError(f"the server wants the browser sent to {shown}, which is refused: only https is opened")
    text = str(parsed.copy_set_param("scope", scope) if scope else parsed)
    if len(text) > _LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise OAuthFlowError("the server names an authorization address that cannot be shown as it is")
    return text
