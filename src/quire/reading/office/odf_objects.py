"""What a frame of an OpenDocument file shows that is no text: a formula, or a picture."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from quire.errors import DamagedError
from quire.reading.office.inline_markdown import placeholder
from quire.reading.office.mathml_markup import mathml_latex
from quire.reading.office.ooxml_package import Package


def frame_formula(package: Package, frame: Element) -> str:
    """The LaTeX of the formula in a frame, "" for none. Its picture says the same, and is not needed."""
    held = package.child(frame, "object")
    if held is None:
        return ""
    own = package.child(held, "math")
    if own is None:
        part = f"{package.attribute(held, 'href').removeprefix('./').rstrip('/')}/content.xml"
        try:
            own = package.tree(part, "formula") if part in package.archive else None
        except DamagedError:  # the document is worth more than one of its formulas
            return ""
    is_formula = own is not None and package.local[own.tag] == "math"
    return mathml_latex(own) if own is not None and is_formula else ""


def frame_picture(package: Package, frame: Element) -> tuple[str, str] | None:
    """A picture's placeholder and its place in the file."""
    image = package.child(frame, "image")
    if image is None:
        return None
    title, words = (package.child(frame, name) for name in ("title", "desc"))
    alt = next((one.text for one in (words, title) if one is not None and one.text), "")
    href = package.attribute(image, "href").removeprefix("./")
    return placeholder(alt), href if href in package.archive else ""
