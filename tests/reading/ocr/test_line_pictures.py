"""Pieces of lines are cut out of pages, and edges, rules and dark areas are not taken for lines."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from quire.reading.ocr import ink_lines
from quire.reading.ocr.line_pictures import HEIGHT, WIDTH, line_pictures

from . import scans, script_pages


def pieces_of(picture: Image.Image) -> np.ndarray:
    small = ink_lines.small_copy(picture)
    ink = ink_lines.ink_mask(np.asarray(small, dtype=np.float32), 0.0)
    return line_pictures(picture, small, ink, 0.0)


def test_lines_give_pieces_of_one_size_with_dark_ink() -> None:
    found = pieces_of(scans.sheet(4, dpi=150).picture)
    assert found.shape == (32, HEIGHT, WIDTH)
    assert np.all(found.max(axis=(1, 2)) > 200)
    assert np.all(np.median(found, axis=(1, 2)) < 60)


def test_a_title_gives_pieces_when_its_letters_are_as_wide_as_a_strip() -> None:
    assert len(pieces_of(scans.written(["Minutes of the Board"], size=34).picture)) >= 2


def test_edge_of_a_photographed_page_gives_no_pieces() -> None:
    empty = Image.new("L", (1240, 1754), 255)
    assert not len(pieces_of(script_pages.photographed(empty, 3)))


def test_rules_give_no_pieces() -> None:
    page = Image.new("L", (1240, 1754), 255)
    pen = ImageDraw.Draw(page)
    for place in range(100, 1100, 60):
        pen.line((100, place, 1100, place), fill=0, width=2)
        pen.line((place, 100, place, 1100), fill=0, width=2)
    assert not len(pieces_of(page))


def test_an_empty_page_gives_no_pieces() -> None:
    assert pieces_of(Image.new("L", (600, 800), 255)).shape == (0, HEIGHT, WIDTH)
