"""Lines of Hebrew and Arabic, with their words, figures and brackets in the order in which they are read.

MuPDF has the letters of a word in order, but not what is between words: a line that turns its direction at a figure is
two lines, or has spaces in the wrong places where a file stores it as it is seen. Here the pieces of a line are ordered
by their places. A file may have the code of a bracket as it is seen or as it is read: what closes more brackets counts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from quire.domain.element import Box, hull
from quire.reading.pdf.leftward_order import (
    LEFTWARD,
    MIRRORED,
    Piece,
    closed_brackets,
    in_order,
    is_mainly_leftward,
    kind_of,
)
from quire.reading.pdf.mupdf import mupdf, text_flags

_UPRIGHT = (1.0, 0.0)
_SAME_BASE_EM = 0.25
_JOINED_EM = 0.8
"""MuPDF takes pieces that follow one another for one line if they are no farther apart."""
_OVERLAP_EM = 0.3
_SPACE_EM = 0.2
_PRINTED_TWICE = 1.3
_NO_WIDTH_PT = 0.1

Raw = dict[str, Any]


@dataclass(slots=True)
class _Run:
    """Signs of one kind and type that follow one another, and where they are."""

    kind: str
    span: Raw
    chars: list[Raw] = field(default_factory=list)

    @property
    def box(self) -> Box:
        return hull([char["bbox"] for char in self.chars])

    @property
    def text(self) -> str:
        return "".join(char["c"] for char in self.chars)


@dataclass(slots=True)
class _Row:
    """A line with its runs in the order in which they are read; a space is a run of its own."""

    line: Raw
    runs: list[_Run]
    mirrored: list[Raw]
    """Brackets that are read from right to left."""


class LeftwardText:
    """What MuPDF's text page answers, for a page with such text."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    def extractRAWDICT(self) -> Raw:  # noqa: N802 - MuPDF's name
        return self._raw

    def extractDICT(self) -> Raw:  # noqa: N802 - MuPDF's name
        blocks = [
            {**block, "lines": [_without_chars(line) for line in block["lines"]]}
            if "lines" in block
            else block
            for block in self._raw["blocks"]
        ]
        return {**self._raw, "blocks": blocks}

    def extractWORDS(self) -> list[tuple[Any, ...]]:  # noqa: N802 - MuPDF's name
        return [
            (*hull([char["bbox"] for char in word]), "".join(char["c"] for char in word), b, at, n)
            for b, block in enumerate(self._raw["blocks"])
            for at, line in enumerate(block.get("lines", ()))
            for n, word in enumerate(_words(line))
        ]


def has_leftward(content: Raw) -> bool:
    """Whether MuPDF's dictionary of a page has a letter that is read from right to left."""
    return any(
        not span["text"].isascii() and LEFTWARD.search(span["text"])
        for block in content["blocks"]
        for line in block.get("lines", ())
        for span in line["spans"]
    )


def leftward_text(page: Any) -> LeftwardText:
    """The text of MuPDF's page with its lines in the order in which they are read.

    Ligatures are kept until then: MuPDF turns their letters round with the line.
    """
    flags = text_flags() | mupdf().TEXT_PRESERVE_LIGATURES
    raw = page.get_textpage(flags=flags).extractRAWDICT()
    blocks = [block for block in raw["blocks"] if "lines" in block]
    is_leftward = is_mainly_leftward("".join(_text(line) for block in blocks for line in block["lines"]))
    rows: list[_Row] = []
    gone: set[int] = set()
    for pieces in _joined([line for block in blocks for line in block["lines"]]):
        row = _row(pieces, is_leftward)
        if row is not None:
            rows.append(row)
            gone.update(id(piece) for piece in pieces if piece is not row.line)
    _mirror(rows)
    for row in rows:
        _write(row)
    for block in blocks:
        block["lines"] = [line for line in block["lines"] if id(line) not in gone]
        for line in block["lines"]:
            _spell_out(line)
    raw["blocks"] = [block for block in raw["blocks"] if "lines" not in block or block["lines"]]
    return LeftwardText(raw)


def _text(line: Raw) -> str:
    return "".join(char["c"] for span in line["spans"] for char in span["chars"])


def _joined(lines: Sequence[Raw]) -> Iterator[list[Raw]]:
    """Lines that are next to each other on one base, from left to right."""
    upright = [line for line in lines if line["dir"] == _UPRIGHT and _text(line).strip()]
    rows: list[list[Raw]] = []
    for line in sorted(upright, key=_base):
        if rows and _base(line) - _base(rows[-1][0]) <= _SAME_BASE_EM * _size(line):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        row.sort(key=lambda line: (line["bbox"][0], line["bbox"][2]))
        run = row[:1]
        for line in row[1:]:
            gap = (line["bbox"][0] - max(one["bbox"][2] for one in run)) / _size(line)
            if -_OVERLAP_EM <= gap <= _JOINED_EM:
                run.append(line)
            else:
                yield run
                run = [line]
        yield run


def _base(line: Raw) -> float:
    return float(line["spans"][0]["origin"][1])


def _size(line: Raw) -> float:
    return max(1.0, *(float(span["size"]) for span in line["spans"]))


def _row(pieces: Sequence[Raw], is_leftward: bool) -> _Row | None:
    """The pieces as one line; None where none of it is read from right to left, and where text is printed twice."""
    text = "".join(map(_text, pieces))
    if not LEFTWARD.search(text):
        return None
    runs = sorted((run for line in pieces for run in _runs(line)), key=lambda run: sum(run.box[::2]))
    box = hull([line["bbox"] for line in pieces])
    if sum(run.box[2] - run.box[0] for run in runs) > _PRINTED_TWICE * (box[2] - box[0]):
        return None
    size = max(map(_size, pieces))
    spaces = [char for line in pieces for span in line["spans"] for char in span["chars"] if _is_space(char)]
    seen = [
        Piece(run.text, run.kind, right is not None and _is_apart(run, right, spaces, size))
        for run, right in zip(runs, [*runs[1:], None], strict=True)
    ]
    placed = in_order(seen, is_leftward or is_mainly_leftward(text))
    ordered: list[_Run] = []
    for one, before in zip(placed, [None, *placed], strict=False):
        if before is not None and _has_space(seen, before.at, one.at):
            ordered.append(_space(runs[before.at], runs[one.at]))
        ordered.append(runs[one.at])
    mirrored = [char for one in placed if one.is_leftward for char in runs[one.at].chars]
    line = pieces[0]
    line["bbox"] = box
    return _Row(line, ordered, [char for char in mirrored if char["c"].translate(MIRRORED) != char["c"]])


def _has_space(seen: Sequence[Piece], before: int, at: int) -> bool:
    """Whether a space is between two pieces: beside each of them on the side where the other is."""
    if abs(before - at) == 1:
        return seen[min(before, at)].has_space
    left = seen[before].has_space if before < at else before > 0 and seen[before - 1].has_space
    right = at > 0 and seen[at - 1].has_space if before < at else seen[at].has_space
    return left or right


def _is_space(char: Raw) -> bool:
    return bool(char["c"].isspace())


def _runs(line: Raw) -> Iterator[_Run]:
    """The line cut where the kind of its signs changes. Signs that are no letters or figures are runs of one."""
    run: _Run | None = None
    for span in line["spans"]:
        for char in span["chars"]:
            if _is_space(char):
                if run is not None:
                    yield _sorted(run)
                run = None
                continue
            kind = kind_of(char["c"]) or (run.kind if run is not None else "N")
            if run is None or run.kind != kind or kind == "N" or run.span is not span:
                if run is not None:
                    yield _sorted(run)
                run = _Run(kind, span)
            run.chars.append(char)
        if run is not None:
            yield _sorted(run)
        run = None


def _sorted(run: _Run) -> _Run:
    if run.kind in "LE":
        run.chars.sort(key=lambda char: float(char["bbox"][0]))
    elif run.kind == "R":
        run.chars = _with_glyphs_forwards(run.chars)
    return run


def _with_glyphs_forwards(chars: Sequence[Raw]) -> list[Raw]:
    """Letters of one glyph, as lam and alef, in order: MuPDF gives all but the first no width, and turns them round."""
    ordered: list[Raw] = []
    narrow: list[Raw] = []
    for char in chars:
        x0, _, x1, _ = char["bbox"]
        if x1 - x0 < _NO_WIDTH_PT and kind_of(char["c"]) == "R":
            narrow.append(char)
            continue
        is_first = bool(narrow) and abs(narrow[-1]["bbox"][0] - x1) < _NO_WIDTH_PT
        ordered += [char, *reversed(narrow)] if is_first else [*narrow, char]
        narrow = []
    return [*ordered, *narrow]


def _is_apart(left: _Run, right: _Run, spaces: Sequence[Raw], size: float) -> bool:
    """Whether a space is between two runs, or as much room as for one."""
    end, start = left.box[2], right.box[0]
    if start - end > _SPACE_EM * size:
        return True
    middle_left, middle_right = sum(left.box[::2]) / 2, sum(right.box[::2]) / 2
    return any(middle_left < (char["bbox"][0] + char["bbox"][2]) / 2 < middle_right for char in spaces)


def _space(before: _Run, after: _Run) -> _Run:
    """A space between two runs, of the type of the one before."""
    x0, x1 = sorted((before.box[2], after.box[0]))
    y0, y1 = before.box[1::2]
    char = {**before.chars[0], "c": " ", "bbox": (x0, y0, x1, y1)}
    return _Run("N", before.span, [char])


def _mirror(rows: Sequence[_Row]) -> None:
    """Turns brackets that are stored as they are seen, unless more of them are closed as they are."""
    brackets = [char for row in rows for char in row.mirrored]
    if not brackets:
        return
    as_stored = closed_brackets("".join(run.text for row in rows for run in row.runs))
    for char in brackets:
        char["c"] = char["c"].translate(MIRRORED)
    if closed_brackets("".join(run.text for row in rows for run in row.runs)) < as_stored:
        for char in brackets:
            char["c"] = char["c"].translate(MIRRORED)


def _write(row: _Row) -> None:
    """The line's spans anew: one for each run of one type."""
    spans: list[Raw] = []
    for _, same in groupby(row.runs, key=lambda run: id(run.span)):
        runs = list(same)
        chars = [char for run in runs for char in run.chars]
        box = hull([char["bbox"] for char in chars if not _is_space(char)] or [chars[0]["bbox"]])
        spans.append({**runs[0].span, "bbox": box, "chars": chars})
    row.line["spans"] = spans


def _spell_out(line: Raw) -> None:
    """Letters instead of ligatures and of the shapes that letters take in their words, and the text of each span."""
    for span in line["spans"]:
        text = ""
        for char in span["chars"]:
            sign = char["c"]
            if "\ufb00" <= sign <= "\ufdff" or "\ufe70" <= sign <= "\ufefc":
                char["c"] = sign = unicodedata.normalize("NFKC", sign).strip()
            text += sign
        span["text"] = text


def _without_chars(line: Raw) -> Raw:
    spans = [{key: value for key, value in span.items() if key != "chars"} for span in line["spans"]]
    return {**line, "spans": spans}


def _words(line: Raw) -> Iterator[list[Raw]]:
    chars = [char for span in line["spans"] for char in span["chars"]]
    for is_space, word in groupby(chars, key=_is_space):
        if not is_space:
            yield list(word)
