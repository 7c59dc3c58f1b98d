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

`is_global` of the standard library calls Azure's and Oracle's metadata, multicast, site-local and several tunnel
ranges global, so the table here is explicit.
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
from codebuddy_mcp_tools.policy.secrets import display_url
from codebuddy_mcp_tools.policy.text import show

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port → textual addresses; raises `OSError` when the name does not resolve."""

_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Google, Azure, Oracle, DigitalOcean, Hetzner, OpenStack
        "169.254.169.253", "169.254.169.249", "169.254.170.2", "169.254.170.23",  # AWS: DNS, ECS, EKS
        "169.254.42.42",  # Scaleway
        "169.254.0.23", "169.254.10.10",  # Tencent
        "168.63.129.16",  # Azure wire server
        "192.0.0.192",  # Oracle Classic
        "100.100.100.200",  # Alibaba
        "fd00:ec2::254", "fd00:ec2::23", "fd00:ec2::253",  # AWS
        "fd20:ce::254",  # Google
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fd00:42::42",  # Scaleway
        "fe80::a9fe:a9fe",
    )
)  # fmt: skip
_METADATA_NAMES = frozenset(
    {
        "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
        "metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com", "metadata.azure.internal",
        "metadata.azure.com", "rancher-metadata", "rancher-metadata.rancher.internal", "metadata.oraclecloud.com",
        "metadata.nicp.net", "100-100-100-200.metadata.aliyun.com",
    }
)  # fmt: skip

_BLOCKED_V4 = tuple(
    (ipaddress.IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "reserved"),
        ("192.52.193.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_BLOCKED_V6 = tuple(
    (ipaddress.IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard-only"),
        ("100:0:0:1::/64", "reserved"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "reserved"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
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
        parsed = _address(address)
        if parsed is None:
            raise BlockedURLError(f"{show(str(address))} is not an address that can be checked")
        why = _why_blocked(parsed)
        if why is None or (why == "loopback" and self.allow_loopback):
            return
        if why != "cloud metadata" and self._listed(host, parsed, port):
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
        local = host in {"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"} or host.endswith(
            ".localhost"
        )
        if local and not self.allow_loopback and not self._listed(host, None, None):
            return f"this name means the local machine{_advice('loopback')}"
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
    except (httpx.InvalidURL, TypeError, ValueError, UnicodeError):
        raise _blocked(text, "it is not a URL") from None
    if parsed.scheme not in _DEFAULT_PORTS:
        raise _blocked(text, "only http and https are dialled")
    if parsed.userinfo or "@" in re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]:
        raise _blocked(text, "it holds a user name or password; put them into a header")
    if not parsed.host.rstrip("."):
        raise _blocked(text, "it names no host")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise _blocked(text, "its port does not exist")
    if "%" in parsed.host:
        raise _blocked(text, "its host holds a zone id or an escape")
    return parsed


def _literal_addresses(host: str, url: str) -> tuple[Address, ...]:
    """The addresses a host means without a look-up; an octal spelling has two readings, and both count."""
    bare = host.strip("[]")
    if ":" in bare:
        address = _address(bare)
        if address is None:
            raise _blocked(url, "its host is not an IPv6 address")
        return (address,)
    labels = bare.split(".")
    if not _NUMBER.fullmatch(labels[-1]):
        return ()
    readings = _ipv4_readings(labels)
    if not readings:
        raise _blocked(url, "its host looks like an IPv4 address and is none")
    return readings


def _ipv4_readings(labels: Sequence[str]) -> tuple[Address, ...]:
    """All IPv4 addresses that parsers make of 1 to 4 numbers (decimal, octal, hex; the last one fills up)."""
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) for label in labels):
        return ()
    readings = []
    for octal in (True, False):
        numbers = [_number(label, octal=octal) for label in labels]
        *front, last = numbers
        if any(number < 0 or number > 255 for number in front) or not 0 <= last < 256 ** (5 - len(numbers)):
            continue
        value = sum(number << (24 - 8 * place) for place, number in enumerate(front)) + last
        readings.append(ipaddress.IPv4Address(value))
    return tuple(dict.fromkeys(readings))


def _number(label: str, *, octal: bool) -> int:
    if len(label) > 64:
        return -1
    try:
        if label[:2] in {"0x", "0X"}:
            return int(label[2:] or "0", 16)
        return int(label, 8) if octal and label.startswith("0") else int(label)
    except ValueError:
        return -1


def _address(address: str | Address) -> Address | None:
    if not isinstance(address, str):
        return address
    try:
        return ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return None


def _why_blocked(address: Address) -> str | None:
    if isinstance(address, ipaddress.IPv4Address):
        return _why_blocked_v4(address)
    if address.scope_id is not None:
        return "scoped"
    if address in _METADATA_ADDRESSES:
        return "cloud metadata"
    if address in _MAPPED or address in _NAT64:
        inner = _why_blocked_v4(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        # NAT64 of loopback goes to the translator, not to us: never what a user means by "loopback".
        return "NAT64" if inner == "loopback" and address in _NAT64 else inner
    carried = [why for why in map(_why_blocked_v4, _carried_v4(address)) if why == "cloud metadata"]
    if carried:
        return carried[0]
    for network, why in _BLOCKED_V6:
        if address in network:
            return why
    if address not in _GLOBAL_V6:
        return "reserved"
    return _why_isatap(address)


def _why_blocked_v4(address: ipaddress.IPv4Address) -> str | None:
    if address in _METADATA_ADDRESSES:
        return "cloud metadata"
    return next((why for network, why in _BLOCKED_V4 if address in network), None)


def _carried_v4(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses inside tunnel forms that are refused anyway: only to say "metadata" where it is one."""
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    carried = [last] if int(address) >> 64 == 0 or address in _LOCAL_NAT64 else []
    if address.sixtofour is not None:
        carried.append(address.sixtofour)
    if address.teredo is not None:
        carried.extend(address.teredo)
    return carried


def _why_isatap(address: ipaddress.IPv6Address) -> str | None:
    if (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP:
        return None
    inner = _why_blocked_v4(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return f"ISATAP to a {inner}" if inner and inner != "cloud metadata" else inner


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
    if why == "cloud metadata":
        return ""
    return "; list the host in allowedHosts of your own settings if it is yours"
