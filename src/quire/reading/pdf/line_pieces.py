"""Words of a page, the lines they are in, and the pieces that wide gaps cut a line into."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quire.reading.pdf.drawn_rules import Box
from quire.reading.pdf.leftward_order import words_in_order

GAP_EM = 0.9
"""Words farther apart than this, in heights of the line, belong to different cells."""

FIGURE_GAP_EM = 0.5
"""Between two figures less is enough: thousands are set apart by a quarter."""

MIN_GUTTER_PT = 3.0

_NUMBER = re.compile(r"^[(\[<>~±+−–—$€£-]*\d[\d.,:/%−–—)\]*†‡⁰¹²³⁴-⁹⁻-]*$|^[-–—]+$|^n/?a$|^\.\.\.?$", re.I)


_UNIT = (
    r"(?:[fpnuµμmcdhkMGT]?(?:g|m|l|L|s|Hz|Wh?|V|A|J|Pa|bar|mol|eq|Eq|I?U|B|cal|K|N|Ω|mHg)"
    r"|°[CF]?|%|min|h|t|ha|bpm|ppm|dB)[²³23]?"
)
_YEAR = re.compile(r"(?:19|20)\d\d(?:\s?[/–-]\s?\d{2,4})?\D?")
_WITH_UNIT = re.compile(rf"(?P<figure>\S*\d\S*)\s/?{_UNIT}(?:/{_UNIT})*")


class PageWord:
    """A word, its box and the middle of it. A page has hundreds of them, and its middle is asked for many times."""

    __slots__ = ("box", "text", "x", "y")

    def __init__(self, text: str, box: Box) -> None:
        self.text = text
        self.box = box
        self.x = (box[0] + box[2]) / 2
        self.y = (box[1] + box[3]) / 2


@dataclass(slots=True)
class LinePiece:
    """Words of one line with no wide gap between them."""

    words: list[PageWord]

    @property
    def x0(self) -> float:
        return self.words[0].box[0]

    @property
    def x1(self) -> float:
        return self.words[-1].box[2]

    @property
    def text(self) -> str:
        return joined_words(self.words)


def text_lines(words: Sequence[PageWord]) -> list[list[PageWord]]:
    """Words in lines from top to bottom, each from left to right."""
    if len(words) < 2:  # most cells of a table
        return [list(words)] if words else []
    lines: list[list[PageWord]] = []
    first_y = 0.0
    for word in sorted(words, key=lambda w: w.y):
        if lines and abs(word.y - first_y) <= 0.45 * (word.box[3] - word.box[1]):
            lines[-1].append(word)
        else:
            lines.append([word])
            first_y = word.y
    return [sorted(line, key=lambda w: w.box[0]) for line in lines]


def lines_text(words: Sequence[PageWord]) -> str:
    """The words' text, line by line. Turned words, as in heads of narrow columns, are read from the bottom up."""
    if len(words) == 1:
        return words[0].text
    if _are_turned(words):
        turned = sorted(words, key=lambda w: (round(w.x), -w.y))
        return " ".join(word.text for word in turned)
    return " ".join(map(joined_words, text_lines(words)))


def joined_words(line: Sequence[PageWord]) -> str:
    """The text of a line whose words are given from left to right, in the order in which it is read."""
    text = " ".join([word.text for word in line])
    return text if text.isascii() else " ".join(words_in_order([word.text for word in line]))


def _are_turned(words: Sequence[PageWord]) -> bool:
    """Whether all words of several letters are higher than wide."""
    long = [word.box for word in words if len(word.text) > 2]
    return bool(long) and all(y1 - y0 > 1.5 * (x1 - x0) for x0, y0, x1, y1 in long)


def pieces_of(line: Sequence[PageWord]) -> list[LinePiece]:
    """A line cut at its wide gaps."""
    height = max(w.box[3] - w.box[1] for w in line)
    pieces = [LinePiece([line[0]])]
    for word in line[1:]:
        figures = _NUMBER.match(word.text) and _NUMBER.match(pieces[-1].words[-1].text)
        if word.box[0] - pieces[-1].x1 > (FIGURE_GAP_EM if figures else GAP_EM) * height:
            pieces.append(LinePiece([word]))
        else:
            pieces[-1].words.append(word)
    return pieces


def is_number(text: str) -> bool:
    """Whether a cell holds a figure, a dash or nothing that could be read as prose."""
    words = text.split()
    return bool(words) and sum(bool(_NUMBER.match(w)) for w in words) * 2 > len(words)


def is_figure(text: str) -> bool:
    """Whether a cell holds a figure, with its unit perhaps: "118 mg/dL"."""
    found = _WITH_UNIT.fullmatch(text)
    return is_number(found["figure"] if found else text)


def is_year(text: str) -> bool:
    """Whether it is a year or two: such figures name columns."""
    return _YEAR.fullmatch(text) is not None


def gutters_between(rows: Sequence[Sequence[LinePiece]]) -> list[tuple[float, float]]:
    """The extents of the columns that remain between the gutters which nearly every row respects."""
    left = min(p.x0 for row in rows for p in row)
    right = max(p.x1 for row in rows for p in row)
    width = int(right - left) + 2
    ink = [0] * width
    for row in rows:
        for piece in row:
            for x in range(int(piece.x0 - left), min(width, int(piece.x1 - left) + 1)):
                ink[x] += 1
    allowed = 0 if len(rows) < 6 else max(1, len(rows) // 12)
    columns: list[tuple[float, float]] = []
    start: int | None = None
    empty = 0
    for x in range(width):
        if ink[x] > allowed:
            if start is None:
                start = x
            elif empty >= MIN_GUTTER_PT:
                columns.append((left + start, left + x - empty))
                start = x
            empty = 0
        else:
            empty += 1
    if start is not None:
        columns.append((left + start, left + width - empty))
    return columns
