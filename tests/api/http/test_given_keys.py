"""Which header of a request holds its API key."""

from __future__ import annotations

import base64

import pytest
from starlette.requests import Request

from quire.api.http.auth import given_key, has_valid_key
from quire.settings import ApiKey

PROXY = b"Basic " + base64.b64encode(b"user:password of the proxy")
KEYS = (ApiKey("team", "right"),)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"authorization", b"Bearer right")], b"right"),
        ([(b"authorization", b"Basic " + base64.b64encode(b"quire:right"))], b"right"),
        ([(b"authorization", b"Basic " + base64.b64encode(b"right:"))], b"right"),
        ([(b"authorization", PROXY), (b"x-api-key", b" right ")], b"right"),
        ([(b"unstructured-api-key", b"right"), (b"authorization", PROXY)], b"right"),
        ([(b"authorization", b"Bearer right"), (b"x-api-key", b"wrong")], b"right"),
        ([(b"authorization", b"Bearer "), (b"x-api-key", b"right")], b"right"),
        ([(b"authorization", PROXY)], b"password of the proxy"),
        ([(b"authorization", b"Basic ???")], None),
        ([(b"x-other", b"Bearer right")], None),
    ],
)
def test_the_key_is_found_beside_the_password_of_a_proxy(
    headers: list[tuple[bytes, bytes]], expected: bytes | None
) -> None:
    assert given_key(Request({"type": "http", "headers": headers})) == expected
    assert has_valid_key(KEYS, headers) is (expected == b"right")
