"""Each PAGE_ setting moves the border of its class, and the defaults are those of the reader."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from quire.domain.page import PageClass, PageSignals
from quire.reading.pdf.page_signals import Marks, Thresholds, classify
from quire.settings import load

PLAIN = PageSignals(chars=500)
NO_MARKS = Marks(0.0, 0.0, 0, 0.0, has_outlined_text=False)
CHART = Marks(0.0, 0.0, 12, 0.04, has_outlined_text=False)

BORDERS = [
    # setting, value below, signals, marks, class at the default
    ("PAGE_PICTURE_COVERAGE", "0.11", replace(PLAIN, image_coverage=0.10), NO_MARKS, PageClass.HAS_GRAPHICS),
    ("PAGE_LARGEST_PICTURE", "0.07", replace(PLAIN, largest_image=0.06), NO_MARKS, PageClass.HAS_GRAPHICS),
    ("PAGE_CHART_PATHS", "13", PLAIN, CHART, PageClass.HAS_GRAPHICS),
    ("PAGE_CHART_COVERAGE", "0.05", PLAIN, CHART, PageClass.HAS_GRAPHICS),
    ("PAGE_GARBLED_RATIO", "0.21", replace(PLAIN, garbled_ratio=0.20), NO_MARKS, PageClass.GARBLED),
    (
        "PAGE_GARBLED_MIN_CHARS",
        "21",
        replace(PLAIN, chars=20, garbled_ratio=0.5),
        NO_MARKS,
        PageClass.GARBLED,
    ),
]


def thresholds(**given: str) -> Thresholds:
    return Thresholds(**asdict(load(given).page_class))


@pytest.mark.parametrize(
    ("name", "higher", "signals", "marks", "found"), BORDERS, ids=[one[0] for one in BORDERS]
)
def test_page_counts_as_text_when_its_threshold_is_raised(
    name: str, higher: str, signals: PageSignals, marks: Marks, found: PageClass
) -> None:
    assert classify(signals, marks, thresholds())[0] is found
    assert classify(signals, marks, thresholds(**{name: higher}))[0] is PageClass.TEXT_ONLY


@pytest.mark.parametrize("given", [{"PAGE_SCAN_COVERAGE": "0.56"}, {"PAGE_SCAN_MAX_CHARS": "119"}])
def test_page_is_no_scan_when_its_threshold_is_moved(given: dict[str, str]) -> None:
    signals = PageSignals(chars=120, image_coverage=0.55, largest_image=0.55)
    assert classify(signals, NO_MARKS, thresholds())[0] is PageClass.SCANNED
    assert classify(signals, NO_MARKS, thresholds(**given))[0] is PageClass.HAS_GRAPHICS


def test_defaults_are_those_of_the_reader_when_nothing_is_set() -> None:
    assert thresholds() == Thresholds()
