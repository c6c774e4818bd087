"""Styles of a Word document: what a paragraph's or a run's style says of its structure and look."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from quire.reading.office.inline import BOLD, ITALIC, STRIKE
from quire.reading.office.numbering import MAX_LEVEL
from quire.reading.office.package import Package

LOOKS = {"b": BOLD, "i": ITALIC, "strike": STRIKE, "dstrike": STRIKE}
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_NESTED = re.compile(r"list (?:bullet|number|continue)? ?([2-5])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """`level` is that of a heading, 0 for none; `number` and `depth` those of a list."""

    level: int = 0
    quote: bool = False
    number: str = ""
    depth: int = 0
    look: int = 0


def read_styles(package: Package, root: Element | None) -> dict[str, Style]:
    """All of them by id."""
    raw: dict[str, Element] = {
        package.attribute(one, "styleId"): one for one in package.children(root, "style")
    }
    return {name: _style(package, raw, name) for name in raw}


def _style(package: Package, raw: dict[str, Element], name: str) -> Style:
    """What a style and those it is based on say together; the nearest word counts."""
    level, quote, number, depth, look = 0, False, "", 0, 0
    for _ in range(20):  # styles may be based on each other in a circle
        element = raw.get(name)
        if element is None:
            break
        title = package.child(element, "name")
        words = package.attribute(title, "val").lower() if title is not None else ""
        properties = package.child(element, "pPr")
        heading = _HEADING.fullmatch(words)
        outline = package.child(properties, "outlineLvl")
        given = package.attribute(outline, "val") if outline is not None else ""
        if not level:
            level = int(heading[1]) if heading else 1 if words == "title" else 0
            level = level or (int(given) + 1 if given.isdigit() and int(given) < 9 else 0)
        quote = quote or words in ("quote", "intense quote")
        nested = _NESTED.fullmatch(words)
        numbered = package.child(properties, "numPr")
        if numbered is not None and not number:
            wanted, deep = package.child(numbered, "numId"), package.child(numbered, "ilvl")
            number = package.attribute(wanted, "val") if wanted is not None else ""
            value = package.attribute(deep, "val") if deep is not None else "0"
            depth = min(int(value), MAX_LEVEL) if value.isdigit() else 0
            depth = depth or (int(nested[1]) - 1 if nested else 0)
        if package.attribute(element, "type") == "character":
            for one in package.child(element, "rPr") or ():
                look |= LOOKS.get(package.local[one.tag], 0) if package.is_on(one) else 0
        based = package.child(element, "basedOn")
        name = package.attribute(based, "val") if based is not None else ""
    return Style(level, quote, "" if number == "0" else number, depth, look)
