"""Puts the blocks of a page that is not plain into the order of its columns, where these are plain to see.

The layout reader errs about the order of columns, as where a title spans them or a heading follows them. Columns of
prose show by their lines. Tables, code and charts in a column stay in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.block_matching import FilledBlock
from quire.reading.pdf.prose_stretches import stretches
from quire.reading.pdf.several_columns import column_stretches
from quire.reading.pdf.text_lines import Box, TextLine
from quire.reading.pdf.text_rows import parted_rows

_GOING_ON = 0.35
"""Of the lines of prose at least so many begin in lower case; cells and entries begin anew."""
_LEAST_LINES = 12
_MOST_LINES = 1000
_BAND_GAP_EM = 1.0


def in_column_order(
    filled: Sequence[FilledBlock], lines: Sequence[TextLine], tables: Sequence[Box]
) -> list[FilledBlock]:
    """The blocks in the order of the columns, each cut where it has lines of two; unchanged if no columns show.

    `lines` are those outside the tables found, whose boxes are `tables`.
    """
    regions = column_regions(lines, tables)
    if len(regions) < 2:
        return list(filled)
    places = {id(line): at for at, region in enumerate(regions) for line in region}
    parts: list[list[_Part]] = [[] for _ in regions]
    last = 0
    count = len(filled)
    while (
        count and all(id(line) not in places for line in filled[count - 1].lines) and filled[count - 1].lines
    ):
        count -= 1
    left_over = filled[count:]
    for item in filled[:count]:
        found = _parts(item, places, regions)
        if not found:
            return list(filled)
        for place, part in found:
            last = last if place < 0 else place
            parts[last].append(_Part(part, is_cut=len(found) > 1))
    result: list[FilledBlock] = []
    for region in parts:
        ordered = _from_top(region)
        if ordered is None and any(part.is_cut for part in region):
            return list(filled)
        result += [part.item for part in region] if ordered is None else ordered
    return [*result, *left_over]


@dataclass(frozen=True, slots=True)
class _Part:
    """A block, or what it has of one column."""

    item: FilledBlock
    is_cut: bool


def _parts(
    item: FilledBlock, places: dict[int, int], regions: Sequence[Sequence[TextLine]]
) -> list[tuple[int, FilledBlock]]:
    """The block as its parts, each with its place; -1 for what has none. Empty if a table or the like is of two."""
    if item.lines:
        runs: dict[int, list[TextLine]] = {}
        place = -1
        for line in item.lines:
            place = places.get(id(line), place)
            runs.setdefault(place, []).append(line)
        return [(place, item if len(runs) == 1 else _of_lines(item, run)) for place, run in runs.items()]
    if item.block.box[0] < -1e5:
        return [(-1, item)]
    x0, y0, x1, y1 = item.block.box
    inside = {
        at
        for at, region in enumerate(regions)
        for line in region
        if x0 <= line.middle[0] <= x1 and y0 <= line.middle[1] <= y1
    }
    return [(inside.pop() if inside else -1, item)] if len(inside) <= 1 else []


def _of_lines(item: FilledBlock, lines: list[TextLine]) -> FilledBlock:
    text = " ".join(line.text for line in lines)
    return FilledBlock(replace(item.block, box=hull([line.box for line in lines]), text=text), lines)


def _from_top(parts: Sequence[_Part]) -> list[FilledBlock] | None:
    """What a column has from top to bottom, row by row; None where texts are side by side in it."""
    owners = {id(line): part.item for part in parts for line in part.item.lines}
    rows = parted_rows([line for part in parts for line in part.item.lines]) if owners else []
    if rows is None or any(len(row) > 1 for row in rows):
        return None
    pieces: list[FilledBlock] = []
    last: FilledBlock | None = None
    solid = [part.item for part in parts if not part.item.lines]
    waiting = sorted(solid, key=lambda item: item.block.box[1])
    for (row,) in rows:
        while waiting and waiting[0].block.box[1] < (row.box[1] + row.box[3]) / 2:
            pieces.append(waiting.pop(0))
            last = None
        for line in row.lines:
            owner = owners[id(line)]
            if owner is last:
                pieces[-1].lines.append(line)
            else:
                pieces.append(FilledBlock(owner.block, [line]))
            last = owner
    sizes = Counter(id(piece.block) for piece in pieces)
    whole = [
        piece if sizes[id(piece.block)] == 1 or not piece.lines else _of_lines(piece, piece.lines)
        for piece in pieces
    ]
    return [*whole, *waiting]


def column_regions(lines: Sequence[TextLine], tables: Sequence[Box] = ()) -> list[list[TextLine]]:
    """The lines as stretches in reading order; none if no columns of prose show."""
    upright = [line for line in lines if line.upright]
    if not _LEAST_LINES <= len(upright) <= _MOST_LINES:
        return []
    solid = [*upright, *(TextLine("|", box, 0.0, False, False, True, False, -1) for box in tables)]
    several = column_stretches(upright) if not tables else []
    if several:
        return several
    whole = _stretches(solid)
    if whole:
        return whole
    bands = [(band, _stretches(band)) for band in _bands(solid)]
    if any(one and other for (_, one), (_, other) in pairwise(bands)):
        return []
    if not any(found for _, found in bands):
        return []
    return [region for band, found in bands for region in (found or [band])]


def _stretches(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    if len(lines) < _LEAST_LINES:
        return []
    found = stretches(lines)
    return found if len(found) > 1 and all(map(_goes_on, _columns(found, lines))) else []


def _columns(found: Sequence[Sequence[TextLine]], lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """The lines of the stretches in the left half, and of those in the right one."""
    middle = (min(line.box[0] for line in lines) + max(line.box[2] for line in lines)) / 2
    for is_left in (True, False):
        yield [
            line
            for stretch in found
            for line in stretch
            if line.size
            and ((line.box[2] <= middle + line.size) if is_left else (line.box[0] >= middle - line.size))
        ]


def _goes_on(column: Sequence[TextLine]) -> bool:
    """Whether sentences go on from line to line. Letters of many scripts have no capitals: they count too."""
    going_on = sum((first := line.text[0]).isalpha() and first == first.lower() for line in column)
    return going_on >= _GOING_ON * len(column) > 0


def _bands(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """The lines between gaps as high as a line that go over the whole page."""
    bands: list[list[TextLine]] = []
    reached = float("-inf")
    for line in sorted(lines, key=lambda line: line.box[1]):
        if bands and line.box[1] - reached < _BAND_GAP_EM * (line.size or 1.0):
            bands[-1].append(line)
        else:
            bands.append([line])
        reached = max(reached, line.box[3])
    return bands
