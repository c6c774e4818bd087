"""Finds running headers, running footers and page numbers: lines at a page's edge that its neighbours have too.

Only two kinds of lines are left out of the text: those that neighbours have word for word in the same place, and page
numbers proper, which count on with the pages. "Invoice 17" above "Invoice 18" is neither, and stays text; it is only
set apart from the text around it. Of lines that repeat, the first page that has one keeps it.

A page is compared with the three before and the three after it, wherever the document was cut in chunks, so the answer
for a page does not depend on the chunk. Weakness: a header that is absent from three pages is shown again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from quire.reading.pdf.text_lines import TextLine, body_size

REACH = 3
_EDGE = 0.13
_OUTERMOST = 5
_SAME_PLACE_PT = 5.0
_MIN_LETTERS = 3
_MAX_CHARS = 200
_KEPT_PAGES = 64
_NEVER = 1_000
_LEADING = 0.45
_FAR = 1e6
_TITLE_RATIO = 1.8
_APART_EM = 3.0
"""A number with text closer behind it than this, in sizes of the type, is the number of that text."""

_WORD_GAP_EM, _SHORT = 0.5, 12

_LARGE_RATIO = 1.15

_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_BEGINNING = re.compile(r"\b[a-z]{4}")
_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|pg\.?|p\.|seite|pagina|página|strana)?\W*[1-9]\d{0,4}\W*"
    r"(?:(?:of|/|von|de|di|sur|из)\W*[1-9]\d{0,4})?[\W_]*",
    re.I,
)
"""A number with leading zeros is the number of something else, as the numbers stamped on court files are."""
_OTHER_NUMBER = re.compile(r"(?:19|20)\d\d|\d{1,3}\.|.*[§¶#№%‰+±°&@$£¥\u20a0-\u20bf].*", re.DOTALL)
"""A year, the number of an item, of a section, of a sum: they may count on with the pages too.

A page number that stays costs nothing.
"""


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """A line near the top or the bottom: its text, its words with the numbers taken out, the numbers, its height.

    `is_page_number` says that there is nothing but a page number in it. `behind` is the text that follows the number in
    the same row: a number with other words behind it on each page is the number of an item, a question, an invoice.
    """

    text: str
    words: str
    numbers: tuple[int, ...]
    y: float
    at_top: bool
    is_page_number: bool
    is_large: bool
    behind: str = ""

    @property
    def search_words(self) -> list[str]:
        """Beginnings of its words that are too long for chance; a word may have small letters put behind it."""
        return _BEGINNING.findall(self.words)


Placed = tuple[int, float, float, float, float, float]
"""The place of a line among the lines of its page, its box and the size of its type."""


class _Likeness(IntEnum):
    NONE = 0
    SAME_FORM = 1
    SAME_LINE = 2


@dataclass(frozen=True, slots=True)
class RunningLines:
    """Places of running lines in the page.

    `repeated` have been on an earlier page word for word, `first` will be repeated by later ones, `page_numbers` count
    on with the pages. `apart` have the form of a running line but carry other numbers on each page. With `are_kept`
    Markdown shows all of them.
    """

    repeated: frozenset[int] = frozenset()
    page_numbers: frozenset[int] = frozenset()
    first: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()
    are_kept: bool = False

    @property
    def left_out(self) -> frozenset[int]:
        """The lines that Markdown does not show."""
        return frozenset() if self.are_kept else self.again

    @property
    def again(self) -> frozenset[int]:
        """The lines that a reader of the pages before this one has read or counted already."""
        return self.repeated | self.page_numbers

    @property
    def shown(self) -> frozenset[int]:
        """The lines that Markdown shows, before or after the text of the page."""
        return self.first | self.apart | (self.again if self.are_kept else frozenset())

    def among(self, places: frozenset[int]) -> RunningLines:
        """Only those whose place is one of the given."""
        return RunningLines(
            self.repeated & places,
            self.page_numbers & places,
            self.first & places,
            self.apart & places,
            self.are_kept,
        )


class Edges:
    """Edge lines of a document's pages, read when first wanted and kept for the pages nearby.

    `search` says whether a page may have a line with all words of one of some lines. It costs less than reading.
    """

    def __init__(
        self,
        page_count: int,
        read: Callable[[int], tuple[EdgeLine, ...]],
        search: Callable[[int, Sequence[Sequence[str]]], bool],
    ) -> None:
        self._page_count = page_count
        self._read = read
        self._search = search
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

    def may_have(self, number: int, lines: Iterable[EdgeLine]) -> bool:
        """Whether page `number` may have a line with the words of one of these."""
        if number in self._known:
            return True
        words = [line.search_words for line in lines]
        return not all(words) or self._search(number, words)

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
        inside += _second_rows(lines, inside, body, top) if at_top else []
        levels: list[float] = []
        for y, i in sorted(inside, reverse=not at_top):
            if not levels or abs(y - levels[-1]) > 3:
                levels.append(y)
            if len(levels) > _OUTERMOST:
                break
            others = [lines[j] for _, j in inside if j != i]
            found[i] = _edge_line(lines[i], y, at_top, body, others)
    return found


def _second_rows(
    lines: Sequence[TextLine], inside: Sequence[tuple[float, int]], body: float, edge: float
) -> list[tuple[float, int]]:
    """The rows below the edge that go on with the lowest ones inside it: a running head of two rows is one.

    They are known by their type, which is that of the row above and not that of the text.
    """
    near = (lines[i] for y, i in inside if y > edge - 2 * lines[i].size)
    heads = [line for line in near if line.bold or line.size != body]
    if not heads:
        return []
    known = {i for _, i in inside}
    by_type: dict[tuple[float, bool], list[Placed]] = {}
    for i, line in enumerate(lines):
        if i not in known:
            by_type.setdefault((line.size, line.bold), []).append((i, *line.box, line.size))
    found: set[int] = set()
    for head in heads:
        below = [one for one in by_type.get((head.size, head.bold), ()) if head.box[1] < one[2]]
        found |= _touched(head, below)
    return [(lines[i].middle[1], i) for i in sorted(found)]


def _whole_number(line: TextLine, others: Sequence[TextLine]) -> str:
    """The line's text, or that of the page number of which it is a piece: "3", "of" and "10" close to each other."""
    if len(line.text) > _SHORT:
        return line.text
    y, near = line.middle[1], _WORD_GAP_EM * line.size
    row = [other for other in others if other.box[1] < y < other.box[3] and len(other.text) <= _SHORT]
    run: list[TextLine] = []
    for piece in sorted([line, *row], key=lambda one: one.box[0]):
        if run and abs(piece.box[0] - run[-1].box[2]) > near:
            if line in run:
                break
            run = []
        run.append(piece)
    whole = " ".join(piece.text for piece in run)
    return whole if len(run) > 1 and line in run and _PAGE_NUMBER.fullmatch(whole) else line.text


def running(
    number: int, lines: Sequence[TextLine], edges: dict[int, EdgeLine], document: Edges
) -> RunningLines:
    """Which of the edge lines of page `number` run on from page to page, by their place in `lines`.

    Neighbours are read only as long as they can still change the answer.
    """
    touching = _touching(lines, edges)
    candidates = _detached(set(edges), touching)
    if not candidates:
        return RunningLines()
    tally = _Tally(number, edges, candidates, document)
    found = _detached(tally.of_form(), touching)
    same = tally.same() & found
    numbers = frozenset(i for i in same if edges[i].is_page_number)
    repeated = frozenset(same & tally.earlier) - numbers
    return RunningLines(repeated, numbers, same - repeated - numbers, found - same)


class _Tally:
    """Counts, for each candidate, the neighbours that have a line of its form, and those that have the line itself."""

    def __init__(
        self, number: int, edges: dict[int, EdgeLine], candidates: Iterable[int], document: Edges
    ) -> None:
        self._edges = edges
        neighbours = document.neighbours(number)
        enough = 1 if len(neighbours) <= REACH else 2
        self._form = {i: 1 if edges[i].is_page_number else enough for i in candidates}
        self._line = dict(self._form)
        self.earlier: set[int] = set()
        """Those that a page before this one has."""
        for at, neighbour in enumerate(neighbours):
            wanted = [i for i in self._form if self._is_open(i, len(neighbours) - at, neighbour < number)]
            if wanted and document.may_have(neighbour, [edges[i] for i in wanted]):
                self._compare(wanted, document.of(neighbour), neighbour - number)

    def of_form(self) -> set[int]:
        return {i for i, missing in self._form.items() if missing <= 0}

    def same(self) -> frozenset[int]:
        return frozenset(i for i, missing in self._line.items() if missing <= 0)

    def _is_open(self, i: int, left: int, is_before: bool) -> bool:
        """Whether a neighbour can change what is known of candidate `i`, with `left` neighbours to come."""
        form, line = self._form[i], self._line[i]
        if 0 < form <= left or (form <= left and 0 < line <= left):
            return True
        return line <= 0 and is_before and i not in self.earlier and not self._edges[i].is_page_number

    def _compare(self, wanted: Sequence[int], others: Sequence[EdgeLine], distance: int) -> None:
        by_words: dict[str, list[EdgeLine]] = {}
        for other in others:
            by_words.setdefault(other.words, []).append(other)
        for i in wanted:
            line = self._edges[i]
            # The place is asked first: on pages of figures hundreds of lines have the same words.
            alike = max(
                [
                    _likeness(line, other, distance)
                    for other in by_words.get(line.words, ())
                    if other.at_top == line.at_top and abs(line.y - other.y) <= _SAME_PLACE_PT
                ],
                default=_Likeness.NONE,
            )
            if alike is _Likeness.NONE:
                continue
            self._form[i] -= 1
            if alike is _Likeness.SAME_LINE:
                self._line[i] -= 1
                if distance < 0:
                    self.earlier.add(i)
            else:
                self._line[i] = _NEVER  # its number counts on, so no page repeats it


def _detached(found: set[int], touching: dict[int, set[int]]) -> frozenset[int]:
    """Those lines that a gap separates from the text; the first line of a form letter is not a header."""
    while True:
        attached = {i for i in found if not touching[i] <= found}
        if not attached:
            return frozenset(found)
        found = found - attached


def _touching(lines: Sequence[TextLine], edges: dict[int, EdgeLine]) -> dict[int, set[int]]:
    """For each edge line the lines that are as close to it as the lines of one paragraph are."""
    top = max((lines[i].box[3] for i, edge in edges.items() if edge.at_top), default=-_FAR)
    bottom = min((lines[i].box[1] for i, edge in edges.items() if not edge.at_top), default=_FAR)
    near = [(j, o) for j, o in enumerate(lines) if o.box[1] < top + o.size or o.box[3] > bottom - o.size]
    boxes = [(j, *o.box, o.size) for j, o in near]
    return {i: _touched(lines[i], boxes) - {i} for i in edges}


def _touched(line: TextLine, others: Iterable[Placed]) -> set[int]:
    """The places of those lines that are as close to the line as those of a paragraph."""
    x0, y0, x1, y1 = line.box
    size = line.size
    least, most = -0.5 * size, _LEADING * size
    return {
        j
        for j, left, top, right, bottom, other in others
        if x1 > left and right > x0 and abs(size - other) <= 1 and least < max(top - y1, y0 - bottom) < most
    }


def _edge_line(line: TextLine, y: float, at_top: bool, body: float, others: Sequence[TextLine]) -> EdgeLine:
    text = _whole_number(line, others)
    is_number = _PAGE_NUMBER.fullmatch(text) is not None and not _OTHER_NUMBER.fullmatch(text)
    return EdgeLine(
        text=text,
        words=" ".join(_NUMBER.sub("#", text).casefold().split()),
        numbers=tuple(int(n) for n in _NUMBER.findall(text[:_MAX_CHARS]) if len(n) <= 9),
        y=y,
        at_top=at_top,
        is_page_number=is_number,
        is_large=line.size > _LARGE_RATIO * body,
        behind=_text_behind(line, others) if is_number else "",
    )


def _text_behind(line: TextLine, others: Sequence[TextLine]) -> str:
    """The text that follows in the same row so closely that the number may belong to it; empty if there is none."""
    y = line.middle[1]
    behind = (
        other.text
        for other in others
        if other.box[1] < y < other.box[3] and 0 <= other.box[0] - line.box[2] < _APART_EM * line.size
    )
    return next(behind, "")


def _likeness(line: EdgeLine, other: EdgeLine, distance: int) -> _Likeness:
    """How much two lines with the same words have in common, of pages that are `distance` apart.

    They are in the same place, and each number must be the same or as far apart as the pages are. Rows of a long table
    that begin alike on every page differ in their figures, and "Chapter 2" in large type is a heading.
    """
    if len(line.numbers) != len(other.numbers):
        return _Likeness.NONE
    steps = [b - a for a, b in zip(line.numbers, other.numbers, strict=True)]
    if any(step not in (0, distance) or (step and line.is_large) for step in steps):
        return _Likeness.NONE
    if line.is_page_number:
        counts_on = distance in steps and line.behind == other.behind
        return _Likeness.SAME_LINE if counts_on else _Likeness.NONE
    if len(_LETTER.findall(line.words)) < _MIN_LETTERS and not any(steps):
        return _Likeness.NONE
    return _Likeness.SAME_LINE if line.text == other.text else _Likeness.SAME_FORM
