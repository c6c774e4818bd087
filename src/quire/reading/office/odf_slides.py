"""Slides of an OpenDocument presentation (ODP)."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from quire.reading.office.odf_styles import OdfStyles
from quire.reading.office.odf_writer import OdfWriter
from quire.reading.office.office_pages import MarkdownBlock, OfficePage, RunningText
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_comments import comment_item
from quire.reading.office.review_marks import ReviewMarks
from quire.reading.office.shape_order import ShapeBox, reading_order, reads_leftward
from quire.reading.office.slide_pages import running_line, slide_page

_LENGTH = re.compile(r"(-?\d{1,6}(?:\.\d{1,9})?)(cm|mm|in|pt|pc|px)")
_UNITS = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72, "pc": 2.54 / 6, "px": 2.54 / 96}
_DEEPEST = 20
_RUNNING = {"header": "hdr", "footer": "ftr", "date-time": "dt", "page-number": "sldNum"}


def read_slide(package: Package, styles: OdfStyles, page: Element) -> OfficePage:
    """The page of a slide."""
    writer = OdfWriter(package, styles, ReviewMarks())
    blocks: list[MarkdownBlock] = []
    notes: list[MarkdownBlock] = []
    running: list[RunningText] = []
    title = ""
    for one in _ordered(package, page):
        kind = package.attribute(one, "class")
        if kind == "title" and not title:
            title = writer.line_of(one).replace("\n", " ")
        elif kind in _RUNNING:
            line = running_line(_RUNNING[kind], writer.line_of(one))
            running += [line] if line is not None else []
        elif package.local[one.tag] not in ("annotation", "notes"):
            first = len(blocks)
            writer.add_shape(one, blocks.append, 0)
            if len(blocks) > first:  # the lists of two shapes are two
                blocks[first] = blocks[first]._replace(begins=True)
    held = package.child(page, "notes")
    for frame in held if held is not None else ():
        if package.attribute(frame, "class") == "notes":
            writer.add_shape(frame, notes.append, 0)
    comments = [
        item
        for one in package.children(page, "annotation")
        for item in comment_item("Comment", *writer.comment(one))
    ]
    is_hidden = package.attribute(page, "style-name") in styles.hidden_slides
    return slide_page(*(title, blocks), notes=notes, comments=comments, running=running, is_hidden=is_hidden)


def _ordered(package: Package, page: Element) -> list[Element]:
    """The shapes of a slide in the order in which they are read."""
    shapes = list(page)
    leftward = reads_leftward(" ".join("".join(one.itertext()) for one in shapes))
    order = reading_order([_box(package, one, 0) for one in shapes], leftward=leftward)
    return [shapes[at] for at in order]


def _box(package: Package, shape: Element, depth: int) -> ShapeBox | None:
    """Where a shape is, in centimetres; a group is where its shapes are."""
    if package.local[shape.tag] == "g" and depth < _DEEPEST:
        boxes = [box for one in shape if (box := _box(package, one, depth + 1)) is not None]
        lefts, tops, rights, bottoms = zip(*boxes, strict=True) if boxes else ((), (), (), ())
        return ShapeBox(min(lefts), min(tops), max(rights), max(bottoms)) if boxes else None
    given = [_length(package.attribute(shape, name)) for name in ("x", "y", "width", "height")]
    left, top, wide, high = given
    if left is None or top is None or wide is None or high is None:
        return None
    return ShapeBox(left, top, left + wide, top + high)


def _length(given: str) -> float | None:
    found = _LENGTH.fullmatch(given)
    return float(found[1]) * _UNITS[found[2]] if found else None
