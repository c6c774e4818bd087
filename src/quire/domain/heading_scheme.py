"""Owns the levels of a document's headings: one scheme for all of its pages, made of what their headings look like.

A page knows its own type only, so the levels it gives are provisional. When all pages are there, types of headings are
ranked over the whole document: the larger before the smaller, bold before regular, capitals before other letters. What
the outline or the tags of the file say of a heading decides over its type, and its section number does so too.

The scheme is a function of the pages' own levels, never of its results: it may be computed again after any retry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from quire.domain.element import Element, ElementKind

DEEPEST = 6
MOST_MARKS = 64
"""Of one page. A page that is said to have more headings is a list; those behind them keep their level."""

_BOLD, _CAPITALS, _TOLD, _ESTIMATED, _TITLE = 1, 2, 4, 8, 16
_FIELDS = 6
_TENTHS = 10
_LARGEST = 2000
"""Tenths of a point; the scheme compares all sizes with each other."""
_SAME_TENTHS, _SAME_SHARE = 4, 0.035
"""Sizes that differ by no more than either are one: a size that a file rounds or scales."""
_SAME_ESTIMATED = 0.12
"""OCR measures the size of a line by its letters; the same type differs by this share."""
_MANY_SIZES, _SIZES_A_HEADING = 8, 0.6
"""Where nearly every heading has a size of its own, OCR made the text layer, or pages are scaled."""
_MANY_PAGES = 5
"""With headings on so many pages, a type of headings that only one page has takes no level of its own."""
_CAPITAL_LETTERS = 5
_LEAST_OF_CASE = 2
_NUMBER = re.compile(r"(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S|([A-H](?:\.\d{1,2}){1,3})\.?\s+\S")
_ESCAPED = re.compile(r"[<\n]")
_ENOUGH_CHARS = 40
_HEADINGS = (ElementKind.TITLE, ElementKind.HEADING)


class HeadingMark(NamedTuple):
    """What a page's record says of one of its headings.

    `place` is that of its element, `offset` where its line begins in the page's Markdown, in bytes. `size` is in tenths
    of a point. `depth` is that of its section number, 0 without one. `level` is the one that the page gave it.
    """

    place: int
    offset: int
    size: int
    flags: int
    depth: int
    level: int

    @property
    def is_told(self) -> bool:
        """Whether its level is that of the outline or of the tags."""
        return bool(self.flags & _TOLD)


class _Face(NamedTuple):
    """The type of headings, in the order of what stands out: size class, weight, letters."""

    size_class: int
    is_regular: bool
    is_lower: bool


def page_marks(
    elements: Sequence[Element], markdown: str, *, is_estimated: bool = False
) -> tuple[HeadingMark, ...]:
    """The marks of a page whose Markdown has just been written from these elements.

    `is_estimated` says that sizes of type are those of a picture.
    """
    found: list[HeadingMark] = []
    chars = offset = start = 0
    for place, element in enumerate(elements):
        if element.kind is ElementKind.CODE and not element.repeated:
            at = markdown.find(element.text, start)
            start = start if at < 0 else at + len(element.text)  # "# include" in it is no heading
            continue
        look = element.look
        if look is None or element.kind not in _HEADINGS or element.repeated:
            continue
        shown = _ESCAPED.split(element.markdown or element.text, maxsplit=1)[0][:_ENOUGH_CHARS]
        at = _line_of(markdown, f"{'#' * max(1, min(DEEPEST, element.level))} {shown}", start)
        if at < 0:
            continue
        offset += len(markdown[chars:at].encode("utf-8", "replace"))
        chars, start = at, at + 1
        flags = _BOLD * look.is_bold | _TOLD * look.is_told | _ESTIMATED * is_estimated
        flags |= _CAPITALS * _is_capital(element.text) | _TITLE * (element.kind is ElementKind.TITLE)
        size, depth = min(_LARGEST, round(look.size * _TENTHS)), number_depth(element.text)
        found.append(HeadingMark(place, offset, size, flags, depth, element.level))
        if len(found) == MOST_MARKS:
            break
    return tuple(found)


def _line_of(markdown: str, line: str, start: int) -> int:
    """Where the first line that begins so is, from `start` on; -1 if there is none."""
    if markdown.startswith(line, start) and (start == 0 or markdown[start - 1] == "\n"):
        return start
    return markdown.find("\n" + line, start) + 1 or -1


def _is_capital(text: str) -> bool:
    return text.isupper() and sum(map(str.isalpha, text)) >= _CAPITAL_LETTERS


def number_depth(text: str) -> int:
    """How deep the number of a section is: 1 of "3 Results", 2 of "3.1" and "A.1"; 0 of a text without a number."""
    found = _NUMBER.match(text)
    return 0 if found is None else (found[1] or found[2]).count(".") + 1


def packed_marks(marks: Iterable[HeadingMark]) -> tuple[int, ...]:
    """The marks as a page's record has them."""
    return tuple(number for mark in marks for number in mark)


def unpacked_marks(packed: Sequence[int]) -> tuple[HeadingMark, ...]:
    """What `packed_marks` was given; none where that can't be: a reader process, which a hostile document may have
    taken over, made them."""
    if len(packed) % _FIELDS or len(packed) > _FIELDS * MOST_MARKS:
        return ()
    marks = tuple(HeadingMark(*map(int, packed[at : at + _FIELDS])) for at in range(0, len(packed), _FIELDS))
    offsets = [-1, *(mark.offset for mark in marks)]
    is_sound = all(before < after for before, after in pairwise(offsets)) and all(
        mark.place >= 0 and 0 <= mark.size <= _LARGEST and 0 <= mark.depth < _FIELDS for mark in marks
    )
    return marks if is_sound else ()


def document_levels(pages: Sequence[Sequence[HeadingMark]]) -> list[tuple[int, ...]]:
    """The levels of the marked headings of each page of a document."""
    marks = [mark for page in pages for mark in page]
    if not marks:
        return [() for _ in pages]
    faces = _faces(marks)
    numbers = [number for number, page in enumerate(pages) for _ in page]
    levels = iter(_levels(marks, faces, _passing(faces, numbers)))
    return [tuple(next(levels) for _ in page) for page in pages]


def _faces(marks: Sequence[HeadingMark]) -> list[_Face]:
    """The type of each heading. Capitals are a type of their own only beside other letters of their size and weight:
    a single name in capitals is none."""
    classes = _size_classes(marks)
    plain = [
        _Face(classes[mark.size, bool(mark.flags & _ESTIMATED)], not mark.flags & _BOLD, is_lower=True)
        for mark in marks
    ]
    cases = Counter((face, bool(mark.flags & _CAPITALS)) for mark, face in zip(marks, plain, strict=True))
    return [
        face._replace(is_lower=False)
        if mark.flags & _CAPITALS and min(cases[face, True], cases[face, False]) >= _LEAST_OF_CASE
        else face
        for mark, face in zip(marks, plain, strict=True)
    ]


def _size_classes(marks: Sequence[HeadingMark]) -> dict[tuple[int, bool], int]:
    """The class of each size, 0 the largest. Sizes that OCR measures take the class of a true size that is near."""
    sizes = {(mark.size, bool(mark.flags & _ESTIMATED)) for mark in marks}
    tops: list[int] = []
    for size in sorted((size for size, estimated in sizes if not estimated), reverse=True):
        if not tops or tops[-1] - size > max(_SAME_TENTHS, _SAME_SHARE * tops[-1]):
            tops.append(size)
    if len(tops) > max(_MANY_SIZES, _SIZES_A_HEADING * len(marks)):
        tops = []
    rest = {size for size, estimated in sizes if estimated or not tops}
    for size in sorted(rest, reverse=True):
        if all(abs(size - top) > _SAME_ESTIMATED * top for top in tops):
            tops.append(size)
    tops.sort(reverse=True)
    return {one: min(range(len(tops)), key=lambda i: abs(tops[i] - one[0])) for one in sizes}


def _passing(faces: Sequence[_Face], numbers: Sequence[int]) -> dict[_Face, bool]:
    """The types that only one page of many has, as covers and advertisements do, and whether that is the first page."""
    pages: dict[_Face, set[int]] = {}
    for face, number in zip(faces, numbers, strict=True):
        pages.setdefault(face, set()).add(number)
    if len(set(numbers)) < _MANY_PAGES:
        return {}
    return {face: numbers[0] in found for face, found in pages.items() if len(found) == 1}


def _levels(marks: Sequence[HeadingMark], faces: Sequence[_Face], passing: Mapping[_Face, bool]) -> list[int]:
    """The level of each heading. From the type that stands out most to the one that does so least, each type without
    a level of its own is one below the type before it.

    A type in passing has the level of the type below it; the title, above all that recur, has the first by itself.
    """
    members: dict[_Face, list[HeadingMark]] = {}
    for mark, face in zip(marks, faces, strict=True):
        members.setdefault(face, []).append(mark)
    base = _told_base(marks)
    chapter = _chapter_face(marks, faces)
    of_face: dict[_Face, int] = {}
    before = deepest = 0
    for face in sorted(members):
        told = Counter(mark.level for mark in members[face] if mark.is_told)
        depths = [mark.depth for mark in members[face] if _counts(mark, face, chapter)]
        level = before + 1
        if told:
            level = min(told, key=lambda one: (-told[one], one))
        elif depths and 2 * len(depths) >= len(members[face]):
            if base is None:
                base = level - min(depths) + 1
            level = base + min(depths) - 1
        elif depths and base is None:
            base = level - min(depths) + 1
        elif face in passing and not depths:
            is_title = not deepest and passing[face]
            of_face[face] = 1 if is_title else level
            before = max(before, int(is_title))
            continue
        of_face[face] = level
        before = deepest = max([level, *(base + depth - 1 for depth in depths if base is not None)])
    base = 1 if base is None else max(1, base)
    below = 1 if _is_title_apart(marks, faces) else 0
    found: list[int] = []
    for mark, face in zip(marks, faces, strict=True):
        level = base + mark.depth - 1 if _counts(mark, face, chapter) else of_face[face]
        level = mark.level if mark.is_told else level
        found.append(max(1, min(DEEPEST, level if mark.flags & _TITLE else level + below)))
    return found


def _is_title_apart(marks: Sequence[HeadingMark], faces: Sequence[_Face]) -> bool:
    """Whether the file says that its title has the level of sections, although it is in larger type than these."""
    titles = [(mark, face) for mark, face in zip(marks, faces, strict=True) if mark.flags & _TITLE]
    if len(titles) != 1 or not titles[0][0].is_told or titles[0][0].level != 1:
        return False
    rest = [(mark, face) for mark, face in zip(marks, faces, strict=True) if not mark.flags & _TITLE]
    return any(mark.is_told and mark.level == 1 for mark, _ in rest) and all(
        face.size_class > titles[0][1].size_class for _, face in rest
    )


def _chapter_face(marks: Sequence[HeadingMark], faces: Sequence[_Face]) -> _Face | None:
    """The type of headings with a single number, if these are above those with "2.1"; without any of these numbers say
    nothing about levels."""
    pairs = list(zip(marks, faces, strict=True))
    section = min((face for mark, face in pairs if mark.depth > 1), default=None)
    chapter = min((face for mark, face in pairs if mark.depth == 1), default=section)
    return section if section is None or chapter is None or chapter > section else chapter


def _counts(mark: HeadingMark, face: _Face, chapter: _Face | None) -> bool:
    """Whether the section number of a heading tells its level: a single number in another type than that of chapters
    is the number of an item."""
    return mark.depth > 0 and chapter is not None and (mark.depth > 1 or face == chapter)


def _told_base(marks: Sequence[HeadingMark]) -> int | None:
    """The level of "1" by the outline or the tags, where these have numbered sections."""
    found = Counter(mark.level - mark.depth + 1 for mark in marks if mark.is_told and mark.depth)
    return min(found, key=lambda one: (-found[one], one)) if found else None
