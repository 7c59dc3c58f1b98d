"""Where a connection may go: which URLs, and which addresses behind their names.

Policy:
- http and https only; no user name or password in a URL (`split_user_info` turns them into a header), nothing that
  two parsers could read in two ways.
- Cloud metadata addresses and names are refused always, whatever the user lists.
- Everything that is not a public unicast address is refused: private, loopback, link-local, carrier-grade NAT,
  reserved, multicast, documentation, and IPv6 forms that carry such an IPv4 address inside (mapped, compatible,
  NAT64, 6to4, Teredo, ISATAP). Two exceptions: loopback where `allow_loopback` is set (servers of the code, user and
  local scopes), and hosts the user lists in `allowedHosts`.
- A name is judged by its addresses, all of them, and the connection must go to the address that was judged: whoever
  dials calls `OutboundRules.resolve` and connects to what it returns, for every new connection and every redirect.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import httpx

from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.addresses import (
    LOOPBACK,
    METADATA,
    NUMBER,
    Address,
    ipv4_readings,
    parse_address,
    why_refused,
)
from codebuddy_mcp_tools.policy.secrets import display_url
from codebuddy_mcp_tools.policy.text import show

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port → textual addresses; raises `OSError` when the name does not resolve."""

_METADATA_NAMES = frozenset(
    {
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
        "metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com", "metadata.azure.internal",
        "metadata.azure.com", "rancher-metadata", "rancher-metadata.rancher.internal", "metadata.oraclecloud.com",
        "metadata.nicp.net", "100-100-100-200.metadata.aliyun.com",
    }
)  # fmt: skip

_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class OutboundRules:
    """What one server's connections may reach.

    Attributes:
        allow_loopback: 127.0.0.0/8 and ::1 are allowed (never set for servers of project or workspace files).
        allowed_hosts: the user's `allowedHosts`: names, `*.suffix`, addresses or networks, each optionally with
            `:port`. They may be private; metadata addresses stay refused.
        trust_env: proxies and `~/.netrc` of the environment may be used. A proxy dials by itself, so no address is
            checked then: off unless the user asks for it.
    """

    allow_loopback: bool = False
    allowed_hosts: tuple[str, ...] = ()
    trust_env: bool = False

    def check_url(self, url: str | httpx.URL) -> None:
        """Judges what can be judged without a look-up: scheme, shape, literal addresses, known names.

        Raises:
            BlockedURLError: the URL may not be dialled; the text names scheme, host and path only.
        """
        text = str(url)
        parsed = _parse(text)
        host = parsed.host.rstrip(".").lower()
        port = parsed.port or _DEFAULT_PORTS[parsed.scheme]
        if why := self._bad_name(host):
            raise _blocked(text, why)
        for address in _literal_addresses(host, text):
            self.check_address(address, host=host, port=port)

    def check_address(self, address: str | Address, *, host: str = "", port: int | None = None) -> None:
        """Judges one address that a connection would go to.

        Args:
            address: the address, as text or parsed.
            host: the name it was found for, so that `allowed_hosts` can apply.
            port: the port of the connection, for `allowed_hosts` entries with a port.

        Raises:
            BlockedURLError: it is refused.
        """
        parsed = parse_address(address)
        if parsed is None:
            raise BlockedURLError(f"{show(str(address))} is not an address that can be checked")
        why = why_refused(parsed)
        if why is None or (why == LOOPBACK and self.allow_loopback):
            return
        if why != METADATA and self._listed(host, parsed, port):
            return
        named = f"{show(host)} leads to {parsed}" if host and host != str(parsed) else f"{parsed}"
        raise BlockedURLError(f"{named}, which is refused ({why} address){_advice(why)}")

    async def resolve(self, host: str, port: int, resolver: Resolver | None = None) -> tuple[str, ...]:
        """The addresses of a host, every one of them checked. Connect to these, not to the name.

        Raises:
            BlockedURLError: any one of the answers is refused, or there is none.
            OSError: the name does not resolve (`socket.gaierror` from the default resolver).
        """
        bare = host.strip("[]").rstrip(".").lower()
        if why := self._bad_name(bare):
            raise BlockedURLError(f"{show(bare)} is refused: {why}")
        literal = _literal_addresses(bare, bare)
        answers = [str(literal[0])] if literal else list(await (resolver or system_resolver)(bare, port))
        if not answers:
            raise BlockedURLError(f"{show(bare)} has no address")
        for answer in (*literal, *answers):
            self.check_address(answer, host=bare, port=port)
        return tuple(dict.fromkeys(answers))

    def _bad_name(self, host: str) -> str | None:
        if host in _METADATA_NAMES:
            return "this name leads to a cloud's metadata service"
        local = host in _LOCAL_NAMES or host.endswith(".localhost")
        if local and not self.allow_loopback and not self._listed(host, None, None):
            return f"this name means the local machine{_advice(LOOPBACK)}"
        return None

    def _listed(self, host: str, address: Address | None, port: int | None) -> bool:
        return any(_entry_matches(entry, host, address, port) for entry in self.allowed_hosts)


async def validate_outbound_url_async(
    url: str, *, allow_loopback: bool = False, allowed_hosts: Iterable[str] = (), resolver: Resolver | None = None
) -> tuple[str, ...]:
    """Resolves the URL's host, checks every answer, and returns the addresses a connection may go to.

    Args:
        url: http or https.
        allow_loopback: accept addresses of the local machine.
        allowed_hosts: hosts or networks that may be private.
        resolver: replaces the system's look-up, mostly in tests.

    Raises:
        BlockedURLError: the URL, or any one of its addresses, is refused; also when the name does not resolve,
            because then nothing was checked.
    """
    rules = OutboundRules(allow_loopback=allow_loopback, allowed_hosts=tuple(allowed_hosts))
    rules.check_url(url)
    parsed = httpx.URL(url)
    try:
        return await rules.resolve(parsed.host, parsed.port or _DEFAULT_PORTS[parsed.scheme], resolver)
    except OSError as error:
        raise BlockedURLError(
            f"{show(parsed.host)} does not resolve ({error.strerror or error}); nothing was dialled"
        ) from None


async def system_resolver(host: str, port: int) -> tuple[str, ...]:
    """The system's look-up, in the running loop's executor; all addresses in the system's order."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return tuple(dict.fromkeys(str(info[4][0]) for info in found))


def split_user_info(url: str) -> tuple[str, str | None]:
    """A URL without its user-info, and the `Authorization` header value that says the same, or `None`.

    `check_url` refuses user-info, so a configured URL that has one goes through here first.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        return url, None
    if not parsed.userinfo:
        return url, None
    pair = f"{parsed.username}:{parsed.password}".encode()
    return str(parsed.copy_with(username=None, password=None)), f"Basic {base64.b64encode(pair).decode('ascii')}"


def _parse(text: str) -> httpx.URL:
    if _UNSAFE.search(text):
        raise _blocked(text, "it holds a space, a backslash or a control character")
    try:
        parsed = httpx.URL(text)
        host = parsed.host  # decodes an international name, which may be none
    except (httpx.InvalidURL, TypeError, ValueError):
        raise _blocked(text, "it is not a URL") from None
    if parsed.scheme not in _DEFAULT_PORTS:
        raise _blocked(text, "only http and https are dialled")
    if parsed.userinfo or "@" in re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]:
        raise _blocked(text, "it holds a user name or password; put them into a header")
    if not host.rstrip("."):
        raise _blocked(text, "it names no host")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise _blocked(text, "its port does not exist")
    if "%" in host:
        raise _blocked(text, "its host holds a zone id or an escape")
    return parsed


def _literal_addresses(host: str, url: str) -> tuple[Address, ...]:
    """The addresses a host means without a look-up; an octal spelling has two readings, and both count."""
    bare = host.strip("[]")
    if ":" in bare:
        address = parse_address(bare)
        if address is None:
            raise _blocked(url, "its host is not an IPv6 address")
        return (address,)
    labels = bare.split(".")
    if not NUMBER.fullmatch(labels[-1]):
        return ()
    readings = ipv4_readings(labels)
    if not readings:
        raise _blocked(url, "its host looks like an IPv4 address and is none")
    return readings


def _entry_matches(entry: str, host: str, address: Address | None, port: int | None) -> bool:
    name, wanted_port = _split_port(entry.strip().lower())
    if wanted_port is not None and port is not None and wanted_port != port:
        return False
    name = name.rstrip(".")
    if name and (name == host or (name.startswith("*.") and len(name) > 2 and host.endswith(name[1:]))):
        return True
    if address is None or "*" in name:
        return False
    try:
        network = ipaddress.ip_network(name.strip("[]"), strict=False)
    except ValueError:
        return False
    return address in network


def _split_port(entry: str) -> tuple[str, int | None]:
    head, colon, tail = entry.rpartition(":")
    if colon and tail.isdigit() and (":" not in head or head.endswith("]")):
        return head, int(tail)
    return entry, None


def _blocked(url: str, why: str) -> BlockedURLError:
    return BlockedURLError(f"{show(display_url(url))} is refused: {why}")


def _advice(why: str) -> str:
    if why == METADATA:
        return ""
    return "; list the host in allowedHosts of your own settings if it is yours"
