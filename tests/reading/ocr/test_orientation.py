"""Pages of six scripts are upright after they were turned, and upright ones are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from quire.reading.ocr import ink_lines, line_direction, page_orientation
from quire.reading.ocr.page_posture import posture_of

from . import scans, script_pages

PAGES = [
    ("latin", "prose", "noisy"),
    ("latin", "sparse", "clean"),
    ("cyrillic", "table", "clean"),
    ("cyrillic", "letter", "photographed"),
    ("chinese", "prose", "clean"),
    ("chinese", "columns", "noisy"),
    ("chinese", "sparse", "photographed"),
    ("arabic", "prose", "clean"),
    ("arabic", "letter", "noisy"),
    ("arabic", "columns", "photographed"),
    ("arabic", "sparse", "noisy"),
    ("devanagari", "prose", "skewed"),
    ("devanagari", "table", "noisy"),
    ("devanagari", "sparse", "low contrast"),
    ("greek", "picture", "low contrast"),
    ("greek", "columns", "noisy"),
]


def drawn(script: str, layout: str, condition: str) -> Image.Image:
    return script_pages.CONDITIONS[condition](script_pages.script_page(script, layout, 1), 1)


def test_orientation_model_is_installed() -> None:
    assert page_orientation.available()


@pytest.mark.parametrize(("script", "layout", "condition"), PAGES)
def test_page_is_made_upright_and_upright_page_is_kept_when_its_script_varies(
    script: str, layout: str, condition: str
) -> None:
    page = drawn(script, layout, condition)
    found = [posture_of(script_pages.turned(page, quarters)).turns for quarters in range(4)]
    assert found == [0, 3, 2, 1]


@pytest.mark.parametrize("script", ["latin", "arabic", "devanagari"])
def test_lines_are_upright_one_way_and_upside_down_the_other_when_their_script_varies(script: str) -> None:
    page = script_pages.script_page(script, "letter", 2)
    for quarters, likely in ((0, 0), (2, 1), (1, 2)):
        found = ways_up(script_pages.turned(page, quarters))
        assert max(range(3), key=lambda way: found[way]) == likely


def test_nothing_is_said_of_lines_when_there_are_none() -> None:
    assert ways_up(Image.new("L", (300, 400), 255)) == (0.0, 0.0, 0.0)


def ways_up(picture: Image.Image) -> tuple[float, float, float]:
    small = ink_lines.small_copy(picture)
    ink = ink_lines.ink_mask(np.asarray(small, dtype=np.float32), 0.0)
    return line_direction.ways_up(picture, small, ink, 0.0)


def test_lines_across_the_page_are_not_turned_by_a_quarter_when_the_model_is_not_very_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    likely = page_orientation.Orientation((0.1, 0.8, 0.06, 0.04))
    monkeypatch.setattr(page_orientation, "orientation_of", lambda small: likely)
    assert posture_of(scans.sheet(4, dpi=100).picture).turns == 0


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_strokes_decide_when_there_is_no_model(monkeypatch: pytest.MonkeyPatch, quarters: int) -> None:
    monkeypatch.setattr(page_orientation, "available", lambda: False)
    page = script_pages.turned(scans.sheet(4, dpi=150).picture, quarters)
    assert (posture_of(page).turns + quarters) % 4 == 0
