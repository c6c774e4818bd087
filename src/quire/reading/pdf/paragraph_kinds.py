"""Tells captions, footnotes and formulas from paragraphs, and the title from headings, by few signs each.

A sign that is missing leaves a paragraph a paragraph: its words are the same under any kind, and so is its Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quire.domain.element import RUNNING_KINDS, Box, Element, ElementKind
from quire.reading.pdf.text_lines import TextLine

_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|table|tab\.|chart|diagram|exhibit|listing|scheme|plate|abb(?:ildung|\.)|tabelle|figura|tabla|"
    r"tableau|рис(?:унок|\.)|таблица)\s*\(?(?:[A-Z]{1,2}[-.]?)?(?:\d+|[IVX]+)(?:[.\-–]\d+)*[a-z]?\)?"
    r"(?P<after>\s*[.:|–—-]|\s+(?=[\"“(A-ZÀ-ÝА-Я])|\s*$)",
    re.I,
)
_CAPTION_LINES = 12
_NOTE = re.compile(r"(?:\d{1,3}[.)]?|[*†‡§¶]{1,3}|[a-z][.)])\s*(?=[^\W\d_]|[“\"'(])")
_NOTE_RATIO = 0.93
_NOTE_GAPS = 5
"""A note has more words than a running line of a page number and a name."""
_NOTE_ZONE = 0.45
_RELATION = re.compile(r"[=<>≤≥≈≡∝∈⊂⊆→⇒↦∼≃≠±∑∏∫∂√]")
_WORD = re.compile(r"[^\W\d_]{4,}")
_MATH = 0.3
_ALL_MATH = 0.7
_BELOW_EM = 0.3
_FORMULA_WORDS = 0.35
_TITLE_ZONE = 0.6
_FOOT, _SMALL = 0.9, 3
TITLE_RATIO = 1.2
"""A title is larger than the body by this at least."""
_NEAR_EM = 4.0
_HELD = frozenset({ElementKind.FIGURE, ElementKind.TABLE})


def paragraph_kind(text: str, lines: Sequence[TextLine], body_size: float, height: float) -> ElementKind:
    """The kind of the lines that make the paragraph `text`. A footnote is only a candidate yet: see `settled`."""
    if len(lines) <= _CAPTION_LINES and names_figure(text):
        return ElementKind.CAPTION
    first = lines[0]
    small = first.size <= _NOTE_RATIO * body_size and first.box[1] > _NOTE_ZONE * height
    if small and _NOTE.match(text) and text.count(" ") >= _NOTE_GAPS:
        return ElementKind.FOOTNOTE
    if any(line.math for line in lines) and _is_formula(text, lines):
        return ElementKind.FORMULA
    return ElementKind.PARAGRAPH


def names_figure(text: str) -> bool:
    """Whether the text begins as a caption does: "Figure 3: …", "Table IV"."""
    found = _CAPTION.match(text)
    return found is not None and not _is_sentence(text, found)


def _is_sentence(text: str, found: re.Match[str]) -> bool:
    """Whether the text only begins with a reference: "Table 3 shows", "Figure 2, like Figure 1"."""
    after = found["after"]
    return not after.strip() and text[found.end() : found.end() + 1].islower()


def _is_formula(text: str, lines: Sequence[TextLine]) -> bool:
    letters = sum(len(line.text) for line in lines)
    math = sum(line.math * len(line.text) for line in lines)
    words = sum(map(len, _WORD.findall(text)))
    return math >= _MATH * letters and words <= _FORMULA_WORDS * len(text) and bool(_RELATION.search(text))


def is_rest_of_formula(formula: Element, text: str, lines: Sequence[TextLine]) -> bool:
    """Whether the lines are the denominator below a formula: in its type, inside of its width, and no formula alone."""
    if formula.kind is not ElementKind.FORMULA or formula.box is None or formula.latex:
        return False
    if any(line.math < _ALL_MATH for line in lines) or _RELATION.search(text) or _WORD.search(text):
        return False
    x0, y0, x1, y1 = formula.box
    return all(
        x0 - 1 <= line.box[0] and line.box[2] <= x1 + 1 and y0 < line.box[1] < y1 + _BELOW_EM * line.size
        for line in lines
    )


def settled(elements: list[Element], sizes: dict[str, float], height: float) -> list[Element]:
    """The page's elements with footnotes confirmed, the title named, and captions attached.

    `sizes` has the sizes of type of headings that may be the document's title, by their ids.
    """
    kinds = {element.kind for element in elements}
    if ElementKind.HEADING in kinds:
        elements = _without_foot(elements, height)
    if ElementKind.FOOTNOTE in kinds:
        elements = [_confirmed(element, elements) for element in elements]
    if sizes:
        elements = _with_title(elements, sizes, height)
    if ElementKind.CAPTION in kinds and not kinds.isdisjoint(_HELD):
        elements = with_held_captions(elements)
    return elements


def _without_foot(elements: list[Element], height: float) -> list[Element]:
    """The elements, a small heading at the foot of the page with nothing below it as a paragraph: it heads nothing."""
    last = next(
        (one for one in reversed(elements) if one.kind not in RUNNING_KINDS and not one.repeated), None
    )
    if last is None or last.kind is not ElementKind.HEADING or last.level < _SMALL or last.box is None:
        return elements
    if last.box[1] < _FOOT * height or any(_is_below(one, last.box) for one in elements if one is not last):
        return elements
    return [replace(one, kind=ElementKind.PARAGRAPH, level=0) if one is last else one for one in elements]


def _is_below(element: Element, box: Box) -> bool:
    return element.kind not in RUNNING_KINDS and element.box is not None and element.box[1] >= box[3]


def _confirmed(element: Element, elements: Sequence[Element]) -> Element:
    """A footnote only if nothing but footnotes and running lines is below it in its column."""
    if element.kind is not ElementKind.FOOTNOTE or element.box is None:
        return element
    x0, _, x1, bottom = element.box
    for other in elements:
        box = other.box
        if box is None or other.kind in RUNNING_KINDS or other.kind is ElementKind.FOOTNOTE:
            continue
        if box[1] > bottom - 1 and box[0] < x1 and x0 < box[2] and len(other.plain_text) > 3:
            return replace(element, kind=ElementKind.PARAGRAPH)
    return element


def _with_title(elements: list[Element], sizes: dict[str, float], height: float) -> list[Element]:
    """The first heading in the document's largest type is its title, if it is in the upper part of the page."""
    largest = max(sizes.values())
    chosen = next(element for element in elements if sizes.get(element.id) == largest)
    smaller = [size for size in sizes.values() if size < largest]
    alone = len(sizes) - len(smaller) == 1
    if chosen.box is None or chosen.box[1] > _TITLE_ZONE * height or not (alone or smaller):
        return elements
    return [replace(one, kind=ElementKind.TITLE) if one is chosen else one for one in elements]


def with_held_captions(elements: Sequence[Element]) -> list[Element]:
    """Each caption's parent is the figure or table that is next to it."""
    holders = [one for one in elements if one.kind in _HELD and one.box is not None]
    return [
        replace(one, parent=_nearest(one, holders)) if one.kind is ElementKind.CAPTION else one
        for one in elements
    ]


def _nearest(caption: Element, holders: Sequence[Element]) -> str | None:
    if caption.box is None or not holders:
        return None
    distances = [(_gap(caption.box, holder.box), holder.id) for holder in holders if holder.box is not None]
    line = caption.lines[0].box if caption.lines else caption.box
    gap, id_ = min(distances)
    return id_ if gap <= _NEAR_EM * (line[3] - line[1]) else None


def _gap(box: Box, other: Box) -> float:
    """The distance between two boxes, counted along the page's axes."""
    across = max(0.0, box[0] - other[2], other[0] - box[2])
    down = max(0.0, box[1] - other[3], other[1] - box[3])
    return across + down
