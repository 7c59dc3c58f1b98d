"""OAuth for remote servers: the SDK's client provider, driven by an `httpx.Auth` of ours.

Policy: a connection uses a stored login and refreshes it, and never starts one by itself: agents run unattended, and a
401 says which command logs in. Only `login.login` lets the provider go through discovery, registration and the browser.
All of its requests go through the guarded client of the server, so that no server can send us to an address that is
refused.

What the drive adds to the provider (mcp 1.30), by public parts only:
- calls of one server do not wait for each other: the provider holds a lock until a server has answered;
- tokens from the store keep their expiry and their issuer's endpoints (`oauth_storage.py`);
- a 401 with a token at hand is answered by a refresh first, by one process at a time;
- the `resource` parameter is the resource's own spelling: pydantic adds a `/` to a URL without a path.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from filelock import Timeout
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl, ValidationError

from codebuddy_mcp_tools.client.http_faults import parse_object
from codebuddy_mcp_tools.client.oauth_storage import LoginContext, StoredLogin
from codebuddy_mcp_tools.client.token_store import TokenStore
from codebuddy_mcp_tools.client.transport import ChannelError, ConnectionSpec, TransportFault
from codebuddy_mcp_tools.config.models import HttpServer, OAuthConfig, SseServer
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.outbound import split_user_info
from codebuddy_mcp_tools.policy.secrets import Redactor
from codebuddy_mcp_tools.policy.text import clean_line

_ANY_REDIRECT = [AnyUrl("http://127.0.0.1/callback")]
_LONG_AGO = 1.0
_WORDS = 200


class ServerAuth(httpx.Auth):
    """Adds the bearer token of one server to its requests.

    Args:
        provider: the SDK's provider, with a `LoginContext`.
        interactive: whether a 401, or a 403 that asks for more scopes, starts an authorization.

    Raises (out of a request):
        ChannelError: the login, or its refresh, failed.
    """

    def __init__(
        self,
        provider: OAuthClientProvider,
        login: StoredLogin,
        store: TokenStore,
        redactor: Redactor,
        *,
        interactive: bool,
    ) -> None:
        context = provider.context
        if not isinstance(context, LoginContext):
            raise TypeError("the provider needs a LoginContext")
        self._provider = provider
        self._context = context
        self._login = login
        self._store = store
        self._redactor = redactor
        self._interactive = interactive
        self._loaded = False
        self._dead: str | None = None

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """See `httpx.Auth`."""
        if not self._loaded:
            self._loaded = True
            await self._load()
        response = None
        for retry in (False, True):
            async with self._steps(self._refresh(request)) as steps:
                while (outgoing := await steps.next()) is not None:
                    steps.answer = yield outgoing
            used = self._sign(request)
            response = yield request
            if retry or response.status_code != 401 or not await self._has_another(used):
                break
        if response is not None and self._interactive and _asks_for_login(response):
            async with self._steps(self._authorize(request, response)) as steps:
                while (outgoing := await steps.next()) is not None:
                    steps.answer = yield outgoing

    @contextlib.asynccontextmanager
    async def _steps(self, flow: AsyncGenerator[httpx.Request, httpx.Response]) -> AsyncGenerator[_Steps, None]:
        """Drive a part of the flow, its failures as ours."""
        try:
            yield _Steps(flow)
        except (OAuthFlowError, ValidationError) as error:
            raise ChannelError(self._failed(error)) from None
        finally:
            await flow.aclose()

    async def _refresh(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Refresh an expired token: one process at a time, the next one finds the new token in the store."""
        if self._context.is_token_valid() or not self._context.can_refresh_token():
            return
        try:
            async with self._store.refreshing():
                await self._load()
                expired = self._token()
                # The provider begins with a refresh when one is due, and comes to the request itself after it.
                flow = self._provider.async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while outgoing is not request:
                        outgoing = await flow.asend((yield outgoing))
                finally:
                    await flow.aclose()
                if self._token() is None:
                    self._dead = expired
        except Timeout:
            text = "another process has been refreshing this login for too long"
            raise ChannelError(TransportFault(text, sent=False, http_status=401)) from None
        except OSError as error:
            text = f"the login cannot be refreshed: {error.strerror or type(error).__name__}"
            raise ChannelError(TransportFault(text, sent=False, http_status=401, retryable=False)) from None

    async def _authorize(
        self, request: httpx.Request, refused: httpx.Response
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """The provider's whole flow. It begins with `request`, and gets the answer that was just given to it."""
        signed = request.headers.get("authorization")
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            if outgoing is request and request.headers.get("authorization") == signed:
                outgoing = await flow.asend(refused)
            while True:
                response = yield outgoing
                if outgoing is not request:
                    await self._observe(outgoing, response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _sign(self, request: httpx.Request) -> str | None:
        """Put the token on a request; returns it."""
        token = self._token() if self._context.is_token_valid() else None
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token}"
        elif "authorization" in request.headers:
            del request.headers["Authorization"]
        return token

    async def _has_another(self, refused: str | None) -> bool:
        """After a 401: whether there is, or may be by a refresh, a token that has not been refused."""
        if self._token() == refused:
            await self._load()
        if self._token() != refused:
            return self._context.is_token_valid() or self._context.can_refresh_token()
        if refused is None or not self._context.can_refresh_token():
            return False
        self._context.token_expiry_time = _LONG_AGO
        return True

    async def _load(self) -> None:
        """Take what the store holds, unless we have it, or had it when a refresh failed."""
        tokens = await self._login.get_tokens()
        if tokens is None or tokens.access_token in (self._token(), self._dead):
            return
        context = self._context
        context.current_tokens = tokens
        context.client_info = await self._login.get_client_info()
        self._login.restore(context)
        context.token_expiry_time = None
        if tokens.expires_in is not None:
            context.update_token_expiry(tokens)

    def _token(self) -> str | None:
        tokens = self._context.current_tokens
        return tokens.access_token if tokens else None

    async def _observe(self, request: httpx.Request, response: httpx.Response) -> None:
        """Note what the provider drops of the metadata that passes by."""
        if request.method != "GET" or response.status_code != 200:
            return
        document = parse_object(await response.aread())
        if document is None:
            return
        if "authorization_servers" in document:
            resource = document.get("resource")
            self._context.resource = resource if isinstance(resource, str) else None
        if "token_endpoint" in document:
            self._context.note_server(document)
        if "token_endpoint" in document and self._login.is_configured and self._context.client_info is not None:
            methods = document.get("token_endpoint_auth_methods_supported")
            self._context.client_info.token_endpoint_auth_method = _method(self._context.client_info, methods)

    def _failed(self, error: Exception) -> TransportFault:
        text = self._redactor.redact(str(error))
        if isinstance(error, ValidationError):
            text = "the authorization server sent something that is no OAuth metadata"
        elif "state parameter" in text.lower():
            text = "the answer does not belong to this login"
        return TransportFault(f"login failed: {clean_line(text, _WORDS)}", sent=False, http_status=401, retryable=False)


class _Steps:
    """Requests of a flow, one after the other; `answer` is the response to the last one."""

    def __init__(self, flow: AsyncGenerator[httpx.Request, httpx.Response]) -> None:
        self._flow = flow
        self.answer: httpx.Response | None = None

    async def next(self) -> httpx.Request | None:
        """The next request, `None` when there is no more."""
        try:
            if self.answer is None:
                return await anext(self._flow)
            return await self._flow.asend(self.answer)
        except StopAsyncIteration:
            return None


def _asks_for_login(response: httpx.Response) -> bool:
    challenge = response.headers.get("www-authenticate", "")
    return response.status_code == 401 or (response.status_code == 403 and "insufficient_scope" in challenge)


def _method(client: OAuthClientInformationFull, supported: object) -> Any:
    """How a client that was registered by hand shows its secret: as the server likes it best."""
    if not client.client_secret:
        return "none"
    known = supported if isinstance(supported, list) else []
    return next((m for m in ("client_secret_basic", "client_secret_post") if m in known), "client_secret_basic")


def remote_config(spec: ConnectionSpec) -> HttpServer | SseServer:
    """The entry of a remote server.

    Raises:
        ConfigError: the server is not remote.
    """
    if not isinstance(spec.config, HttpServer | SseServer):
        raise ConfigError(f"server {spec.name!r} is not remote: there is nothing to log in to")
    return spec.config


def configured_client(settings: OAuthConfig | None) -> OAuthClientInformationFull | None:
    """The client that somebody registered by hand, or `None`."""
    if settings is None or not settings.client_id:
        return None
    client = OAuthClientInformationFull(
        client_id=settings.client_id, client_secret=settings.client_secret or None, redirect_uris=_ANY_REDIRECT
    )
    client.token_endpoint_auth_method = _method(client, None)
    return client


def stored_auth(spec: ConnectionSpec, store: TokenStore, redactor: Redactor) -> ServerAuth:
    """Signs requests with a stored login, and refreshes it; never asks anybody."""
    login = StoredLogin(store, redactor, configured_client(remote_config(spec).oauth))
    provider = provider_for(spec, OAuthClientMetadata(redirect_uris=_ANY_REDIRECT), login)
    return ServerAuth(provider, login, store, redactor, interactive=False)


def provider_for(
    spec: ConnectionSpec, metadata: OAuthClientMetadata, login: StoredLogin, **handlers: Any
) -> OAuthClientProvider:
    """The SDK's provider for one server, with our context.

    Raises:
        ConfigError: `clientMetadataUrl` is not an https URL with a path.
    """
    config = remote_config(spec)
    document = config.oauth.client_metadata_url if config.oauth else None
    url, _ = split_user_info(config.url)
    try:
        provider = OAuthClientProvider(url, metadata, login, client_metadata_url=document, **handlers)
    except ValueError:
        raise ConfigError(f"server {spec.name!r}: oauth.clientMetadataUrl must be an https URL with a path") from None
    plain = provider.context
    provider.context = login.context = LoginContext(
        server_url=plain.server_url,
        client_metadata=plain.client_metadata,
        storage=plain.storage,
        redirect_handler=plain.redirect_handler,
        callback_handler=plain.callback_handler,
        timeout=plain.timeout,
        client_metadata_url=plain.client_metadata_url,
    )
    return provider
