"""Where the browser comes back to after a login: a listener on loopback that takes one answer (RFC 8252, section 7.3).

It answers only the redirect that carries the `state` of this login; anything else that finds the port gets a 404 and
changes nothing. The page it shows is fixed text.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

_MAX_HEAD = 16 << 10
_HEAD_PATIENCE = 5.0
_DONE = b"You are logged in. You can close this window and go back to where you started."
_NO = b"This is not the answer that is waited for."


@dataclass(frozen=True, slots=True)
class Redirect:
    """What an authorization server answered through the browser.

    Attributes:
        code: the authorization code, or `None`.
        state: the state it gave back.
        error: the OAuth error code with its description, or `None`.
        issuer: the `iss` of RFC 9207, or `None`.
    """

    code: str | None
    state: str
    error: str | None = None
    issuer: str | None = None

    @classmethod
    def parse(cls, target: str) -> Redirect | None:
        """The answer in a URL, or in the target of a request; `None` when it is none."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        if "state" not in query or not ("code" in query or "error" in query):
            return None
        error = query.get("error")
        if error and "error_description" in query:
            error = f"{error}: {query['error_description']}"
        return cls(query.get("code"), query["state"], error, query.get("iss"))


class RedirectListener:
    """Waits for the redirect of one login.

    Attributes:
        uri: the redirect URI to register and to send.
    """

    def __init__(self, path: str) -> None:
        self.uri = ""
        self._path = path
        self._state: str | None = None
        self._answer: asyncio.Future[Redirect] = asyncio.get_running_loop().create_future()

    def expect(self, state: str) -> None:
        """Take the answer with this `state`, and no other; each authorization has its own."""
        self._state = state
        if self._answer.done():
            self._answer = asyncio.get_running_loop().create_future()

    def take(self, redirect: Redirect | None) -> bool:
        """Hand over an answer, from the browser or from a person who pasted it; whether it is the awaited one."""
        if redirect is None or self._state is None or not secrets.compare_digest(redirect.state, self._state):
            return False
        if not self._answer.done():
            self._answer.set_result(redirect)
        return True

    async def answer(self) -> Redirect:
        """Wait for the answer; the caller has the deadline."""
        return await asyncio.shield(self._answer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a browser, or of anybody."""
        try:
            async with asyncio.timeout(_HEAD_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            asked = method == "GET" and urlsplit(target).path == self._path
            known = asked and self.take(Redirect.parse(target))
            writer.write(_page(200, _DONE) if known else _page(404, _NO))
            await writer.drain()
        except (TimeoutError, ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever that was, it was not the browser we wait for
        finally:
            writer.close()


@asynccontextmanager
async def listening(uri: str | None = None, port: int = 0) -> AsyncIterator[RedirectListener]:
    """A listener on 127.0.0.1, on a port that the system chooses unless one is asked for.

    Args:
        uri: the redirect URI that is registered somewhere; its host must be this machine, its port is listened on.
        port: without a `uri`, the port to take.

    Raises:
        OSError: the port is taken. ValueError: `uri` leads elsewhere.
    """
    parts = urlsplit(uri or "http://127.0.0.1/callback")
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
        raise ValueError("the redirect URI must be http://127.0.0.1:PORT/… or http://localhost:PORT/…")
    listener = RedirectListener(parts.path or "/")
    wanted = (parts.port or 80) if uri else port
    server = await asyncio.start_server(listener.serve, "127.0.0.1", wanted, limit=_MAX_HEAD)
    try:
        listener.uri = uri or f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        yield listener
    finally:
        server.close()


def _page(status: int, text: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not Found'}\r\n"
    fields = "content-type: text/plain; charset=utf-8\r\nconnection: close\r\nreferrer-policy: no-referrer\r\n"
    return f"{head}{fields}content-length: {len(text)}\r\n\r\n".encode() + text
