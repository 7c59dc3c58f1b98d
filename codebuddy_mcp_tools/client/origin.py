"""Requests to one server's origin, and redirects within it.

Headers, credentials and bodies were configured for one origin: a redirect is followed only while scheme, host and port
stay and the method is kept (307 and 308, or any redirect of a GET), and a few times at most. Everything that fails
comes out as a `ChannelError`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import httpx

from codebuddy_mcp_tools.client.http_faults import fault_of_error
from codebuddy_mcp_tools.client.transport import ChannelError, TransportFault
from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import split_user_info
from codebuddy_mcp_tools.policy.secrets import display_url

logger = logging.getLogger(__name__)

MAX_REDIRECTS = 5
DRAIN_SECONDS = 0.5
DRAIN_BYTES = 64 << 10
"""How much of a body that nobody needs is read, so that its connection can serve the next request."""
HTTP_ERRORS = (httpx.HTTPError, httpx.InvalidURL, BlockedURLError, UnicodeError)
"""What sending a request or reading a body raises; `fault_of_error` knows them all."""
_KEEPS_METHOD = (307, 308)
_REDIRECTS = (301, 302, 303, 307, 308)
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


async def finish(response: httpx.Response) -> None:
    """Closes a response whose rest nobody wants, after reading a short rest of it: only then is the connection kept."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            left = DRAIN_BYTES
            async for chunk in response.aiter_raw():
                left -= len(chunk)
                if left < 0:
                    break
    except (TimeoutError, *HTTP_ERRORS):
        logger.debug("the rest of an answer did not come; its connection is dropped")
    await response.aclose()


class Origin:
    """Sends requests for one configured URL.

    Attributes:
        url: the endpoint, without user-info.
    """

    def __init__(self, client: httpx.AsyncClient, url: str, about_401: str | None = None) -> None:
        self._client = client
        self.url = httpx.URL(url)
        self._about_401 = about_401

    def hint(self, response: httpx.Response) -> str | None:
        """What to say about a refusal by this server, beyond what its status always means."""
        if response.status_code == 401:
            return self._about_401
        if response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", ""):
            return "the login does not cover this; log in again, with more scopes"
        return None

    async def send(
        self, method: str, url: httpx.URL | None = None, *, headers: Mapping[str, str], content: bytes | None = None
    ) -> httpx.Response:
        """The streaming response, any status but a redirect. The caller closes it.

        Raises:
            ChannelError: no answer came, or it was a redirect that is not followed.
        """
        target = url or self.url
        for _ in range(MAX_REDIRECTS + 1):
            try:
                request = self._client.build_request(method, target, headers=checked_headers(headers), content=content)
                response = await self._client.send(request, stream=True)
            except HTTP_ERRORS as error:
                raise ChannelError(fault_of_error(error, target)) from None
            if response.status_code not in _REDIRECTS or "location" not in response.headers:
                return response
            await finish(response)
            target = self._next(method, target, response)
        raise ChannelError(self._refused(target, "the server redirects in a circle", response.status_code))

    def _next(self, method: str, sent: httpx.URL, response: httpx.Response) -> httpx.URL:
        try:
            target = sent.join(response.headers["location"])
        except (httpx.InvalidURL, ValueError):
            raise ChannelError(self._refused(None, "it is not a URL", response.status_code)) from None
        if not same_origin(self.url, target):
            why = "it leaves the origin of the configured URL; configure that URL if it is the right one"
            raise ChannelError(self._refused(target, why, response.status_code))
        if method != "GET" and response.status_code not in _KEEPS_METHOD:
            why = "it would turn a message into a page request; configure that URL if it is the right one"
            raise ChannelError(self._refused(target, why, response.status_code))
        return target

    def _refused(self, target: httpx.URL | None, why: str, status: int) -> TransportFault:
        to = f" to {display_url(str(target))}" if target is not None else ""
        return TransportFault(f"redirect (HTTP {status}){to} not followed: {why}", http_status=status, retryable=False)


def same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    """Whether scheme, host and port are the same and the second brings no user-info of its own."""
    return (one.scheme, one.raw_host, _port(one)) == (other.scheme, other.raw_host, _port(other)) and not other.userinfo


def _port(url: httpx.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, after a check that HTTP can carry them.

    Raises:
        ChannelError: one cannot be sent; the text has its name and not its value.
    """
    problem = header_problem(headers)
    if problem:
        raise ChannelError(TransportFault(problem, sent=False, retryable=False))
    return dict(headers)


def header_problem(headers: Mapping[Any, Any]) -> str | None:
    """Why HTTP cannot carry one of these headers, with its name and without its value; None when it can carry all."""
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"{str(name)[:40]!r} is not the name of an HTTP header"
        if not isinstance(value, str):
            return f"the value of header {name} is not text"
        if not _VALUE.fullmatch(value):
            return f"the value of header {name} holds a line break or a character that HTTP cannot carry"
    return None


def endpoint(url: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A configured URL without its user-info, and the headers with what the user-info said.

    Raises:
        ChannelError: a header cannot be sent.
    """
    bare, authorization = split_user_info(url)
    configured = checked_headers(headers)
    if authorization and "authorization" not in {name.lower() for name in configured}:
        configured["Authorization"] = authorization
    return bare, configured
