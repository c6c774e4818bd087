"""Which pages and elements of two documents correspond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quire.domain.document_diff import changed_elements, page_signature, paired_pages
from quire.domain.element import Element, ElementKind, PageElements


def page(number: int, *texts: str) -> PageElements:
    elements = [Element(f"p{number}-e{n}", ElementKind.PARAGRAPH, text) for n, text in enumerate(texts, 1)]
    return PageElements(number, tuple(elements))


def signed(*texts: str) -> list[tuple[int, bytes]]:
    return [(number, page_signature(page(number, text))) for number, text in enumerate(texts, 1)]


def test_later_pages_are_equal_when_one_is_inserted() -> None:
    pairs = paired_pages(signed("a", "b", "c"), signed("a", "new", "b", "changed"))
    assert [(one.a, one.b, one.change) for one in pairs] == [
        (1, 1, "equal"),
        (None, 2, "added"),
        (2, 3, "equal"),
        (3, 4, "changed"),
    ]


def test_elements_are_named_when_they_differ() -> None:
    found = changed_elements(page(1, "same", "old", "gone"), page(1, "same", "new"))
    assert [(one.change, one.a and one.a.text, one.b and one.b.text) for one in found] == [
        ("changed", "old", "new"),
        ("removed", "gone", None),
    ]
    assert changed_elements(page(1, "two  words"), page(1, "two words")) == []
    assert [one.change for one in changed_elements(None, page(1, "x"))] == ["added"]


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_every_page_is_in_one_pair(a: list[str], b: list[str]) -> None:
    pairs = paired_pages(signed(*a), signed(*b))
    assert [one.a for one in pairs if one.a is not None] == list(range(1, len(a) + 1))
    assert [one.b for one in pairs if one.b is not None] == list(range(1, len(b) + 1))
    for one in pairs:
        if one.equal:
            assert one.a is not None
            assert one.b is not None
            assert a[one.a - 1] == b[one.b - 1]
