"""What a frame of an OpenDocument file shows that is no text: a formula, a chart, a picture, or a file."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from quire.errors import DamagedError, TooLargeError
from quire.reading.files.file_kinds import ODP, ODS, ODT, FileKind
from quire.reading.office.charts import Chart
from quire.reading.office.inline_markdown import placeholder
from quire.reading.office.mathml_markup import mathml_latex
from quire.reading.office.odf_tables import read_table
from quire.reading.office.office_pages import cell
from quire.reading.office.ooxml_package import Package

_MOST_POINTS = 500
_MOST_SERIES = 50


def frame_formula(package: Package, frame: Element) -> str:
    """The LaTeX of the formula in a frame, "" for none. Its picture says the same, and is not needed."""
    held = package.child(frame, "object")
    if held is None:
        return ""
    own = package.child(held, "math")
    if own is None:
        own = _part(package, held)
    is_formula = own is not None and package.local[own.tag] == "math"
    return mathml_latex(own) if own is not None and is_formula else ""


def frame_chart(package: Package, frame: Element) -> Chart | None:
    """The chart in a frame, as the table that it was drawn from; its picture says the same. None for no chart."""
    held = package.child(frame, "object")
    root = _part(package, held) if held is not None else None
    chart = package.child(package.child(package.child(root, "body"), "chart"), "chart")
    if chart is None:
        return None
    title = package.child(chart, "title")
    table = package.child(chart, "table")
    rows, _ = read_table(package, table, _words) if table is not None else ([], ())
    shown = tuple(tuple(row[:_MOST_SERIES]) for row in rows[:_MOST_POINTS])
    return Chart(_words(title) if title is not None else "", shown) if shown or title is not None else None


def _words(element: Element) -> str:
    return cell(" ".join(element.itertext()))


def _part(package: Package, held: Element) -> Element | None:
    """The root of the object's own content; None if it has none that can be read."""
    part = f"{package.attribute(held, 'href').removeprefix('./').rstrip('/')}/content.xml"
    try:
        return package.tree(part, "object") if part in package.archive else None
    except DamagedError:  # the document is worth more than one of its objects
        return None


def frame_picture(package: Package, frame: Element) -> tuple[str, str] | None:
    """A picture's placeholder and its place in the file."""
    image = package.child(frame, "image")
    if image is None:
        return None
    title, words = (package.child(frame, name) for name in ("title", "desc"))
    alt = next((one.text for one in (words, title) if one is not None and one.text), "")
    href = package.attribute(image, "href").removeprefix("./")
    return placeholder(alt), href if href in package.archive else ""


_DOCUMENTS = {"text": ODT, "spreadsheet": ODS, "presentation": ODP}


def frame_file(package: Package, frame: Element) -> str:
    """The line of a document or a file that is embedded in a frame, "" for none."""
    for kind in ("object", "object-ole"):
        held = package.child(frame, kind)
        href = package.attribute(held, "href").removeprefix("./").rstrip("/") if held is not None else ""
        if href and href in package.archive:
            return package.embedded.line(href)
        if href and (found := _document_in(package, f"{href}/content.xml")) is not None:
            return package.embedded.folder_line(href, href, found.mime, found.label)
    return ""


def _document_in(package: Package, part: str) -> FileKind | None:
    """What a part of the archive is the content of; None for charts and formulas, which are no files."""
    if part not in package.archive:
        return None
    try:
        head = package.archive.head(part, _HEAD_BYTES).decode("utf-8", "replace")
    except (DamagedError, TooLargeError):
        return None
    found = _BODY.search(head)
    return _DOCUMENTS.get(found[1]) if found else None


_BODY = re.compile(r"<office:body[^>]*>\s*<office:(\w+)")
_HEAD_BYTES = 1 << 20
