"""Where the SDK's OAuth provider keeps what it knows: its context in memory, its storage over a `TokenStore`.

The provider (mcp 1.30) stores tokens without the moment they end, forgets the refresh token when a refresh brings no
new one, and has to discover a token endpoint before it can use it. Here all of that is kept with the tokens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ValidationError

from codebuddy_mcp_tools.client.token_store import Record, TokenStore, seconds_left
from codebuddy_mcp_tools.errors import ConfigError
from codebuddy_mcp_tools.policy.secrets import Redactor

logger = logging.getLogger(__name__)
M = TypeVar("M", bound=BaseModel)

EXPIRY_MARGIN = 30.0
"""Seconds before its end at which a token counts as expired, when it lives much longer than that."""


class LoginContext(OAuthContext):
    """The provider's context, with the resource's own spelling and a margin before a token's end."""

    resource: str | None = None
    """`resource` of the protected resource metadata, as the server wrote it."""
    issuer: str | None = None
    """`issuer` of the authorization server's metadata, as it wrote it."""
    names_issuer: bool = False
    """Whether the authorization server promises `iss` in its redirects (RFC 9207)."""

    def note_server(self, metadata: Mapping[str, object]) -> None:
        """Keep what the provider's model drops or respells of an authorization server's metadata."""
        issuer = metadata.get("issuer")
        self.issuer = issuer if isinstance(issuer, str) else None
        self.names_issuer = metadata.get("authorization_response_iss_parameter_supported") is True

    def accepts_issuer(self, named: str | None) -> bool:
        """Whether a redirect comes from the server that was asked: simple string comparison, as RFC 9207 wants it."""
        return not self.names_issuer if named is None else named == self.issuer

    def get_resource_url(self) -> str:
        """See `OAuthContext`: the URL to name in authorization and token requests (RFC 8707)."""
        chosen = super().get_resource_url()
        known = self.protected_resource_metadata
        if self.resource is not None and known is not None and chosen == str(known.resource):
            return self.resource
        return chosen

    def update_token_expiry(self, token: OAuthToken) -> None:
        """See `OAuthContext`."""
        super().update_token_expiry(token)
        if self.token_expiry_time and self.token_expiry_time - time.time() > 4 * EXPIRY_MARGIN:
            self.token_expiry_time -= EXPIRY_MARGIN


class StoredLogin:
    """The provider's `TokenStorage`, over a `TokenStore`.

    Args:
        client: the client that was registered by hand and stands in the configuration.
        fresh: a login that starts anew: the stored tokens stay where they are until there are new ones.
    """

    def __init__(
        self,
        store: TokenStore,
        redactor: Redactor,
        client: OAuthClientInformationFull | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._configured = client
        self.context: LoginContext | None = None
        self.problem: str | None = None
        """Why the login could not be kept, or `None`."""
        self._fresh = fresh
        self.new_tokens: OAuthToken | None = None
        """The tokens that this login brought."""
        self.redirect_uri: str | None = None
        """Where redirects come back to now; a client registered for another URI is not used."""

    @property
    def issuer(self) -> str:
        """The authorization server of the stored login, `""` when there is none."""
        return self._store.read()[0]

    def accepts_issuer(self, named: str | None) -> bool:
        """See `LoginContext.accepts_issuer`."""
        return self.context is not None and self.context.accepts_issuer(named)

    @property
    def is_configured(self) -> bool:
        """Whether the client was registered by hand and stands in the configuration."""
        return self._configured is not None

    async def get_tokens(self) -> OAuthToken | None:
        """The current issuer's tokens, `expires_in` counted from now."""
        if self._fresh:
            return self.new_tokens
        _, record = self._store.read()
        tokens = _read(OAuthToken, record.get("tokens"))
        if tokens is not None:
            tokens.expires_in = seconds_left(record)
            self._redactor.add(tokens.access_token, tokens.refresh_token)
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens; a refresh that brings no refresh token leaves the old one good (RFC 6749, section 6)."""
        context = self.context
        issuer, record = self._store.read()
        if context is not None:
            issuer = context.auth_server_url or _issuer(context) or issuer
        before = self.new_tokens if self._fresh else _read(OAuthToken, record.get("tokens"))
        if tokens.refresh_token is None and before is not None:
            tokens.refresh_token = before.refresh_token
        self.new_tokens = tokens
        self._redactor.add(tokens.access_token, tokens.refresh_token)
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in

        def edit(record: Record) -> None:
            record["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
            record["expires_at"] = expires_at
            if context is not None:
                record.update(_discovered(context))

        self._keep(issuer, edit)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The configured client, else the one that was registered."""
        if self._configured is not None:
            return self._configured
        info = _read(OAuthClientInformationFull, self._store.read()[1].get("client"))
        if info is None:
            return None
        self._redactor.add(info.client_secret)
        known = [str(uri) for uri in info.redirect_uris or []]
        return info if self.redirect_uri is None or self.redirect_uri in known else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration; tokens that belong to an older one of the same issuer go."""
        self._redactor.add(client_info.client_secret)
        context = self.context
        issuer = (context and (context.auth_server_url or _issuer(context))) or ""

        def edit(record: Record) -> None:
            record.clear()
            record["client"] = client_info.model_dump(mode="json", exclude_none=True)

        self._keep(issuer, edit)

    def _keep(self, issuer: str, edit: Callable[[Record], None]) -> None:
        try:
            self._store.change(issuer, edit)
        except ConfigError as error:
            self.problem = str(error)
            logger.warning("a login works, but it cannot be kept: %s", error)

    def restore(self, context: LoginContext) -> None:
        """Give a context what was discovered when the tokens were made: a refresh needs the token endpoint."""
        issuer, record = self._store.read()
        context.oauth_metadata = _read(OAuthMetadata, record.get("metadata"))
        context.protected_resource_metadata = _read(ProtectedResourceMetadata, record.get("resource_metadata"))
        resource = record.get("resource")
        context.resource = resource if isinstance(resource, str) else None
        context.auth_server_url = issuer if context.protected_resource_metadata is not None else None


def _issuer(context: OAuthContext) -> str | None:
    return str(context.oauth_metadata.issuer) if context.oauth_metadata else None


def _discovered(context: LoginContext) -> Record:
    metadata, resource = context.oauth_metadata, context.protected_resource_metadata
    return {
        "metadata": metadata and metadata.model_dump(mode="json", exclude_none=True),
        "resource_metadata": resource and resource.model_dump(mode="json", exclude_none=True),
        "resource": context.resource,
    }


def _read(model: type[M], value: object) -> M | None:
    if value is None:
        return None
    try:
        return model.model_validate(value)
    except ValidationError:
        return None
