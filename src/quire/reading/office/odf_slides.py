"""Slides of an OpenDocument presentation (ODP)."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.reading.office.odf_styles import OdfStyles
from quire.reading.office.odf_writer import OdfWriter
from quire.reading.office.office_pages import MarkdownBlock, OfficePage, RunningText
from quire.reading.office.ooxml_package import Package
from quire.reading.office.review_comments import comment_item
from quire.reading.office.review_marks import ReviewMarks
from quire.reading.office.slide_pages import running_line, slide_page

_RUNNING = {"header": "hdr", "footer": "ftr", "date-time": "dt", "page-number": "sldNum"}


def read_slide(package: Package, styles: OdfStyles, page: Element) -> OfficePage:
    """The page of a slide."""
    writer = OdfWriter(package, styles, ReviewMarks())
    blocks: list[MarkdownBlock] = []
    notes: list[MarkdownBlock] = []
    running: list[RunningText] = []
    title = ""
    for one in page:
        kind = package.attribute(one, "class")
        if kind == "title" and not title:
            title = writer.line_of(one).replace("\n", " ")
        elif kind in _RUNNING:
            line = running_line(_RUNNING[kind], writer.line_of(one))
            running += [line] if line is not None else []
        elif package.local[one.tag] not in ("annotation", "notes"):
            writer.add_shape(one, blocks.append, 0)
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
