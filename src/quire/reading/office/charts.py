"""A chart as the table it was drawn from, which the document keeps beside the drawing."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple
from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.inline_markdown import block
from quire.reading.office.office_pages import CaptionOf, MarkdownBlock, cell, table_lines
from quire.reading.office.ooxml_package import Package
from quire.reading.office.sheet_numbers import figure_text

_MOST_POINTS = 500
_MOST_SERIES = 50


class Chart(NamedTuple):
    """Its title, and its table: categories down, series across, all as Markdown."""

    title: str = ""
    rows: tuple[tuple[str, ...], ...] = ()

    def blocks(self) -> list[MarkdownBlock]:
        """The title, which is the caption of the table, and the table, as far as the chart has them."""
        title, table = block(self.title), "\n".join(table_lines(self.rows))
        caption = CaptionOf.NEXT if table else None
        shown = (MarkdownBlock(title, caption=caption), MarkdownBlock(table))
        return [one for one in shown if one.text]


def read_chart(package: Package, part: str) -> Chart:
    """The chart of a document's part; an empty one if it can't be read."""
    try:
        root = package.tree(part, "chart")
    except DamagedError:
        return Chart()
    if root is None:
        return Chart()
    title = cell(_joined(package, package.child(package.child(root, "chart"), "title")))
    return Chart(title, _rows(package, root))


def _rows(package: Package, root: Element) -> tuple[tuple[str, ...], ...]:
    series = list(package.descendants(root, "ser"))[:_MOST_SERIES]
    names: list[str] = []
    columns: list[dict[int, str]] = []
    categories: dict[int, str] = {}
    points = partial(_points, package, since_1904=package.is_on(package.child(root, "date1904")))
    for one in series:
        names.append(_joined(package, package.child(one, "tx")))
        axis = package.child(one, "cat")
        categories = categories or points(axis if axis is not None else package.child(one, "xVal"))
        values = package.child(one, "val")
        columns.append(points(values if values is not None else package.child(one, "yVal")))
    places = sorted({place for column in (categories, *columns) for place in column})[:_MOST_POINTS]
    if not places:
        return ()
    rows = [(cell(categories.get(n, str(n + 1))), *(cell(c.get(n, "")) for c in columns)) for n in places]
    return (("", *map(cell, names)), *rows)


def _points(package: Package, axis: Element | None, *, since_1904: bool) -> dict[int, str]:
    found: dict[int, str] = {}
    if axis is not None:
        code = next((one.text or "" for one in package.descendants(axis, "formatCode")), "")
        for point in package.descendants(axis, "pt"):
            place = package.attribute(point, "idx")
            if place.isdigit() and len(place) < 7:
                shown = package.attribute(point, "formatCode") or code
                found[int(place)] = figure_text(package.texts(point, "v"), shown, since_1904=since_1904)
    return found


def _joined(package: Package, element: Element | None) -> str:
    if element is None:
        return ""
    return package.texts(element, "t") or " ".join(v.text or "" for v in package.descendants(element, "v"))
