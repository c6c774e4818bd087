"""Lines of the margins that Markdown leaves out are in the order of the page, among those that it shows."""

from __future__ import annotations

from pathlib import Path

import pymupdf

from quire.domain.element import Element, ElementKind
from quire.reading.pdf.page_margins import with_margins_in_order
from quire.reading.pdf.page_reader import read_pages
from quire.rendering.page_markdown import MarkdownOptions, render_markdown

TEXT = "The harbour office answers every letter within a week of its arrival, but for holidays. " * 9


def test_a_line_that_is_shown_above_a_repeated_one_comes_first(tmp_path: Path) -> None:
    document = pymupdf.open()
    for number in range(1, 5):
        page = document.new_page()
        page.insert_text((72, 40), f"Invoice 2024-00{16 + number}", fontsize=9)
        page.insert_text((72, 55), "Customer of the harbour office", fontsize=9)
        page.insert_textbox((72, 110, 523, 780), TEXT)
    path = tmp_path / "invoices.pdf"
    document.save(path)
    for reading in read_pages(str(path), None, [2, 3]):
        texts = [one.text for one in reading.elements]
        assert texts[:2] == [f"Invoice 2024-00{16 + reading.number}", "Customer of the harbour office"]
        assert [one.id for one in reading.elements] == [
            f"p{reading.number}-e{at}" for at in range(1, len(texts) + 1)
        ]
        assert "Customer" not in reading.markdown
        kept = render_markdown(reading.elements, MarkdownOptions(keep_running=True))
        assert kept.startswith(f"{texts[0]}\n\n{texts[1]}\n\n")


def test_a_line_that_is_shown_below_a_repeated_one_comes_last() -> None:
    made = [
        Element("p3-e1", ElementKind.PARAGRAPH, "text", (72, 100, 500, 700)),
        Element("p3-e2", ElementKind.TABLE, "", (72, 800, 500, 810)),
        Element("p3-e3", ElementKind.PARAGRAPH, "Total", (72, 820, 500, 830), parent="p3-e2"),
        Element("p3-e4", ElementKind.RUNNING_FOOTER, "The bank", (72, 812, 500, 819), repeated=True),
    ]
    found = with_margins_in_order(made, 3)
    assert [(one.id, one.text, one.parent) for one in found] == [
        ("p3-e1", "text", None),
        ("p3-e2", "", None),
        ("p3-e3", "The bank", None),
        ("p3-e4", "Total", "p3-e2"),
    ]
    assert with_margins_in_order(made[:3], 3) == made[:3]
