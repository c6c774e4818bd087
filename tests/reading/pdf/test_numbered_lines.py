"""Text with numbered lines, as transcripts and pleadings have it, is text; numbered rows are a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymupdf
import pytest

from quire.domain.element import ElementKind
from quire.reading.pdf.page_reader import read_pages
from tests.reading.conftest import Make, write

SAID = (
    "Q.   Where was the boat when you came down to the",
    "quay in the morning?",
    "A.   It was where we had left it, at the steps, and",
    "no one had seen him. We waited there until noon and",
    "then went home.",
    "",
    "Q.   Did you look into the shed that day or did you",
    "leave it to the harbour master, who had the key to",
    "it and to the gate?",
    "A.   He looked. I saw the light of his lamp in the",
    "window, and then it was dark again.",
)


def transcript(texts: Sequence[str], gap: float) -> Any:
    document = pymupdf.open()
    page: Any = document.new_page()
    write(page, 290, 60, "Hearing of May 6", size=11)
    for at, text in enumerate(texts):
        number = str(at + 1)
        write(page, 80 - pymupdf.get_text_length(number, fontsize=11), 110 + 24 * at, number, size=11)
        write(page, 80 + gap, 110 + 24 * at, text, size=11)
    return document


@pytest.mark.parametrize("gap", [8, 20, 40])
def test_lines_keep_their_numbers_when_a_transcript_is_read(gap: float, save: Make) -> None:
    reading = read_pages(save(transcript(SAID, gap)), None, [1])[0]
    assert not any(one.table for one in reading.elements)
    wanted = [f"{at} {' '.join(text.split())}".strip() for at, text in enumerate(SAID, 1)]
    (text,) = (one for one in reading.elements if one.text.startswith("1 Q."))
    assert text.text.split("\n") == wanted
    assert [text.text[line.start :].split("\n")[0] for line in text.lines] == wanted
    assert reading.words_missing == 0


def test_lines_keep_their_numbers_when_some_are_empty(save: Make) -> None:
    titles = (
        "IN THE COURT OF THE PORT",
        "",
        "Mary Hill,",
        "Owner         :",
        "v.            :  No. 7",
        "The Port",
    )
    reading = read_pages(save(transcript((*titles, "", "", "", "Washington", ""), 20)), None, [1])[0]
    assert not any(one.table for one in reading.elements)
    assert "3 Mary Hill,\n4 Owner :\n5 v. : No. 7\n6 The Port\n7\n8" in reading.markdown


def test_numbered_rows_are_a_table_when_they_are_names_and_figures(save: Make) -> None:
    document = pymupdf.open()
    page: Any = document.new_page()
    for at, name in enumerate(
        ("apples", "pears", "plums", "figs", "quinces", "nuts", "grapes", "dates", "limes")
    ):
        for x, text in ((72, str(at + 1)), (110, name), (250, f"{at * 7 + 3}.50"), (350, str(at * 31 + 12))):
            write(page, x, 110 + 16 * at, text, size=10)
    reading = read_pages(save(document), None, [1])[0]
    assert [one.kind for one in reading.elements] == [ElementKind.TABLE]


def test_titles_with_numbers_before_them_are_not_numbered_lines(save: Make) -> None:
    reading = read_pages(
        save(transcript([f"Report of the committee {at}" for at in range(12)], 20)), None, [1]
    )[0]
    assert not any("\n" in one.text for one in reading.elements)
