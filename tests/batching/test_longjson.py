"""Whatever the JSON looks like and wherever the network cuts it, the same comes out as from the ordinary parser."""

from __future__ import annotations

import base64
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.batching.longjson import LongJson, read_complete
from quire.errors import RequestError


def read(body: bytes, cuts: list[int]) -> tuple[dict[str, object], bytes]:
    reader = LongJson("image_data")
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    data = b"".join(reader.feed(body[at:to]) for at, to in pairwise(edges))
    fields, rest = reader.end()
    return fields, data + rest


def whole(body: bytes) -> object:
    """What comes out of a body that is there already, a refusal included."""
    try:
        fields, data = read_complete(bytearray(body), "image_data")
    except RequestError as error:
        return error.public
    return fields, bytes(data)


def in_pieces(body: bytes) -> object:
    try:
        return read(body, [])
    except RequestError as error:
        return error.public


others = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "image_data"),
    st.recursive(
        st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=40),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(
    data=st.binary(min_size=1, max_size=200) | st.binary(min_size=4000, max_size=9000),
    before=others,
    after=others,
    slashes=st.booleans(),
    breaks=st.booleans(),
    ascii_only=st.booleans(),
    indent=st.none() | st.integers(0, 3),
    cuts=st.lists(st.integers(0, 20_000), max_size=12),
)
def test_fields_and_bytes_are_right_when_the_json_is_cut_anywhere(
    data: bytes,
    before: dict[str, object],
    after: dict[str, object],
    slashes: bool,
    breaks: bool,
    ascii_only: bool,
    indent: int | None,
    cuts: list[int],
) -> None:
    text = base64.b64encode(data).decode()
    if breaks:
        text = "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    rest = {**before, **after}
    whole = {**before, "image_data": text, **after}
    body = json.dumps(whole, ensure_ascii=ascii_only, indent=indent)
    if slashes:
        body = body.replace("/", "\\/")
    fields, decoded = read(body.encode("utf-8", "surrogatepass" if not ascii_only else "strict"), cuts)
    assert decoded == data
    assert fields == rest


@pytest.mark.parametrize(
    "text",
    [
        "QUJD=",
        "QU=JD",
        "QUI=QUJD",
        "QUJ",
        "QUJD QUJD",
        "QUJ\\\\/",
        "QUJ-",
        "QUJ\\u0100",
        "\\ud83d\\ude00QUJD",
        "QUJ\\b",
    ],
)
@pytest.mark.parametrize("length", [0, 8000])
@pytest.mark.parametrize("cut", [0, 3, 4100])
def test_base64_is_refused_when_it_is_wrong_anywhere(text: str, length: int, cut: int) -> None:
    body = b'{"image_data": "' + b"QUJD" * (length // 4) + text.encode() + b'"}'
    with pytest.raises(RequestError):
        read(body, [cut, len(body) - 3, len(body) - 5])


@pytest.mark.parametrize("length", [4, 40_000])
def test_data_url_is_understood_when_a_browser_sends_one(length: int) -> None:
    data = bytes(range(256)) * (length // 256 + 1)
    body = b'{"image_data": "data:image/png;base64,' + base64.b64encode(data) + b'"}'
    assert read(body, [10, 30, 4000])[1] == data


@pytest.mark.parametrize(
    "body",
    [
        b'{"image_data": "' + b"QUJD" * 3000,
        b'{"image_data": "' + b"QUJD" * 3000 + b'"',
        b'{"image_data": "' + b"QUJD" * 3000 + b'" "x": 1}',
        b'{"image_data": "' + b"QUJD" * 3000 + b'", "other": "' + b"QUJD" * 3000 + b'"}',
        b'{"other": "' + b"QUJD" * 3000 + b'"}',
        b'{"' + b"QUJD" * 3000 + b'": 1}',
        b'{"image_data": "QUJD", "n": NaN}',
        b'{"image_data": "QUJD", "n": ' + b"[" * 20_000 + b"}",
        b'{"image_data": "QUJD"}' + b" " * 70_000,
        b'"' + b"QUJD" * 3000 + b'"',
    ],
    ids=range(10),
)
def test_body_is_refused_when_it_is_no_such_object(body: bytes) -> None:
    with pytest.raises(RequestError):
        read(body, [5, 5000])


@pytest.mark.parametrize(
    "body",
    [
        b'{"image_data": "QUJD"}',
        b'{"image_data":"QUJD","filename":"image_data"}',
        b'{"filename":"image_data\\":","image_data" : "QUJD"}',
        b'{"a": {"image_data": "QUJD"}, "image_data": "REVG"}',
        b'{"a": ["image_data"], "b": "image_data", "image_data": "REVG"}',
        b'{"image_data": "QU\\/D", "x": 1}',
        b'{"image_data": "data:image/png;base64,QUJD"}',
        b'{"image_data": "QUJ"}',
        b'{"image_data": "QUJD", "image_data": "REVG"}',
        b'{"image_data": 7}',
        b'{"image_data": ""}',
        b'{"image_data": null, "x": "QUJD"}',
        b'{"x": "image_data"}',
        b'{"image_data": "QUJD"',
        b'["image_data", "QUJD"]',
        b'{"image_data": "QUJD", "x": NaN}',
        b'\xff{"image_data": "QUJD"}',
        b'{"image_data": "QUJD", "x": "' + b"A" * 70_000 + b'"}',
        b"",
    ],
)
def test_whole_body_is_read_as_one_in_pieces_when_it_is_odd(body: bytes) -> None:
    assert whole(body) == in_pieces(body)


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(min_size=1, max_size=9000),
    before=others,
    after=others,
    indent=st.none() | st.integers(0, 3),
)
def test_whole_body_is_read_as_one_in_pieces_when_it_is_anything(
    data: bytes, before: dict[str, object], after: dict[str, object], indent: int | None
) -> None:
    given = {**before, "image_data": base64.b64encode(data).decode(), **after}
    body = json.dumps(given, indent=indent).encode()
    assert whole(body) == in_pieces(body)
    assert whole(body) == ({**before, **after}, data)
