"""Which address counts as the client's behind proxies."""

from __future__ import annotations

import ipaddress

import pytest

from quire.api.http.client_address import forwarded_address

TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "headers", "expected"),
    [
        (
            "203.0.113.9",
            ["198.51.100.1"],
            "203.0.113.9",
        ),  # the peer is no proxy: its header counts for nothing
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7, 198.51.100.1"], "198.51.100.1"),  # the client wrote the first one itself
        ("10.0.0.1", ["198.51.100.1, 10.2.0.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.7", "198.51.100.1, 10.2.0.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("fd00::1", ["[2001:db8::5]:80"], "2001:db8::5"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.9"], "10.0.0.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_address_is_the_nearest_one_that_is_no_proxy_when_headers_are_given(
    peer: str, headers: list[str], expected: str
) -> None:
    assert forwarded_address(peer, headers, TRUSTED) == expected
