"""The text boxes of a drawing in a Word document (DOCX), and where the drawing is beside others of its paragraph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from quire.reading.office.ooxml_package import Package
from quire.reading.office.shape_order import ShapeBox, reading_order, reads_leftward

_LONGEST = 12
"""Digits of a length in a file."""


class DrawnTexts(NamedTuple):
    """The texts of one drawing. `origin` is what its place is counted from; places from different ones say nothing."""

    texts: tuple[Element, ...]
    place: ShapeBox | None = None
    origin: tuple[str, str] = ("", "")


def drawn_texts(package: Package, drawing: Element, texts: Sequence[Element]) -> DrawnTexts:
    """The texts that were found in a drawing, in the order in which they are read, with the place of the drawing."""
    if len(texts) > 1:
        inner = {one: box for shape in drawing.iter() for one, box in _held(package, shape)}
        order = reading_order([inner.get(one) for one in texts], leftward=_leftward(package, texts))
        texts = [texts[at] for at in order]
    anchor = package.child(drawing, "anchor")
    across, down = (package.child(anchor, name) for name in ("positionH", "positionV"))
    left, top = (_length(package.child(one, "posOffset")) for one in (across, down))
    extent = package.child(anchor, "extent")
    wide, high = (_digits(extent.get(name, "")) if extent is not None else None for name in ("cx", "cy"))
    if across is None or down is None or None in (left, top, wide, high):
        return DrawnTexts(tuple(texts))
    box = ShapeBox(left or 0, top or 0, (left or 0) + (wide or 0), (top or 0) + (high or 0))
    origin = (package.attribute(across, "relativeFrom"), package.attribute(down, "relativeFrom"))
    return DrawnTexts(tuple(texts), box, origin)


def in_order(package: Package, drawings: Sequence[DrawnTexts]) -> list[Element]:
    """The texts of the drawings of a paragraph in the order in which they are read."""
    if not drawings:
        return []
    origin = next((one.origin for one in drawings if one.place is not None), None)
    places = [one.place if one.origin == origin else None for one in drawings]
    leftward = len(drawings) > 1 and _leftward(package, [text for one in drawings for text in one.texts])
    return [text for at in reading_order(places, leftward=leftward) for text in drawings[at].texts]


def _leftward(package: Package, texts: Iterable[Element]) -> bool:
    return reads_leftward(" ".join(package.texts(one) for one in texts))


def _held(package: Package, shape: Element) -> Iterable[tuple[Element, ShapeBox]]:
    """The text of a shape in a group, and where the group has the shape."""
    box = package.child(shape, "txbx")
    if box is None:
        return
    frame = package.child(package.child(shape, "spPr"), "xfrm")
    corner, size = package.child(frame, "off"), package.child(frame, "ext")
    if corner is None or size is None:
        return
    given = [_digits(one) for one in (corner.get("x", ""), corner.get("y", ""))]
    given += [_digits(one) for one in (size.get("cx", ""), size.get("cy", ""))]
    left, top, wide, high = (one or 0 for one in given)
    for text in package.children(box, "txbxContent"):
        yield text, ShapeBox(left, top, left + wide, top + high)


def _length(element: Element | None) -> int | None:
    return _digits((element.text or "").strip()) if element is not None else None


def _digits(given: str) -> int | None:
    digits = given.removeprefix("-")
    return int(given) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST else None
