"""Which addresses and links may be reached, judged without any network."""

from __future__ import annotations

import pytest

from quire.errors import LinkRefusedError
from quire.links import LinkPolicy, check_url, is_reachable

STRICT, LENIENT = LinkPolicy(), LinkPolicy(allow_private=True)

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
]
PRIVATE = [
    *(
        "127.0.0.1",
        "127.255.255.254",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
    ),
    *("198.18.0.1", "::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::127.0.0.1"),
]
NEVER = [
    *("0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "192.0.0.192", "192.0.2.1", "203.0.113.9"),
    *("224.0.0.1", "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "::", "fe80::1"),
    *("fe80::1%1", "ff02::1", "fd00:ec2::254", "fd20:ce::254", "2002:7f00:1::", "2002:808:808::"),
    *(
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
    ),
    *("64:ff9b:1::1", "::127.0.0.1", "fec0::1", "100::1", "5f00::1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_address_is_reachable_when_public(address: str) -> None:
    assert is_reachable(address, allow_private=False)


@pytest.mark.parametrize("address", PRIVATE)
def test_address_is_reachable_only_with_leave_when_private(address: str) -> None:
    assert not is_reachable(address, allow_private=False)
    assert is_reachable(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_address_is_never_reachable_when_special(address: str) -> None:
    assert not is_reachable(address, allow_private=False)
    assert not is_reachable(address, allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]:8080/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://x.localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:pass@10.0.0.1/",
        "http://example.com@127.0.0.1/",
        "http://0/",
    ],
)
def test_link_is_refused_when_its_host_is_a_private_address_in_any_spelling(url: str) -> None:
    with pytest.raises(LinkRefusedError):
        check_url(url, STRICT)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/a",
        "file:///etc/passwd",
        "gopher://example.com",
        "javascript:alert(1)",
        "//example.com/a",
        "example.com/a",
        "http:///a",
        "http://",
        "",
        "http://exa mple.com/",
        "http://example.com/\r\nX-Injected: 1",
        "http://example.com/a%00.pdf",
        "http://example.com:25/",
        "http://example.com:99999/",
        "http://example.com:0/",
        "http://[::1/",
        "http://example.com/" + "a" * 9000,
    ],
)
def test_link_is_refused_when_malformed_or_not_http(url: str) -> None:
    with pytest.raises(LinkRefusedError):
        check_url(url, LENIENT)


def test_link_loses_credentials_and_fragment_when_checked() -> None:
    link = check_url("https://user:pass@Example.COM/a%2Fb?x=1&y=%20#part", STRICT)
    assert link.url == "https://example.com/a%2Fb?x=1&y=%20"
    assert (link.scheme, link.host, link.port) == ("https", "example.com", 443)


def test_refusal_does_not_repeat_the_query_when_shown() -> None:
    with pytest.raises(LinkRefusedError) as caught:
        check_url("http://me:hunter2@10.0.0.1/?signature=abc", STRICT)
    assert "hunter2" not in caught.value.public
    assert "abc" not in caught.value.public
    assert "10.0.0.1" in caught.value.public


def test_disguised_number_is_refused_when_private_links_are_allowed() -> None:
    with pytest.raises(LinkRefusedError):
        check_url("http://2130706433/", LENIENT)
    assert check_url("http://127.0.0.1:9000/x", LENIENT).port == 9000
