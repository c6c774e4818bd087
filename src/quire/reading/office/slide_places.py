"""Where the shapes of a slide (PPTX) are, and with it the order in which they are read.

A placeholder that says nothing of its place has that of the same placeholder of the slide's layout, else of its master.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.ooxml_package import Package
from quire.reading.office.shape_order import ShapeBox, reading_order

_DEEPEST = 8
_LONGEST = 12
"""Digits of a length in a file."""
_SHAPES = frozenset({"sp", "pic", "grpSp", "graphicFrame", "AlternateContent"})
_TITLES = {"ctrTitle": "title"}


class SlideLayouts:
    """Where the layouts and masters of a presentation have their placeholders. Each is read once, when it is needed."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._read: dict[str, dict[str, ShapeBox]] = {}

    def of(self, part: str) -> dict[str, ShapeBox]:
        """The boxes of a layout's or a master's placeholders by their names."""
        if part not in self._read:
            self._read[part] = self._placeholders(part)
        return self._read[part]

    def _placeholders(self, part: str) -> dict[str, ShapeBox]:
        package = self.package
        try:
            root = package.tree(part, "layout")
        except DamagedError:  # the slide is worth more than the order of its shapes
            return {}
        tree = package.child(package.child(root, "cSld"), "spTree")
        found: dict[str, ShapeBox] = {}
        for one in tree if tree is not None else ():
            box = _own_box(package, package.child(one, "spPr"))
            if box is not None:
                for name in _names(package, one):
                    found.setdefault(name, box)
        return found


class SlidePlaces:
    """Of one slide."""

    def __init__(self, layouts: SlideLayouts, part: str) -> None:
        self._layouts = layouts
        self._package = layouts.package
        self._part = part

    def ordered(self, holder: Element, *, leftward: bool) -> list[Element]:
        """The shapes that the element holds, in the order in which they are read."""
        shapes = list(holder)
        if sum(self._package.local[one.tag] in _SHAPES for one in shapes) < 2:
            return shapes
        order = reading_order([self._box(one, 0) for one in shapes], leftward=leftward)
        return [shapes[at] for at in order]

    def _box(self, shape: Element, depth: int) -> ShapeBox | None:
        package = self._package
        name = package.local[shape.tag]
        if name == "AlternateContent":
            chosen = package.chosen(shape)
            first = next(iter(chosen), None) if chosen is not None else None
            return self._box(first, depth + 1) if first is not None and depth < _DEEPEST else None
        if name == "graphicFrame":
            return _own_box(package, shape)
        if name not in _SHAPES:
            return None
        box = _own_box(package, package.child(shape, "grpSpPr" if name == "grpSp" else "spPr"))
        return box or (self._inherited(shape) if name in ("sp", "pic") else None)

    def _inherited(self, shape: Element) -> ShapeBox | None:
        keys = _names(self._package, shape)
        if not keys:
            return None
        layout = self._package.related(self._part, "slideLayout")
        master = self._package.related(layout, "slideMaster") if layout else ""
        given = [self._layouts.of(one) for one in (layout, master)]
        return next((held[key] for held in given for key in keys if key in held), None)


def _names(package: Package, shape: Element) -> list[str]:
    """What a placeholder is known by: its number, then its type. Nothing for other shapes."""
    about = next((one for one in shape if package.local[one.tag] in ("nvSpPr", "nvPicPr")), None)
    found = package.child(package.child(about, "nvPr"), "ph")
    if found is None:
        return []
    number, kind = package.attribute(found, "idx"), package.attribute(found, "type") or "body"
    return [*([f"#{number}"] if number else []), _TITLES.get(kind, kind)]


def _own_box(package: Package, holder: Element | None) -> ShapeBox | None:
    """The box that the element itself gives, in the units of its file."""
    frame = package.child(holder, "xfrm")
    corner, size = package.child(frame, "off"), package.child(frame, "ext")
    if corner is None or size is None:
        return None
    left, top = _length(corner.get("x")), _length(corner.get("y"))
    wide, high = _length(size.get("cx")), _length(size.get("cy"))
    if left is None or top is None or wide is None or high is None:
        return None
    return ShapeBox(left, top, left + wide, top + high)


def _length(given: str | None) -> int | None:
    digits = (given or "").removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST):
        return None
    return -int(digits) if given and given.startswith("-") else int(digits)
