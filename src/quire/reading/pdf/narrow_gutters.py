"""Cuts lines that run on over the gutter of a page in two columns.

MuPDF joins pieces that are no farther apart than words. Where a gutter is that narrow, a line of the left column and
one of the right column become one line. The left edge of the right column shows the gutter: many lines begin there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from quire.domain.element import hull

_LEAST_LINES = 6
_LEAST_JOINED = 2
_SAME_EDGE_PT = 1.5
_AT_EDGE_PT = 4.0
_LEAST_WIDTH_PT = 60.0
_MIDDLE = (0.3, 0.7)
_UPRIGHT = (1.0, 0.0)
_LARGER = 1.25
"""A piece in type this much larger than that of the right column is no line of it, but part of a title over both."""

RawLine = dict[str, Any]
Word = tuple[Any, ...]
"""Left, top, right and bottom of a word, and the word."""


def cut_at_gutter(content: dict[str, Any], words: Callable[[], Sequence[Word]]) -> None:
    """Cuts the joined lines in MuPDF's dictionary of a page. A page without such lines is left as it is.

    `words` gives MuPDF's words of the page; it is called only where a line runs on over a gutter.
    """
    blocks = [block for block in content["blocks"] if "lines" in block]
    lines = [line for block in blocks for line in block["lines"] if line["dir"] == _UPRIGHT]
    edge = column_edge([line["bbox"] for line in lines])
    if edge is None:
        return
    largest = _LARGER * median(_size(line) for line in lines if abs(line["bbox"][0] - edge) <= _AT_EDGE_PT)
    crossing = [line for line in lines if _crosses(line, edge)]
    if len(crossing) < _LEAST_JOINED:
        return
    at_edge = [word for word in words() if abs(word[0] - edge) <= _AT_EDGE_PT]
    parts: dict[int, list[RawLine]] = {}
    for run in _runs(crossing):
        found = {id(line): pieces for line in run if (pieces := _parts(line, edge, at_edge))}
        if 2 * len(found) > len(run):
            parts |= {line: pieces for line, pieces in found.items() if _size(pieces[1]) <= largest}
    if len(parts) < _LEAST_JOINED:
        return
    for block in blocks:
        block["lines"] = [part for line in block["lines"] for part in parts.get(id(line), [line])]


def column_edge(boxes: Sequence[Sequence[float]]) -> float | None:
    """The left edge of the right column of a page in two columns; None where many lines begin at no such place."""
    wide = [box for box in boxes if box[2] - box[0] >= _LEAST_WIDTH_PT]
    if len(wide) < 2 * _LEAST_LINES:
        return None
    low, high = min(box[0] for box in wide), max(box[2] for box in wide)
    first, last = (low + share * (high - low) for share in _MIDDLE)
    starts = sorted(box[0] for box in wide if first <= box[0] <= last)
    best, edge = 0, 0.0
    for at, start in enumerate(starts):
        count = sum(other - start <= _SAME_EDGE_PT for other in starts[at : at + 200])
        if count > best:
            best, edge = count, start
    if best < _LEAST_LINES:
        return None
    left = sum(box[0] < edge - _LEAST_WIDTH_PT and box[2] <= edge + _AT_EDGE_PT for box in wide)
    return edge if left >= _LEAST_LINES else None


def _runs(lines: Sequence[RawLine]) -> list[list[RawLine]]:
    """Lines directly below one another. Of prose as wide as the page, few lines have a word at the edge by chance."""
    runs: list[list[RawLine]] = []
    for line in sorted(lines, key=lambda one: one["bbox"][1]):
        if runs and line["bbox"][1] - runs[-1][-1]["bbox"][3] < _size(line):
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _size(line: RawLine) -> float:
    """The size of its largest type. Boxes don't tell: they are higher where pieces are joined that are not level."""
    return max((span["size"] for span in line["spans"] if span["text"].strip()), default=0.0)


def _crosses(line: RawLine, edge: float) -> bool:
    box = line["bbox"]
    return bool(box[0] < edge - _LEAST_WIDTH_PT and box[2] > edge + _AT_EDGE_PT)


def _parts(line: RawLine, edge: float, at_edge: Sequence[Word]) -> list[RawLine]:
    """The pieces of both columns; none for a line that is not joined."""
    spans = _cut_span(line["spans"], line["bbox"], at_edge)
    for place, span in enumerate(spans):
        if place and span["text"].strip() and abs(_first_x(span) - edge) <= _AT_EDGE_PT:
            left = _without_end_space(spans[:place])
            if left:
                return [_line_of(line, side) for side in (left, spans[place:])]
    return []


def _without_end_space(spans: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The spans without the space that MuPDF puts between the pieces, which is as tall as both."""
    count = len(spans)
    while count and not spans[count - 1]["text"].strip():
        count -= 1
    return spans[:count]


def _cut_span(
    spans: Sequence[dict[str, Any]], box: Sequence[float], at_edge: Sequence[Word]
) -> list[dict[str, Any]]:
    """The spans; one that has a word at the edge inside it is cut before that word."""
    found: list[dict[str, Any]] = []
    for span in spans:
        left, top, right, bottom = span["bbox"]
        text = span["text"]
        inside = (
            word
            for word in at_edge
            if left + 1 < word[0] < right and box[1] < (word[1] + word[3]) / 2 < box[3]
        )
        word = next(inside, None)
        share = (word[0] - left) / (right - left) if word else 0.0
        place = _nearest(text, word[4], share * len(text)) if word else 0
        if word and place:
            found.append({**span, "text": text[:place], "bbox": (left, top, word[0] - 0.1, bottom)})
            found.append({**span, "text": text[place:], "bbox": (word[0], top, right, bottom)})
        else:
            found.append(span)
    return found


def _nearest(text: str, word: str, place: float) -> int:
    """Where the word begins in the text, the occurrence nearest to `place`; 0 where it does not occur.

    Only whole words count: letters of a short word are also in other words, and a cut there would tear them.
    """
    found = [match.start() for match in re.finditer(rf"(?<!\S){re.escape(word)}(?!\S)", text)]
    return min(found, key=lambda start: abs(start - place), default=0)


def _first_x(span: dict[str, Any]) -> float:
    """Where the first letter of a span is, by its share of the span's width."""
    text, (left, _, right, _) = span["text"], span["bbox"]
    return float(left + (right - left) * (len(text) - len(text.lstrip())) / len(text))


def _line_of(line: RawLine, spans: Sequence[dict[str, Any]]) -> RawLine:
    return {**line, "spans": list(spans), "bbox": hull([span["bbox"] for span in spans])}
