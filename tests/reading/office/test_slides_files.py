"""One presentation in three formats, as LibreOffice wrote it (from `data/steps.fodp`), and numbers of slides."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from quire.reading.office.slide_numbers import AutoNumber, SlideNumbers, auto_numbers, letter_runs
from quire.reading.pdf.page_reader import read_pages
from tests.reading.office.conftest import ReadMarkdown, ReadReading
from tests.support.office_files import pptx, shape

_DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("form", ["odp", "pptx", "ppt"])
def test_slides_are_the_same_in_every_format(form: str, tmp_path: Path) -> None:
    path = _DATA / f"steps.{form}"
    if not path.exists():  # the old format is mostly zeros
        packed, path = path.with_suffix(".ppt.gz"), tmp_path / "steps.ppt"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
    first, second, third = read_pages(str(path), None, [1, 2, 3])
    assert first.markdown == (
        "Steps\n\n1. Dry the gloves\n   - a) inside out\n   - b) in the shade\n2. Chalk the rope\n\n- free bullet\n\n"
        "plain text\n\nleft box\n\nright box"
    )
    assert second.markdown == "| Berth |  | Fee |\n|---|---|---|\n| A | north | 12 |"
    assert second.elements[0].table is not None
    assert [tuple(one) for one in second.elements[0].table.spans] == [(0, 0, 1, 2)]
    assert third.markdown == "*This slide is hidden.*\n\nQuiet"


@pytest.mark.parametrize(
    ("scheme", "start", "labels"),
    [
        ("arabicPeriod", 3, [("3.", ""), ("4.", "")]),
        ("alphaUcParenR", 1, [("-", "A)"), ("-", "B)")]),
        ("romanLcParenBoth", 4, [("-", "(iv)"), ("-", "(v)")]),
        ("arabicParenBoth", 1, [("-", "(1)"), ("-", "(2)")]),
        ("thaiAlphaPeriod", 1, [("1.", ""), ("2.", "")]),
    ],
)
def test_numbers_are_written_as_they_are_shown(
    scheme: str, start: int, labels: list[tuple[str, str]]
) -> None:
    numbers = SlideNumbers()
    assert [numbers.label(0, AutoNumber(scheme, start)) for _ in labels] == labels
    assert numbers.label(0, None) == ("-", "")
    assert numbers.label(0, AutoNumber(scheme, start)) == labels[0]


def test_entries_of_a_tag_say_which_paragraphs_are_numbered() -> None:
    plain = struct.pack("<III", 0, 0, 0)
    numbered = struct.pack("<IHHHII", 0x03000000, 1, 9, 2, 0, 0)
    without_scheme = struct.pack("<IHII", 0x02000000, 1, 0, 0)
    explicit_none = struct.pack("<IHII", 0x02000000, 0, 0, 0)
    found = auto_numbers(plain + numbered + without_scheme + explicit_none)
    assert found == [None, AutoNumber("alphaLcParenR", 2), AutoNumber(), None]
    assert len(auto_numbers(b"\xff" * 301)) < 50


def test_letters_point_to_the_entry_of_their_paragraph() -> None:
    runs = (
        struct.pack("<II", 5, 0)
        + struct.pack("<IIH", 4, 0x400, 2 << 10)
        + struct.pack("<IIHI", 9, 0x40001, 1, 7)
    )
    assert list(letter_runs(runs, 0, 18)) == [(5, 0), (9, 2), (18, 0)]
    assert list(letter_runs(runs[:-5], 0, 99))[:2] == [(5, 0), (9, 2)]


def test_footer_and_number_of_a_slide_are_elements_beside_its_text(reading: ReadReading) -> None:
    found = reading(pptx([shape("Plan", "title") + shape("Seaside", "ftr") + shape("7", "sldNum")]))
    assert found.markdown == "# Plan"
    kinds = [(one.kind.value, one.text, one.repeated) for one in found.elements]
    assert kinds[1:] == [("running_footer", "Seaside", True), ("page_number", "7", True)]


def test_slide_without_a_title_has_no_heading(markdown: ReadMarkdown) -> None:
    assert markdown(pptx([shape("Words", "body")])) == "Words"
    assert markdown(pptx([shape("Words", "body")], hidden=[1])) == "*This slide is hidden.*\n\nWords"
