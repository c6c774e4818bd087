from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.links import safe_filename, sign, unique_name, verify


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\Scan 1.pdf", "Scan 1.pdf"),
        ("a\x00b\r\n.pdf", "ab.pdf"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("..", "document"),
        ("", "document"),
        ("///", "document"),
        ("\u200f\u200e", "document"),
        (".htaccess", "htaccess"),
        ("nul.txt", "_nul.txt"),
        ("a<b>|c?.md", "a_b__c_.md"),
        ("a\uff0fb.pdf", "a_b.pdf"),
        ("Übersicht – größer.pdf", "Übersicht – größer.pdf"),
        ("報告書.pdf", "報告書.pdf"),
        ("broken\udcff.pdf", "broken.pdf"),
    ],
)
def test_filename_is_made_safe_when_given(given_name: str, kept: str) -> None:
    assert safe_filename(given_name) == kept


def test_filename_keeps_its_ending_when_cut() -> None:
    cut = safe_filename("é" * 300 + ".pdf")
    assert cut.endswith("é.pdf")
    assert 195 <= len(cut.encode()) <= 200


@given(st.text(alphabet=st.characters()))
def test_filename_is_safe_when_anything_is_given(name: str) -> None:
    kept = safe_filename(name)
    assert kept
    assert kept not in {".", ".."}
    assert len(kept.encode()) <= 200
    assert not set(kept) & set('/\\\0\r\n\t"\u202e\u200f')
    assert safe_filename(kept) == kept


def test_signature_is_accepted_when_made_with_the_same_secret() -> None:
    header = sign(b'{"a":1}', "s3cret", 1_700_000_000)
    # The reference was computed with `openssl dgst -sha256 -hmac`.
    assert header == "t=1700000000,v1=1698a50bc74d1ff1db85c4e0a5297c2ad9fdba245d5737cdb789e4cc6e098940"
    assert verify(b'{"a":1}', "s3cret", header, now=1_700_000_100)


@pytest.mark.parametrize(
    ("body", "secret", "now", "change"),
    [
        (b'{"a":2}', "s3cret", 1_700_000_000, ""),
        (b'{"a":1}', "other", 1_700_000_000, ""),
        (b'{"a":1}', "s3cret", 1_700_000_301, ""),
        (b'{"a":1}', "s3cret", 1_699_999_699, ""),
        (b'{"a":1}', "s3cret", 1_700_000_000, "0"),
        (b'{"a":1}', "s3cret", 1_700_000_000, "é"),
    ],
)
def test_signature_is_rejected_when_anything_differs(body: bytes, secret: str, now: int, change: str) -> None:
    header = sign(b'{"a":1}', "s3cret", 1_700_000_000)
    assert not verify(body, secret, header + change, now=now)


def test_a_name_that_is_taken_gets_a_number() -> None:
    taken = {"failures.json"}
    wanted = ["a.md", "A.md", "failures.json", "x", "x", "../a.md", ""]
    found = [unique_name(name, taken) for name in wanted]
    assert found == ["a.md", "A-2.md", "failures-2.json", "x", "x-2", "a-3.md", "document"]
