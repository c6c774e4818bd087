"""Makes elements of a PDF page's blocks: headings, paragraphs, items of lists, tables, code, running lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from quire.domain.element import (
    RUNNING_KINDS,
    Box,
    Element,
    ElementKind,
    ElementLine,
    HeadingLook,
    TableGrid,
    element_id,
    hull,
)
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.contents_list import ContentsEntry, contents_entries
from quire.reading.pdf.form_fields import FormField
from quire.reading.pdf.heading_places import heads_of_text, is_beside
from quire.reading.pdf.headings import HeadingGroup, PageType, groups_of, is_heading, level_of
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.mirrored_lines import are_leftward, set_from_left
from quire.reading.pdf.outline import Titles
from quire.reading.pdf.paragraph_kinds import TITLE_RATIO, is_rest_of_formula, paragraph_kind, settled
from quire.reading.pdf.table_columns import true_columns
from quire.reading.pdf.table_heads import head_rows_of
from quire.reading.pdf.text_lines import BULLETS, TextLine, body_size
from quire.rendering.markdown_writer import clean, join_lines

_BULLET_LINE = re.compile(rf"^([{BULLETS}])\s*(?=\S|$)")
_ORDERED_LINE = re.compile(r"(\(?(?:\d{1,2}|[a-z]|[ivx]{1,5})[.)])\s+(?=\S)")
_CUT_LINE = re.compile(r"[^\W\d_⁰¹²³⁴-⁹][,-]?$")
_LONGEST_HEADING = 160
RUNNING, REPEATED = "running", "repeated"
"""Kinds of blocks: lines of the margin, and those that pages before have too, which are never headings."""
_LARGER = 1.15
_PROSE_WORDS, _PROSE_LINES = 6, 2


@dataclass(frozen=True, slots=True)
class ComposeStyle:
    """What the elements depend on besides the blocks."""

    body_size: float
    height: float
    join_hyphens: bool
    titles: Titles = field(default_factory=dict)
    hyphenated: frozenset[str] = frozenset()
    """Words that the page writes with a hyphen inside of a line."""


class PageBuilder:
    """Collects the elements of one page, and numbers them.

    `first` has lines, by their `id`, that later pages repeat, and what they are.
    """

    def __init__(self, number: int, style: ComposeStyle, first: Mapping[int, ElementKind]) -> None:
        self._number = number
        self._style = style
        self._first = first
        self._title_sizes: dict[str, float] = {}
        self._elements: list[Element] = []
        self._margins: list[Box] = []
        """Boxes of page numbers and of lines that pages before have too."""

    def finished(self, *, show_running: bool = False) -> list[Element]:
        """All elements of the page, in the order in which they were added; with `show_running` none of its running
        lines is left out of the Markdown."""
        made = settled(self._elements, self._title_sizes, self._style.height)
        if not show_running:
            return made
        return [replace(one, repeated=False) if one.kind in RUNNING_KINDS else one for one in made]

    def add_running(self, kind: ElementKind, line: TextLine) -> None:
        """A running header, a running footer or a page number that Markdown leaves out."""
        text = clean(line.text)
        if text:
            self._elements.append(
                Element(
                    self._next_id(),
                    kind,
                    text,
                    line.box,
                    repeated=True,
                    lines=(ElementLine(0, line.box),),
                )
            )

    def add_fields(self, fields: Iterable[FormField]) -> None:
        """Fields of a form. Markdown leaves out those whose value is in the text."""
        for one in fields:
            self._elements.append(
                Element(
                    self._next_id(),
                    ElementKind.FORM_FIELD,
                    clean(one.value),
                    one.box,
                    marker=clean(one.name),
                    repeated=one.is_shown,
                )
            )

    def add_blocks(self, filled: Sequence[FilledBlock]) -> None:
        """The elements of blocks that have their lines, in the order given."""
        page = _page_type(filled, self._style)
        self._margins = [one.box for one in self._elements if one.repeated and one.box]
        self._margins += [line.box for item in filled if item.block.kind == REPEATED for line in item.lines]
        heads = heads_of_text([item.lines for item in filled], page.body_size)
        for place, item in enumerate(filled):
            self._add_block(item, page, place in heads)

    def _next_id(self) -> str:
        return element_id(self._number, len(self._elements))

    def _add_block(self, item: FilledBlock, page: PageType, heads_text: bool) -> None:
        block = item.block
        if block.kind == "rule":
            return
        if block.kind == "table":
            self._add_table(block)
        elif block.kind == "contents":
            for entry in block.entries:
                self._add_entry(entry)
        elif block.kind == "numbered_lines":
            self._add_numbered(block)
        elif block.kind == "figure":
            self._elements.append(Element(self._next_id(), ElementKind.FIGURE, box=block.box))
        elif block.kind == "code":
            self._elements.append(
                Element(self._next_id(), ElementKind.CODE, "\n".join(block.lines), _box_of(block))
            )
        elif not item.lines:
            self._add_unmatched(block)
        elif block.kind == "list_item" or _BULLET_LINE.match(item.lines[0].text):
            self._add_items(item)
        else:
            self._add_text(item, page, heads_text)

    def _add_text(self, item: FilledBlock, page: PageType, heads_text: bool) -> None:
        block = item.block
        entries = contents_entries(item.lines)
        if entries:
            for entry in entries:
                self._add_entry(entry)
            return
        pending: list[TextLine] = []
        for group in groups_of(item.lines, block.kind == "heading", self._style.titles, heads_text):
            if is_heading(group, page) and not self._is_running(group, block):
                self._add_paragraph(pending, block)
                pending = []
                self._add_heading(group, page)
            else:
                pending.extend(group.lines)
        self._add_paragraph(pending, block)

    def _is_running(self, group: HeadingGroup, block: LayoutBlock) -> bool:
        """Whether it is a running line, which heads nothing. The document's outline knows better.

        What is in a row with a page number is one too, although each section has its own. In larger type at the top
        it heads the page that has it first.
        """
        if group.level:
            return False
        if block.kind not in (RUNNING, REPEATED):
            is_small = group.size <= _LARGER * self._style.body_size
            return is_small and any(is_beside(group.lines[0].box, box) for box in self._margins)
        if block.kind == REPEATED:
            return True
        at_top = group.lines[0].upright and group.lines[0].middle[1] < self._style.height / 2
        return not (at_top and group.size > _LARGER * self._style.body_size)

    def _add_entry(self, entry: ContentsEntry) -> None:
        """An entry of a contents list."""
        text, boxes = clean(entry.text), [line.box for line in entry.lines]
        places = _places_in(text, entry.lines)
        self._elements.append(
            Element(
                self._next_id(), ElementKind.LIST_ITEM, text, hull(boxes), depth=entry.depth, lines=places
            )
        )

    def _add_numbered(self, block: LayoutBlock) -> None:
        """Text with numbered lines: each keeps its line."""
        texts = list(map(clean, block.lines))
        starts = accumulate((len(text) + 1 for text in texts[:-1]), initial=0)
        places = tuple(map(ElementLine, starts, block.line_boxes))
        self._elements.append(
            Element(self._next_id(), ElementKind.PARAGRAPH, "\n".join(texts), block.box, lines=places)
        )

    def _add_table(self, block: LayoutBlock) -> None:
        rows = tuple(tuple(map(clean, row)) for row in block.rows)
        if any(rows):
            rows, spans = true_columns(rows, block.spans)
            grid = TableGrid(rows, head_rows_of(rows, spans), spans)
            self._elements.append(Element(self._next_id(), ElementKind.TABLE, box=_box_of(block), table=grid))

    def _add_unmatched(self, block: LayoutBlock) -> None:
        """A block whose lines were not found: the layout reader's own text is used."""
        text = clean(block.text)
        if not text:
            return
        kind, level, marker, depth = ElementKind.PARAGRAPH, 0, "", 0
        if block.kind == "heading" and len(text) <= _LONGEST_HEADING:
            kind, level = ElementKind.HEADING, block.level or 2
        elif block.kind == "list_item":
            kind, marker, depth = ElementKind.LIST_ITEM, block.marker, block.level
        self._elements.append(
            Element(self._next_id(), kind, text, _box_of(block), level=level, marker=marker, depth=depth)
        )

    def _add_heading(self, group: HeadingGroup, page: PageType) -> None:
        look = HeadingLook(group.size, group.bold, group.level > 0)
        self._add_lines(group.lines, ElementKind.HEADING, level=level_of(group, page), look=look)
        last = self._elements[-1] if self._elements else None
        if self._number == 1 and last is not None and group.size >= TITLE_RATIO * page.body_size:
            self._title_sizes[last.id] = group.size

    def _add_paragraph(self, lines: Sequence[TextLine], block: LayoutBlock) -> None:
        if not lines:
            return
        kind = None
        if self._first and all(id(line) in self._first for line in lines):
            kind = self._first[id(lines[0])]
        self._add_lines(lines, kind, breaks=_breaks(lines, block))

    def _add_lines(
        self,
        lines: Sequence[TextLine],
        kind: ElementKind | None,
        *,
        breaks: Sequence[bool] = (),
        level: int = 0,
        look: HeadingLook | None = None,
    ) -> None:
        """Adds the lines as one element; without a `kind` the text says which it is."""
        text, starts = self._joined(lines, breaks)
        if text:
            kind = kind or paragraph_kind(text, lines, self._style.body_size, self._style.height)
            boxes = [line.box for line in lines]
            last = self._elements[-1] if self._elements else None
            if last and kind is ElementKind.PARAGRAPH and is_rest_of_formula(last, text, lines):
                self._elements[-1] = _with_rest(last, text, starts, boxes)
                return
            places = tuple(map(ElementLine, starts, boxes))
            self._elements.append(
                Element(self._next_id(), kind, text, hull(boxes), level=level, lines=places, look=look)
            )

    def _joined(self, lines: Sequence[TextLine], breaks: Sequence[bool] = ()) -> tuple[str, list[int]]:
        texts = [clean(line.text) for line in lines]
        style = self._style
        return join_lines(
            texts,
            breaks or [False] * len(texts),
            join_hyphens=style.join_hyphens,
            hyphenated=style.hyphenated,
        )

    def _add_items(self, item: FilledBlock) -> None:
        block = item.block
        rows: list[list[TextLine]] = []
        right = max(block.box[2], *(line.box[2] for line in item.lines))
        for line in item.lines:
            if not rows or _BULLET_LINE.match(line.text) or _is_inner_item(line, rows[-1][-1], right):
                rows.append([line])
            else:
                rows[-1].append(line)
        for i, row in enumerate(rows):
            whole, starts = self._joined(row)
            text, marker = whole, block.marker if i == 0 else ""
            if marker and text.startswith(marker):
                text = text[len(marker) :].lstrip()
            text = _BULLET_LINE.sub("", text)
            if i > 0 and (numbered := _ORDERED_LINE.match(text)):
                marker, text = numbered[1], text[numbered.end() :]
            if text:
                cut = len(whole) - len(text)
                boxes = [line.box for line in row]
                places = tuple(
                    ElementLine(max(0, start - cut), box) for start, box in zip(starts, boxes, strict=True)
                )
                self._elements.append(
                    Element(
                        self._next_id(),
                        ElementKind.LIST_ITEM,
                        text,
                        hull(boxes),
                        marker=marker,
                        depth=block.level + (i > 0),
                        lines=places,
                    )
                )


def _places_in(text: str, lines: Sequence[TextLine]) -> tuple[ElementLine, ...]:
    """Where each line begins in a text that is not quite theirs: dots are gone. A line that is not found goes with the
    one before."""
    places: list[ElementLine] = []
    for line in lines:
        first = clean(line.text).split(" ", 1)[0]
        start = text.find(first, places[-1].start + 1) if places else 0
        if start < 0:
            places[-1] = ElementLine(places[-1].start, hull([places[-1].box, line.box]))
        else:
            places.append(ElementLine(start, line.box))
    return tuple(places)


def _with_rest(formula: Element, text: str, starts: Sequence[int], boxes: Sequence[Box]) -> Element:
    """The formula with the text below it as a line of its own."""
    start = len(formula.text) + 1
    places = [ElementLine(start + at, box) for at, box in zip(starts, boxes, strict=True)]
    box = hull([formula.box, *boxes]) if formula.box else hull(boxes)
    return replace(formula, text=f"{formula.text}\n{text}", box=box, lines=(*formula.lines, *places))


def _is_inner_item(line: TextLine, above: TextLine, right: float) -> bool:
    """Whether a line of an item begins one of its own: it has a number, and the line above was ended for it."""
    return (
        _ORDERED_LINE.match(line.text) is not None
        and not above.bold
        and line.box[1] > above.middle[1]
        and _ends_early(above, line, right)
    )


def _box_of(block: LayoutBlock) -> Box | None:
    """The block's box; None for a block that is not placed on the page."""
    return block.box if block.box[2] > block.box[0] >= -1e5 else None


def prose_size(filled: Sequence[FilledBlock]) -> float:
    """The size of type of the page's text outside its tables; 0 for a page that has hardly any.

    Small cells may have most letters of a page, but headings are larger than its text. Text is told by sentences that
    go on from line to line.
    """
    blocks = [item.lines for item in filled if item.block.kind in ("paragraph", "list_item")]
    prose = [line for lines in blocks if any(line.text[0].islower() for line in lines[1:]) for line in lines]
    long = sum(line.text.count(" ") >= _PROSE_WORDS - 1 for line in prose)
    return body_size(prose) if long >= _PROSE_LINES else 0.0


def _page_type(filled: Sequence[FilledBlock], style: ComposeStyle) -> PageType:
    size = style.body_size or body_size(line for item in filled for line in item.lines)
    plain = PageType(size, style.height)
    bold = any(
        group.bold and is_heading(group, plain)
        for item in filled
        if item.block.kind not in (RUNNING, REPEATED) and any(line.bold for line in item.lines)
        for group in groups_of(item.lines, item.block.kind == "heading")
    )
    return PageType(size, style.height, bold)


def _breaks(lines: Sequence[TextLine], block: LayoutBlock) -> list[bool]:
    """Whether each line was ended on purpose: the next line's first word would have fitted behind it.

    A long line in the middle of a sentence was not.
    """
    right = max(block.box[2], *(line.box[2] for line in lines)) if lines else 0.0
    if len(lines) > 1 and are_leftward(lines):
        mirror = set_from_left(lines)
        lines, right = mirror.lines, max(mirror.box(block.box)[2], *(line.box[2] for line in mirror.lines))
    breaks = []
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if following is None:
            breaks.append(False)
            continue
        below = following.box[1] >= line.box[1] + 0.5 * line.size
        is_early = below and not block.keeps_lines and _ends_early(line, following, right)
        breaks.append((below and block.keeps_lines) or (is_early and not _runs_on(line, following, right)))
    return breaks


def _runs_on(line: TextLine, following: TextLine, right: float) -> bool:
    """Whether the line fills more than half of the measure, and ends in the middle of a sentence."""
    is_long = line.box[2] - line.box[0] > right - line.box[2]
    return is_long and following.text[0].islower() and _CUT_LINE.search(line.text) is not None


def _ends_early(line: TextLine, following: TextLine, right: float) -> bool:
    """Whether the first word of the following line would have fitted behind the line."""
    room = right - line.box[2] - line.size
    if room <= 0:
        return False
    first = following.text.split(" ", 1)[0]
    width = (following.box[2] - following.box[0]) * (len(first) + 1) / max(1, len(following.text))
    return width * 1.3 < room
