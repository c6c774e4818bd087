"""Values of the form fields that Word has had since before content controls: boxes to tick, and lists to choose from.

Their text fields keep what was typed as text of the document, so that they need nothing.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.reading.office.ooxml_package import Package

TICKED, EMPTY = "☒", "☐"


def form_value(package: Package, field: Element) -> str:
    """What the beginning of a field says of its value; "" where it is no such field."""
    data = package.child(field, "ffData")
    box, choices = package.child(data, "checkBox"), package.child(data, "ddList")
    if box is not None:
        own = package.child(box, "checked")
        return TICKED if package.is_on(own if own is not None else package.child(box, "default")) else EMPTY
    if choices is None:
        return ""
    entries = [package.attribute(one, "val") for one in package.children(choices, "listEntry")]
    for name in ("result", "default"):
        chosen = package.child(choices, name)
        place = package.attribute(chosen, "val") if chosen is not None else ""
        if place.isdigit() and int(place) < len(entries):
            return entries[int(place)]
    return entries[0] if entries else ""
