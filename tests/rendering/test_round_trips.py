"""What is written from the elements of real documents leads back to them; `bench/round_trips.py` does the corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quire.domain.element import Element, ElementKind, PageElements
from tests.support import round_trips
from tests.support.environment import ROOT
from tests.support.round_trips import RoundTrips, check_document, read_elements

FORMS = {
    "chunks at their boxes",
    "citations at their boxes",
    "docling documents",
    "html documents",
    "markdown blocks",
}


@pytest.mark.parametrize("name", ["text.pdf", "tables.pdf", "two-columns.pdf", "odd-rotated.pdf", "notes.md"])
def test_all_forms_of_a_document_lead_back_to_its_elements(name: str) -> None:
    trips = RoundTrips()
    check_document(ROOT / "samples" / name, trips, most_pages=2)
    assert not trips.failed, trips.examples
    assert set(trips.checked) >= (
        FORMS if name.endswith(".pdf") else {"docling documents", "markdown blocks"}
    )
    errors = sorted(trips.word_errors)
    assert not errors or errors[len(errors) // 2] < 0.2, "the boxes of words are near"


def test_a_form_that_does_not_lead_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "samples" / "text.pdf"
    (page,) = read_elements(path, 1)
    corner = (500.0, 5.0, 510.0, 9.0)
    away = tuple(
        replace(one, box=corner, lines=tuple(line._replace(box=corner) for line in one.lines))
        for one in page.elements
    )
    bad = Element("p1-e1", ElementKind.PARAGRAPH, "", markdown="# No paragraph")

    def moved(_path: Path, _most: int) -> list[PageElements]:
        return [replace(page, elements=(*away, bad))]

    monkeypatch.setattr(round_trips, "read_elements", moved)
    trips = RoundTrips()
    check_document(path, trips)
    assert set(trips.failed) >= {"chunks at their boxes", "citations at their boxes", "markdown blocks"}
    assert "html documents" in trips.failed, "an id is used twice"
