"""A chart as the table it was drawn from, which the document keeps beside the drawing."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.office_pages import cell
from quire.reading.office.ooxml_package import Package

_MOST_POINTS = 500
_MOST_SERIES = 50


def chart_rows(package: Package, part: str) -> list[list[str]]:
    """Categories down, series across, cells as Markdown; nothing if the chart can't be read."""
    try:
        root = package.tree(part, "chart")
    except DamagedError:
        return []
    if root is None:
        return []
    series = list(package.descendants(root, "ser"))[:_MOST_SERIES]
    names: list[str] = []
    columns: list[dict[int, str]] = []
    categories: dict[int, str] = {}
    for one in series:
        names.append(_joined(package, package.child(one, "tx")))
        axis = package.child(one, "cat")
        categories = categories or _points(package, axis if axis is not None else package.child(one, "xVal"))
        values = package.child(one, "val")
        columns.append(_points(package, values if values is not None else package.child(one, "yVal")))
    places = sorted({place for column in (categories, *columns) for place in column})[:_MOST_POINTS]
    if not places:
        return []
    title = _joined(package, next(iter(package.descendants(root, "title")), None))
    head = [cell(title), *map(cell, names)]
    rows = [[cell(categories.get(n, str(n + 1))), *(cell(c.get(n, "")) for c in columns)] for n in places]
    return [head, *rows]


def _points(package: Package, axis: Element | None) -> dict[int, str]:
    found: dict[int, str] = {}
    if axis is not None:
        for point in package.descendants(axis, "pt"):
            place = package.attribute(point, "idx")
            if place.isdigit() and len(place) < 7:
                found[int(place)] = _short(package.texts(point, "v"))
    return found


def _joined(package: Package, element: Element | None) -> str:
    if element is None:
        return ""
    return package.texts(element, "t") or " ".join(v.text or "" for v in package.descendants(element, "v"))


def _short(value: str) -> str:
    """Figures as a person would write them: 0.30000000000000004 is 0.3."""
    try:
        return f"{float(value):.10g}" if "." in value else value
    except ValueError:
        return value
