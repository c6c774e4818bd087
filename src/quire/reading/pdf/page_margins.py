"""The running lines of one page: which of them Markdown shows, and the elements that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from quire.domain.element import RUNNING_KINDS, Box, Element, ElementKind
from quire.domain.element_tree import renumbered
from quire.reading.pdf.block_elements import REPEATED, RUNNING, PageBuilder
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.compose import is_in_table
from quire.reading.pdf.layout_blocks import LayoutBlock
from quire.reading.pdf.running_lines import EdgeLine, RunningLines
from quire.reading.pdf.text_flow import flow
from quire.reading.pdf.text_lines import TextLine

_SLACK_PT = 1.0


@dataclass(frozen=True, slots=True)
class PageMargins:
    """The lines of a page, those at its edges by their place, and which of these run on from page to page."""

    lines: Sequence[TextLine]
    edges: dict[int, EdgeLine]
    height: float
    running: RunningLines = field(default_factory=RunningLines)

    def taken(self) -> list[TextLine]:
        """The lines that are no text of the page."""
        return [self.lines[i] for i in self.running.left_out | self.running.shown]

    def kinds(self) -> dict[int, ElementKind]:
        """What the running lines are that Markdown shows word for word, by the `id` of the line."""
        return {id(self.lines[i]): self._kind(i) for i in self.running.shown - self.running.apart}

    def add_left_out(self, page: PageBuilder, *, at_top: bool) -> None:
        """Adds the running lines of one edge that Markdown does not show."""
        lines = self.lines
        for i in sorted(self.running.left_out, key=lambda i: (lines[i].middle[1], lines[i].box[0])):
            if self.edges[i].at_top == at_top:
                page.add_running(self._kind(i), lines[i])

    def blocks(self, tables: Sequence[LayoutBlock], *, at_top: bool) -> list[FilledBlock]:
        """The running lines of one edge that Markdown shows, but for those that a table has."""
        lines = [self.lines[i] for i in sorted(self.running.shown) if self.edges[i].at_top == at_top]
        lines = [line for line in lines if not any(is_in_table(line, table) for table in tables)]
        if not lines:
            return []
        found = flow(lines, (), self.height)
        if not found:
            found = [FilledBlock(LayoutBlock(RUNNING, line.box), [line]) for line in lines]
        again = {id(self.lines[i]) for i in self.running.again}
        return [FilledBlock(replace(one.block, kind=_block_kind(one, again)), one.lines) for one in found]

    def _kind(self, place: int) -> ElementKind:
        if place in self.running.page_numbers:
            return ElementKind.PAGE_NUMBER
        at_top = self.edges[place].at_top
        return ElementKind.RUNNING_HEADER if at_top else ElementKind.RUNNING_FOOTER


def with_margins_in_order(elements: list[Element], number: int) -> list[Element]:
    """The elements of page `number`, those of its margins that Markdown leaves out where they are on the page.

    They were added in front of all others and behind them, also where a line that is shown is nearer to the edge.
    """
    ordered = _head_in_order(elements, lambda one, other: one[3] <= other[1] + _SLACK_PT)
    ordered = _head_in_order(ordered[::-1], lambda one, other: one[1] >= other[3] - _SLACK_PT)[::-1]
    is_same = all(one is other for one, other in zip(ordered, elements, strict=True))
    return elements if is_same else list(renumbered(ordered, number))


def _head_in_order(elements: list[Element], comes_before: Callable[[Box, Box], bool]) -> list[Element]:
    """The elements, those that come before one of the left out lines in front of all in front of it."""
    count = next((at for at, one in enumerate(elements) if not _is_left_out(one)), len(elements))
    ordered = elements[:count]
    rest = elements[count:]
    while ordered and rest and (box := rest[0].box) is not None:
        place = next((at for at, one in enumerate(ordered) if one.box and comes_before(box, one.box)), None)
        if place is None:
            break
        ordered.insert(place, rest.pop(0))
    return [*ordered, *rest]


def _is_left_out(element: Element) -> bool:
    return element.repeated and element.kind in RUNNING_KINDS


def _block_kind(item: FilledBlock, again: set[int]) -> str:
    return REPEATED if any(id(line) in again for line in item.lines) else RUNNING
