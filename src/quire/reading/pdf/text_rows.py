"""Rows of a page: what is at one height, as one line or as the pieces that MuPDF took it for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quire.domain.element import hull
from quire.reading.pdf.text_lines import BULLETS, Box, TextLine

_SAME_ROW = 0.5
_OVERLAP_EM = 0.6
_STRETCHED, _EVEN = 3, 1.5
_MARK_ALONE = re.compile(
    rf"[{BULLETS}o–—−-]|\(?(?:\d{{1,3}}|[a-z]|[ivx]{{1,5}})[.)]|\[[\w+.–-]{{1,12}}\]|\d{{1,2}}(?:\.\d{{1,2}}){{1,3}}\.?"
)
WORD_GAP_EM = 1.2
LABEL = re.compile(r"\[[\w+.–-]{1,12}\]")
"""The label of a reference: "[12]", "[Cop87]"."""
CLAUSE = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.?")
"""The number of a clause: "4.2". The lines of its text begin behind it."""
_LEAST_LABELS = 3


def labels_of(lines: Sequence[TextLine]) -> list[TextLine]:
    """The labels of references that are apart from their texts; none if there are few."""
    found = [line for line in lines if line.text[0] == "[" and LABEL.fullmatch(line.text)]
    return found if len(found) >= _LEAST_LABELS else []


@dataclass(frozen=True, slots=True)
class RowSource:
    """What the layout reader says of the block that a row is from."""

    heading: int
    """The number of the block if it is a heading, else 0."""
    is_bold: bool
    """All of the block is in bold type."""
    right: float
    """Where the block ends."""


@dataclass(slots=True)
class TextRow:
    """What is at one height: one line, or the pieces that MuPDF took it for."""

    lines: list[TextLine]
    box: Box
    source: RowSource | None = None

    @property
    def size(self) -> float:
        return self.lines[-1].size

    @property
    def bold(self) -> bool:
        lines = self.lines
        return lines[0].bold if len(lines) == 1 else all(line.bold for line in lines)

    @property
    def all_bold(self) -> bool:
        return not any(line.mixed or not line.bold for line in self.lines)

    @property
    def text(self) -> str:
        lines = self.lines
        return lines[0].text if len(lines) == 1 else " ".join([line.text for line in lines])

    @property
    def heading(self) -> int:
        """The number of the layout reader's heading that has the row; 0 for none."""
        return self.source.heading if self.source is not None else 0

    @property
    def says_heading(self) -> bool:
        """Whether it is in bold type. Of what the layout reader has seen by itself, that reader knows better."""
        if self.source is None:
            return self.bold
        return bool(self.source.heading) or (self.bold and not self.source.is_bold)


def parted_rows(
    lines: Sequence[TextLine], *, may_stretch: bool = True, gap_em: float = WORD_GAP_EM
) -> list[list[TextRow]] | None:
    """The lines in rows from top to bottom, each cut at its wide gaps; None if pieces of a row overlap.

    A line of prose may be stretched, unless it is known that there is none. `gap_em` is the least width of a gap.
    """
    rows: list[TextRow] = []
    for line in sorted(lines, key=lambda line: (line.box[1] + line.box[3], line.box[0])):
        box = line.box
        if rows:
            other = rows[-1].box
            shared = min(box[3], other[3]) - max(box[1], other[1])
            if shared > _SAME_ROW * min(box[3] - box[1], other[3] - other[1]):
                rows[-1].lines.append(line)
                rows[-1].box = hull([other, box])
                continue
        rows.append(TextRow([line], box))
    found: list[list[TextRow]] = []
    for row in rows:
        parts = _parts(row, gap_em)
        if parts is None:
            return None
        is_whole = may_stretch and len(parts) >= _STRETCHED and _is_stretched(parts, rows)
        found.append([row] if is_whole else parts)
    return found


def _is_stretched(parts: Sequence[TextRow], rows: Sequence[TextRow]) -> bool:
    """Whether it is one line of prose that was stretched to fill the measure.

    Its gaps are of one width, it goes from margin to margin, and most of its pieces go on with a sentence.
    """
    left, right = min(row.box[0] for row in rows), max(row.box[2] for row in rows)
    near = parts[0].size
    if parts[0].box[0] > left + near or parts[-1].box[2] < right - near:
        return False
    gaps = [b.box[0] - a.box[2] for a, b in pairwise(parts)]
    going_on = sum(part.text[:1].islower() for part in parts[1:])
    return max(gaps) <= _EVEN * min(gaps) and 2 * going_on > len(parts) - 1


def _parts(row: TextRow, gap_em: float) -> list[TextRow] | None:
    """The row cut at wide gaps, but not behind the mark of an item; None if pieces overlap."""
    if len(row.lines) == 1:
        return [row]
    row.lines.sort(key=lambda line: line.box[0])
    parts = [TextRow([row.lines[0]], row.lines[0].box)]
    for line in row.lines[1:]:
        last = parts[-1]
        gap = line.box[0] - last.box[2]
        if gap < -_OVERLAP_EM * line.size:
            return None
        hangs = len(last.lines) == 1 and _MARK_ALONE.fullmatch(last.lines[0].text) and gap < 5 * line.size
        if gap < gap_em * line.size or hangs:
            last.lines.append(line)
            last.box = hull([last.box, line.box])
        else:
            parts.append(TextRow([line], line.box))
    return parts
