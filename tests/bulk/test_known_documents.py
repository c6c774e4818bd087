"""What is new, changed, deleted and back again, by digests."""

from __future__ import annotations

import numpy as np

from quire.bulk import known_documents
from quire.bulk.known_documents import DigestSet, KnownDocuments


def _known(*entries: tuple[str, str, bool]) -> KnownDocuments:
    found = KnownDocuments()
    for key, etag, deleted in entries:
        found.add([key], [etag], [deleted])
    found.freeze()
    return found


def test_only_new_changed_and_returned_documents_are_new() -> None:
    known = _known(
        ("same", "1", False),
        ("changed", "1", False),
        ("gone", "1", False),
        ("back", "1", False),
        ("back", "", True),
    )
    new = known.is_new(["same", "changed", "back", "fresh"], ["1", "2", "1", "1"])
    assert new.tolist() == [False, True, True, True]
    assert known.any_gone
    assert known.is_gone(["same", "gone", "back", "gone"]).tolist() == [False, True, False, True]
    assert known.is_gone(["gone"]).tolist() == [False], "a key is reported once"


def test_an_earlier_version_is_new_when_it_comes_back() -> None:
    known = _known(("a", "1", False), ("a", "2", False))
    assert known.is_new(["a"], ["1"]).tolist() == [True]
    assert known.is_current(["a", "a", "b"], ["1", "2", "2"]).tolist() == [False, True, False]


def test_the_first_of_equal_texts_is_new_in_any_batch() -> None:
    seen = DigestSet()
    assert seen.add_new(["x", "y", "x"]).tolist() == [True, True, False]
    for start in range(0, 3000, 100):
        texts = [f"t{number}" for number in range(start, start + 100)]
        assert seen.add_new(texts).all()
        assert not seen.add_new(texts).any()
    assert seen.contains(["y", "z", "t2999"]).tolist() == [True, False, True]


def test_texts_are_told_apart_when_their_first_64_bits_agree() -> None:
    rows = np.array([[5, 1], [5, 2], [5, 9], [7, 1]], np.uint64)
    wanted = np.array([[5, 9], [5, 3], [7, 1], [8, 0], [5, 1]], np.uint64)
    assert known_documents._places(rows, wanted).tolist() == [2, -1, 3, -1, 0]
