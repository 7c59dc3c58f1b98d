"""Where a connection may go: every spelling of an address, every class of address, every answer of a name."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebuddy_mcp_tools.errors import BlockedURLError
from codebuddy_mcp_tools.policy.outbound import OutboundRules, split_user_info, validate_outbound_url_async

PUBLIC = "93.184.216.34"


def answering(*answers: str):
    async def resolver(host: str, port: int) -> Sequence[str]:
        return answers

    return resolver


async def never(host: str, port: int) -> Sequence[str]:
    raise NotImplementedError("nothing may be looked up")


def like_libc(host: str, port: int) -> Sequence[str]:
    """What the system's resolver makes of spellings that are not host names to a URL parser."""
    try:
        return [socket.inet_ntoa(socket.inet_aton(host))]
    except OSError:
        return [PUBLIC]


METADATA = [
    "http://169.254.169.254/", "http://169.254.169.254./", "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/", "http://[::a9fe:a9fe]/", "http://[::ffff:0:a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b::169.254.169.254]/", "http://[64:ff9b:1::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::]/",
    "http://2852039166/",
    "http://0xA9FEA9FE/", "http://0xa9.0xfe.0xa9.0xfe/", "http://0251.0376.0251.0376/", "http://025177524776/",
    "http://169.254.43518/",
    "http://169.16689662/", "http://0xa9.254.0251.254/", "http://[fd00:ec2::254]/", "http://[fd00:ec2::23]/",
    "http://[fd20:ce::254]/",
    "http://[fd00:c1::a9fe:a9fe]/", "http://[fe80::a9fe:a9fe]/", "http://169.254.170.2/v2/credentials",
    "http://169.254.170.23/",
    "http://168.63.129.16/", "http://192.0.0.192/", "http://100.100.100.200/", "http://169.254.0.23/",
    "http://169.254.42.42/",
    "http://metadata.google.internal/", "http://METADATA.google.internal./", "http://metadata/",
    "http://metadata.goog/",
    "http://instance-data/", "http://metadata.tencentyun.com/", "http://[2001:0:a9fe:a9fe::]/",
    "http://[2606:4700::5efe:a9fe:a9fe]/", "http://[2606:4700::200:5efe:a9fe:a9fe]/",
    "http://metadata。google。internal/", "HTTP://169.254.169.254/", "http://169.254.169.254:80/",
    "http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/", "http://169｡254｡169｡254/", "http://１６９.254.169.254/", "http://ｍetadata.google.internal/",
    "http://169.254.169.254#@example.com/", "http://169.254.169.254?@example.com/", "http://2852039166./",
    "http://[0000:0000:0000:0000:0000:ffff:a9fe:a9fe]/", "http://[FD00:EC2:0:0:0:0:0:254]/", "http://0xA9.0xFE.43518/",
    "http://00000251.0376.0251.0376/", "http://[2002:a9fe:a9fe::1]/", "http://[::FFFF:169.254.169.254]/",
]  # fmt: skip

LOOPBACK = [
    "http://127.0.0.1/", "http://127.0.0.1:8080/", "http://127.1/", "http://127.0.1/", "http://127.255.255.254/",
    "http://2130706433/",
    "http://0x7f000001/", "http://0x7f.1/", "http://0x7F.0.0.1/", "http://0177.0.0.1/", "http://017700000001/",
    "http://0177.1/",
    "http://127.0.0.1./", "http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::0001]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/", "http://localhost/", "http://LOCALHOST/", "http://localhost./",
    "http://app.localhost/",
    "http://localhost:3001/mcp", "http://127。0。0。1/", "http://127．0．0．1/",
    "http://localhost。/", "http://127.0.0.1\u3002/", "http://[::1]:6379/", "http://[::ffff:7f00:0001]/", "http://127.0.0.1:080/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]/",
]  # fmt: skip

PRIVATE = [
    "http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.1/", "http://3232235521/", "http://0xc0a80001/", "http://0300.0250.0.1/", "http://012.0.0.1/",
    "http://010.8.8.8/",  # octal 8.8.8.8, decimal 10.8.8.8
    "http://169.254.1.1/", "http://100.64.0.1/", "http://100.127.255.255/", "http://0.0.0.0/", "http://0/",
    "http://0.1.2.3/",
    "http://00/", "http://0x0/", "http://[::]/", "http://224.0.0.1/", "http://239.255.255.250/", "http://240.0.0.1/",
    "http://255.255.255.255/", "http://4294967295/", "http://192.0.2.1/", "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://198.18.0.1/", "http://198.19.255.255/", "http://192.0.0.1/", "http://192.88.99.1/",
    "http://192.31.196.1/",
    "http://192.52.193.1/", "http://192.175.48.1/", "http://[::ffff:10.0.0.1]/", "http://[::ffff:c0a8:1]/",
    "http://[::10.0.0.1]/",
    "http://[::7f00:1]/", "http://[::8.8.8.8]/", "http://[::ffff:0:7f00:1]/", "http://[::ffff:0:808:808]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::10.0.0.1]/", "http://[64:ff9b:1::808:808]/", "http://[2002:7f00:1::]/",
    "http://[2002:808:808::1]/",
    "http://[2001::1]/", "http://[2001:db8::1]/", "http://[2001:10::1]/", "http://[2001:2::1]/", "http://[3fff::1]/",
    "http://[5f00::1]/", "http://[100::1]/", "http://[100:0:0:1::1]/", "http://[fc00::1]/", "http://[fd12:3456::1]/",
    "http://[fe80::1]/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[4000::1]/", "http://[::1:0:0:1]/",
    "http://[e000::1]/",
    "http://[2606:4700::5efe:7f00:1]/", "http://[2606:4700::200:5efe:a00:1]/", "http://[2620:4f:8000::1]/",
]  # fmt: skip

MALFORMED = [
    "", "http://", "http:///path", "https:", "//host/", "host", "http:host", "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)", "gopher://example.com/", "ws://example.com/", "unix:///run/docker.sock",
    "http+unix://x/", "--flag",
    "http://user@example.com/", "http://user:pw@example.com/", "http://:pw@example.com/", "http://@example.com/",
    "http://example.com@169.254.169.254/", "http://127.0.0.1@example.com/", "http://a@b@example.com/",
    "http://example.com\\@127.0.0.1/", "http:\\\\example.com\\", "http://exam ple.com/", " http://example.com/",
    "http://example.com/\n", "http://example.com\t/", "http://example.com\r\nHost: x/", "http://exam\x00ple.com/",
    "http://example.com:99999/", "http://example.com:x/", "http://[::1", "http://::1/", "http://[::1]x/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/", "http://[::ffff:999.1.1.1]/", "http://[zz::1]/", "http://[v1.x]/",
    "http://1.2.3.4.5/", "http://256.1.1.1/",
    "http://999.999.999.999/", "http://1.2.3.256/", "http://0x100000000/", "http://4294967296/", "http://09.0.0.1/",
    "http://exam\u00a0ple.com/", "http://./", "http://../", "http://example%2ecom/",
    "http://127.0.0.1%00.example.com/", "http://a.b.1.2.3.4/", "http://xn--localhost-/", "http://xn--a-/",
    "http:169.254.169.254/", "http:/169.254.169.254/", "http:///169.254.169.254/", "http://169.254.169.254%2f/",
    "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/", "http://127.1.1.1:80\\@127.2.2.2:80/", "http://loc%61lhost/",
    "http://localhost%00/", "http://%31%32%37.0.0.1/", "http://[::1%25]/", "http://[[::1]]/", "http://[v7.::1]/",
    "http://[2001:4860:4860::8888%eth0]/", "http://127.0.0.1:0/", "http://127.0.0.1:-1/", "http://example.com:80:80/",
    "http://example.com.\u2028/", "http://\u202eexample.com/", "http+unix://%2Frun%2Fx.sock/",
    "http://ⓛocalhost/", "http://loca\u00adlhost/", "http://①②⑦.0.0.1/", "http://𝟏𝟐𝟕.𝟎.𝟎.𝟏/",
]  # fmt: skip


def test_the_tables_hold_at_least_120_spellings() -> None:
    assert len({*METADATA, *LOOPBACK, *PRIVATE, *MALFORMED}) >= 120


@pytest.mark.case("B62")
@pytest.mark.parametrize("url", [*METADATA, *LOOPBACK, *PRIVATE, *MALFORMED])
async def test_no_spelling_of_a_refused_address_is_looked_up_or_dialled(url: str) -> None:
    with pytest.raises(BlockedURLError):
        await validate_outbound_url_async(url, resolver=never)


@pytest.mark.parametrize("url", METADATA)
async def test_metadata_is_refused_whatever_the_user_lists(url: str) -> None:
    lists = (
        "0.0.0.0/0",
        "::/0",
        "169.254.169.254",
        "*.internal",
        "metadata.google.internal",
        "metadata",
        "metadata.goog",
        "*",
    )
    with pytest.raises(BlockedURLError, match=r"metadata|not a URL"):
        await validate_outbound_url_async(url, allow_loopback=True, allowed_hosts=lists, resolver=never)


_OCTAL = ("http://0177", "http://0x7F.0.0.1")  # httpx itself takes no octal


@pytest.mark.parametrize(
    "url", [url for url in LOOPBACK if "localhost" not in url.lower() and not url.startswith(_OCTAL)]
)
async def test_loopback_is_allowed_where_the_scope_allows_it(url: str) -> None:
    addresses = await validate_outbound_url_async(url, allow_loopback=True, resolver=never)
    assert all(
        address.startswith("127.") or "::1" in address or "7f00" in address or "127." in address
        for address in addresses
    )


async def test_localhost_is_looked_up_and_its_answers_are_checked() -> None:
    both = answering("127.0.0.1", "::1")
    assert await validate_outbound_url_async("http://localhost:3001/mcp", allow_loopback=True, resolver=both) == (
        "127.0.0.1",
        "::1",
    )
    with pytest.raises(BlockedURLError):
        await validate_outbound_url_async("http://localhost/", allow_loopback=True, resolver=answering("10.0.0.1"))


@pytest.mark.parametrize("url", PRIVATE)
async def test_allowing_loopback_allows_nothing_else(url: str) -> None:
    with pytest.raises(BlockedURLError):
        await validate_outbound_url_async(url, allow_loopback=True, resolver=never)


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("http://8.8.8.8/", ("8.8.8.8",)),
        ("https://1.1.1.1:8443/x", ("1.1.1.1",)),
        ("http://134744072/", ("8.8.8.8",)),
        ("http://[2606:4700:4700::1111]/", ("2606:4700:4700::1111",)),
        ("http://[64:ff9b::808:808]/", ("64:ff9b::808:808",)),
        ("http://[::ffff:8.8.8.8]/", ("::ffff:808:808",)),
        ("http://172.15.255.255/", ("172.15.255.255",)),
        ("http://172.32.0.1/", ("172.32.0.1",)),
        ("http://100.63.255.255/", ("100.63.255.255",)),
        ("http://169.253.1.1/", ("169.253.1.1",)),
        ("http://11.0.0.1/", ("11.0.0.1",)),
        ("http://223.255.255.255/", ("223.255.255.255",)),
    ],
)
async def test_public_addresses_pass(url: str, addresses: tuple[str, ...]) -> None:
    found = await validate_outbound_url_async(url, resolver=never)
    assert [socket.getaddrinfo(a, 1, flags=socket.AI_NUMERICHOST)[0][4][0] for a in found] == [
        socket.getaddrinfo(a, 1, flags=socket.AI_NUMERICHOST)[0][4][0] for a in addresses
    ]


@pytest.mark.parametrize(
    "host", ["example.com", "EXAMPLE.com.", "bücher.example", "xn--bcher-kva.example", "a-b.c1", "1e100.net"]
)
async def test_names_pass_with_public_answers(host: str) -> None:
    assert await validate_outbound_url_async(f"https://{host}/mcp", resolver=answering(PUBLIC, PUBLIC)) == (PUBLIC,)


@pytest.mark.case("B62")
@pytest.mark.parametrize(
    "bad", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "nonsense", ""]
)
async def test_one_bad_answer_among_good_ones_refuses_the_name(bad: str) -> None:
    for answers in ((PUBLIC, bad), (bad, PUBLIC), (bad,)):
        with pytest.raises(BlockedURLError):
            await validate_outbound_url_async("https://rebind.example/", resolver=answering(*answers))


@pytest.mark.case("B62")
async def test_a_name_whose_answer_changes_is_judged_each_time_and_the_answer_judged_is_the_one_returned() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def flipping(host: str, port: int) -> Sequence[str]:
        return next(answers)

    rules = OutboundRules()
    assert await rules.resolve("rebind.example", 443, flipping) == (PUBLIC,)
    with pytest.raises(BlockedURLError):
        await rules.resolve("rebind.example", 443, flipping)


async def test_a_name_that_does_not_resolve_is_not_allowed() -> None:
    async def failing(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(BlockedURLError, match="does not resolve"):
        await validate_outbound_url_async("https://gone.example/", resolver=failing)
    with pytest.raises(OSError, match="not known"):
        await OutboundRules().resolve("gone.example", 443, failing)
    with pytest.raises(BlockedURLError, match="no address"):
        await validate_outbound_url_async("https://empty.example/", resolver=answering())


def test_the_refusal_shows_no_secret_and_no_control_character() -> None:
    for url in (
        "ftp://u:PASS@h/p?key=QSEC",
        "http://u:PASS@10.0.0.1/p?key=QSEC",
        "http://10.0.0.1/\x1b[31mp?key=QSEC",
        "http://[::1?key=QSEC",
    ):
        with pytest.raises(BlockedURLError) as caught:
            OutboundRules().check_url(url)
        assert "PASS" not in str(caught.value)
        assert "QSEC" not in str(caught.value)
        assert str(caught.value).isprintable()


def test_user_info_becomes_a_header() -> None:
    assert split_user_info("http://u:p%40ss@h:1/mcp?a=b") == ("http://h:1/mcp?a=b", "Basic dTpwQHNz")
    assert split_user_info("http://h/mcp") == ("http://h/mcp", None)
    assert split_user_info("http://[") == ("http://[", None)


def test_a_parsed_url_is_taken_too() -> None:
    OutboundRules().check_url(httpx.URL("https://example.com/mcp"))
    with pytest.raises(BlockedURLError):
        OutboundRules().check_url(httpx.URL("https://10.0.0.1/mcp"))


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["{0}", "0x{0:x}", "0{0:o}", "[::ffff:{1:x}:{2:x}]", "[64:ff9b::{1:x}:{2:x}]"]),
)
def test_every_spelling_of_an_ipv4_address_is_judged_like_the_plain_one(value: int, spelling: str) -> None:
    plain = ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))
    spelled = spelling.format(value, value >> 16, value & 0xFFFF)

    def refused(host: str) -> bool:
        try:
            OutboundRules().check_url(f"http://{host}/")
        except BlockedURLError:
            return True
        return False

    assert refused(spelled) or not refused(plain)


@given(st.text(max_size=40))
def test_nothing_but_a_refusal_is_raised_for_any_text(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}/x", f"http://example.com/{text}"):
        with contextlib.suppress(BlockedURLError):
            OutboundRules(allow_loopback=True, allowed_hosts=(text,)).check_url(url)
