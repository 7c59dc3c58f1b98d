"""A small authorization server and the MCP server that trusts it, both on loopback, both in one `Site`."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.client.site import Reply, Seen, Site, answer


@dataclass
class Authority:
    """The handler of a site that is both. Its fields say how it behaves.

    Attributes:
        tokens: access tokens that are good now.
        refresh_tokens: those that are good now.
        rotates: whether a refresh brings a new refresh token and ends the old one.
        expires_in: seconds that it says of its tokens.
        metadata: changes to the authorization server's metadata; `resource` changes to the resource's.
        said: what each endpoint was asked, form fields or JSON.
    """

    rotates: bool = True
    expires_in: int | None = 3600
    metadata: dict[str, Any] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    redirect: dict[str, str] = field(default_factory=dict)
    needs_login: bool = True
    tokens: set[str] = field(default_factory=set)
    refresh_tokens: set[str] = field(default_factory=set)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    said: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    port: int = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def forget_tokens(self) -> None:
        """End every access token, as if its time had come."""
        self.tokens.clear()

    async def __call__(self, seen: Seen, reply: Reply) -> None:
        path = urlsplit(seen.target).path
        match seen.method, path:
            case _, "/mcp":
                await self._mcp(seen, reply)
            case "GET", "/.well-known/oauth-protected-resource/mcp":
                await reply.json(
                    {"resource": f"{self.origin}/mcp", "authorization_servers": [self.origin], **self.resource}
                )
            case "GET", "/.well-known/oauth-authorization-server":
                await reply.json({**self._metadata(), **self.metadata})
            case "POST", "/register":
                self._note("register", seen.message)
                await reply.json({**seen.message, "client_id": f"client-{len(self.said['register'])}"}, 201)
            case "GET", "/authorize":
                await self._authorize(seen, reply)
            case "POST", "/token":
                await self._token(dict(parse_qsl(seen.body.decode())), seen, reply)
            case _:
                await reply.status(404)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
        }

    def _note(self, endpoint: str, fields: dict[str, str]) -> None:
        self.said.setdefault(endpoint, []).append(fields)

    async def _mcp(self, seen: Seen, reply: Reply) -> None:
        if seen.method != "POST":
            await reply.status(405)
        elif self.needs_login and seen.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            where = f'Bearer resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
            await reply.status(401, www_authenticate=where)
        elif seen.rpc == "initialize":
            info = {"serverInfo": {"name": "guarded", "version": "1"}, "capabilities": {"tools": {}}}
            await reply.json(answer(seen, {"protocolVersion": "2025-11-25", **info}))
        elif "id" in seen.message:
            await reply.json(answer(seen, {"tools": [], "content": []}))
        else:
            await reply.status(202)

    async def _authorize(self, seen: Seen, reply: Reply) -> None:
        asked = dict(parse_qsl(urlsplit(seen.target).query))
        self._note("authorize", asked)
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], **self.redirect}
        back = {name: value for name, value in back.items() if value}
        await reply.status(302, location=f"{asked['redirect_uri']}?{urlencode(back)}")

    async def _token(self, form: dict[str, str], seen: Seen, reply: Reply) -> None:
        self._note("token", {**form, "authorization": seen.headers.get("authorization", "")})
        if form["grant_type"] == "refresh_token":
            good = form["refresh_token"] in self.refresh_tokens
            if good and self.rotates:
                self.refresh_tokens.discard(form["refresh_token"])
        else:
            asked = self.codes.pop(form["code"], {"code_challenge": ""})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            good = base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        if not good:
            await reply.json({"error": "invalid_grant"}, 400)
            return
        await reply.json(self.grant(with_refresh=self.rotates or form["grant_type"] != "refresh_token"))

    def grant(self, *, with_refresh: bool = True) -> dict[str, Any]:
        """Make new tokens."""
        access, refresh = f"ACCESSCANARY-{secrets.token_hex(4)}", f"REFRESHCANARY-{secrets.token_hex(4)}"
        self.tokens.add(access)
        grant: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.expires_in is not None:
            grant["expires_in"] = self.expires_in
        if with_refresh:
            self.refresh_tokens.add(refresh)
            grant["refresh_token"] = refresh
        return grant


@asynccontextmanager
async def serving(authority: Authority) -> AsyncIterator[Site]:
    """The site of an authority, which then knows its own origin."""
    async with Site(authority) as site:
        authority.port = site.port
        yield site
