"""Running headers and footers: lines at a page's edge that its neighbours have in the same place.

A page is compared with the three before and the three after it, wherever the document was cut in chunks, so
that the answer for a page never depends on what was read with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quire.reading.pdf.text_lines import TextLine, body_size

REACH = 3
_EDGE = 0.13
_OUTERMOST = 5
_SAME_PLACE_PT = 5.0
_MIN_LETTERS = 3
_MAX_CHARS = 200
_KEPT_PAGES = 64
_LEADING = 0.45
_FAR = 1e6
_LARGE_RATIO = 1.15
_TITLE_RATIO = 1.8

_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|pg\.?|p\.|seite|pagina|página|strana)?\W*\d{1,5}\W*(?:(?:of|/|von|de|di|sur|из)\W*\d{1,5})?[\W_]*",
    re.I,
)


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """A line near the top or the bottom: its words with the numbers taken out, the numbers, and its height."""

    words: str
    numbers: tuple[int, ...]
    y: float
    at_top: bool
    is_page_number: bool
    is_large: bool


class Edges:
    """Edge lines of a document's pages, read when first wanted and kept for the pages nearby."""

    def __init__(self, page_count: int, read: Callable[[int], tuple[EdgeLine, ...]]) -> None:
        self._page_count = page_count
        self._read = read
        self._known: dict[int, tuple[EdgeLine, ...]] = {}

    def put(self, number: int, lines: tuple[EdgeLine, ...]) -> None:
        """Keep what was found anyway while the page was read."""
        self._known[number] = lines
        while len(self._known) > _KEPT_PAGES:
            del self._known[next(iter(self._known))]

    def of(self, number: int) -> tuple[EdgeLine, ...]:
        """The edge lines of page `number`, read now if they are not known."""
        if number not in self._known:
            self.put(number, self._read(number))
        return self._known[number]

    def neighbours(self, number: int) -> list[int]:
        """The pages that page `number` is compared with; those whose edge lines are known come first."""
        near = [number + d for d in (-1, 1, -2, 2, -3, 3)]
        return sorted((n for n in near if 1 <= n <= self._page_count), key=lambda n: n not in self._known)


def edge_lines(lines: Sequence[TextLine], height: float) -> dict[int, EdgeLine]:
    """The lines at the top and the bottom edge, by their place in `lines`."""
    if height <= 0:
        return {}
    found: dict[int, EdgeLine] = {}
    body = body_size(lines)
    top, bottom = _EDGE * height, (1 - _EDGE) * height
    outer = [
        (y, i)
        for i, line in enumerate(lines)
        if not top < (y := line.middle[1]) < bottom
        and line.upright
        and line.size <= _TITLE_RATIO * body
        and len(line.text) <= _MAX_CHARS
    ]
    for at_top in (True, False):
        inside = [(y, i) for y, i in outer if (y <= top if at_top else y >= bottom)]
        levels: list[float] = []
        for y, i in sorted(inside, reverse=not at_top):
            if not levels or abs(y - levels[-1]) > 3:
                levels.append(y)
            if len(levels) > _OUTERMOST:
                break
            found[i] = _edge_line(lines[i], y, at_top, body)
    return found


def running(
    number: int, lines: Sequence[TextLine], edges: dict[int, EdgeLine], document: Edges
) -> frozenset[int]:
    """Which of the edge lines of page `number` run on from page to page, by their place in `lines`.

    Neighbours are read only as long as they can still change the answer.
    """
    touching = _touching(lines, edges)
    neighbours = document.neighbours(number)
    needed = 1 if len(neighbours) <= REACH else 2
    waiting = {i: 1 if edges[i].is_page_number else needed for i in _detached(set(edges), touching)}
    found: set[int] = set()
    for at, neighbour in enumerate(neighbours):
        waiting = {i: n for i, n in waiting.items() if n <= len(neighbours) - at}
        if not waiting:
            break
        by_words: dict[str, list[EdgeLine]] = {}
        for other in document.of(neighbour):
            by_words.setdefault(other.words, []).append(other)
        for i in list(waiting):
            line = edges[i]
            if any(_same(line, other, neighbour - number) for other in by_words.get(line.words, ())):
                waiting[i] -= 1
                if not waiting[i]:
                    del waiting[i]
                    found.add(i)
    return _detached(found, touching)


def _detached(found: set[int], touching: dict[int, set[int]]) -> frozenset[int]:
    """Those lines that a gap sets off from the text; the first line of a form letter is not a header."""
    while True:
        attached = {i for i in found if not touching[i] <= found}
        if not attached:
            return frozenset(found)
        found = found - attached


def _touching(lines: Sequence[TextLine], edges: dict[int, EdgeLine]) -> dict[int, set[int]]:
    """For each edge line the lines that stand as close to it as the lines of one paragraph do."""
    top = max((lines[i].box[3] for i, edge in edges.items() if edge.at_top), default=-_FAR)
    bottom = min((lines[i].box[1] for i, edge in edges.items() if not edge.at_top), default=_FAR)
    near = [(j, o) for j, o in enumerate(lines) if o.box[1] < top + o.size or o.box[3] > bottom - o.size]
    return {i: {j for j, other in near if j != i and _touches(lines[i], other)} for i in edges}


def _touches(line: TextLine, other: TextLine) -> bool:
    if line.box[2] <= other.box[0] or other.box[2] <= line.box[0] or abs(line.size - other.size) > 1:
        return False
    gap = max(other.box[1] - line.box[3], line.box[1] - other.box[3])
    return -0.5 * line.size < gap < _LEADING * line.size


def _edge_line(line: TextLine, y: float, at_top: bool, body: float) -> EdgeLine:
    text = line.text
    words = " ".join(_NUMBER.sub("#", text).casefold().split())
    numbers = tuple(int(n) for n in _NUMBER.findall(text[:_MAX_CHARS]) if len(n) <= 9)
    is_page_number = _PAGE_NUMBER.fullmatch(text) is not None
    return EdgeLine(words, numbers, y, at_top, is_page_number, line.size > _LARGE_RATIO * body)


def _same(line: EdgeLine, other: EdgeLine, distance: int) -> bool:
    """Of two lines with the same words: in the same place, and each number the same or as far apart as the pages are.

    Rows of a long table that begin alike on every page differ in their figures, and must stay; so must
    "Chapter 2" in large type after "Chapter 1".
    """
    if line.at_top != other.at_top or abs(line.y - other.y) > _SAME_PLACE_PT:
        return False
    if len(line.numbers) != len(other.numbers):
        return False
    steps = [b - a for a, b in zip(line.numbers, other.numbers, strict=True)]
    if any(step not in (0, distance) or (step and line.is_large) for step in steps):
        return False
    if line.is_page_number:
        return distance in steps
    return len(_LETTER.findall(line.words)) >= _MIN_LETTERS
