"""Which addresses are refused, and what a spelling of an address means.

Policy: an explicit table. `is_global` of the standard library calls Azure's and Oracle's metadata, multicast,
site-local and several tunnel ranges global. IPv6 forms that carry an IPv4 address are judged by what they carry where
a network may really use them (mapped, NAT64), and refused otherwise (compatible, translated, 6to4, Teredo, local
NAT64).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = "cloud metadata"
LOOPBACK = "loopback"

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
_BLOCKED_V4 = tuple(
    (ipaddress.IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", LOOPBACK),
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
        ("::1/128", LOOPBACK),
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

NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def parse_address(address: str | Address) -> Address | None:
    """The address, or `None` for a text that is none."""
    if not isinstance(address, str):
        return address
    try:
        return ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return None


def why_refused(address: Address) -> str | None:
    """The kind of a refused address (`METADATA`, `LOOPBACK`, "private" …), `None` for a public unicast one."""
    if isinstance(address, ipaddress.IPv4Address):
        return _why_refused_v4(address)
    if address.scope_id is not None:
        return "scoped"
    if address in _METADATA_ADDRESSES:
        return METADATA
    if address in _MAPPED or address in _NAT64:
        inner = _why_refused_v4(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        # NAT64 of loopback goes to the translator, not to us: never what a user means by "loopback".
        return "NAT64" if inner == LOOPBACK and address in _NAT64 else inner
    carried = [why for why in map(_why_refused_v4, _carried_v4(address)) if why == METADATA]
    if carried:
        return carried[0]
    for network, why in _BLOCKED_V6:
        if address in network:
            return why
    if address not in _GLOBAL_V6:
        return "reserved"
    return _why_isatap(address)


def _why_refused_v4(address: ipaddress.IPv4Address) -> str | None:
    if address in _METADATA_ADDRESSES:
        return METADATA
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
    inner = _why_refused_v4(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return f"ISATAP to a {inner}" if inner and inner != METADATA else inner


def ipv4_readings(labels: Sequence[str]) -> tuple[Address, ...]:
    """All IPv4 addresses that parsers make of 1 to 4 numbers (decimal, octal, hex; the last one fills up)."""
    if len(labels) > 4 or not all(NUMBER.fullmatch(label) for label in labels):
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
