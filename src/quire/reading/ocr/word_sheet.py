"""Writes recognised words as a PDF page that has nothing but text and rules, each at its place in the scan.

Such a page goes through the same layout analysis as a page of a text PDF, so columns, tables, lists and headings of
scans and of text PDFs are found by one code. The page is never shown: its font has no shapes, only widths that make
each word as wide as it is in the picture.

Weakness: whether type is bold or italic is not known of a scan.
"""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.pdf.drawn_rules import Rules

_ASCENT, _X_HEIGHT, _DESCENT = 0.72, 0.5, 0.21
_LOOSE = 1.22
"""Boxes of whole lines, as the careful reader draws them, are taller than the type by this factor."""
_SAME_SIZE = 0.13
"""Sizes that differ by less than this share are one size, measured twice."""
_LEAST_GAP_EM, _MOST_GAP_EM = 0.12, 0.8
_LEAST_SIZE_PT = 3.0
_BODY_PT = 10.0
_LONGEST_PT = 14_000.0
_NARROWEST = 60
_TALL = re.compile(r"[A-Z0-9bdfhklt!?()\[\]{}/|&%$#@\"'À-ÞŠŽЀ-Я]")
_DEEP = re.compile(r"[gjpqyQ,;()\[\]{}/|ç@ß$руфцщд]")

_UNICODE_MAP = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <FFFF> <0000> endbfrange
endcmap CMapName currentdict /CMap defineresource pop end end"""
_DESCRIPTOR = (
    b"<< /Type /FontDescriptor /FontName /Scan /Flags 4 /FontBBox [0 -210 1000 780] /ItalicAngle 0 "
    b"/Ascent 780 /Descent -210 /CapHeight 700 /StemV 80 >>"
)
_FIRST_FONT = 7


@dataclass(frozen=True, slots=True)
class _Type:
    """The size of a line's type and the height of its baseline, in pixels."""

    size: float
    baseline: float


@dataclass(frozen=True, slots=True)
class _Glyphs:
    """A word, or a space, in points; `width` is that of one character in thousandths of the size."""

    x: float
    y: float
    size: float
    width: int
    text: str


def sheet_scale(seen: RecognisedPage) -> float:
    """The points a pixel at which the body's type is ten points: the layout analysis knows distances in points."""
    weights = [(_type_of(line).size, len(line.text)) for line in seen.lines()]
    body = _weighted_median(weights) if weights else _BODY_PT
    return min(_BODY_PT / max(body, 1.0), _LONGEST_PT / max(seen.width, seen.height, 1))


def word_sheet(seen: RecognisedPage, rules: Rules, points_per_px: float) -> bytes:
    """The PDF of one page with the words and the rules of a scan."""
    lines = list(seen.lines())
    height = seen.height * points_per_px
    glyphs: list[_Glyphs] = []
    for line, kind in zip(lines, _types(lines), strict=True):
        glyphs += _placed(line.words, kind, height, points_per_px)
    content = [*_drawn(rules, height, points_per_px), *map(_shown, glyphs)]
    widths = sorted({one.width for one in glyphs})
    return _document("\n".join(content).encode(), widths, seen.width * points_per_px, height)


def _types(lines: Sequence[OcrLine]) -> list[_Type]:
    """The type of each line, sizes that are nearly equal made equal: OCR measures them in whole pixels."""
    found = [_type_of(line) for line in lines]
    weights = [(one.size, len(line.text)) for one, line in zip(found, lines, strict=True)]
    usual = _usual_sizes(weights)
    return [_Type(_nearest(one.size, usual), one.baseline) for one in found]


def _nearest(size: float, usual: Sequence[float]) -> float:
    return min(usual, key=lambda one: abs(one - size))


def _usual_sizes(weights: Sequence[tuple[float, int]]) -> list[float]:
    """The sizes of the page, those of most characters first; each is used for all that are near it."""
    rest = list(weights)
    usual: list[float] = []
    while rest:
        size = _weighted_median(rest)
        usual.append(size)
        rest = [one for one in rest if abs(one[0] - size) > _SAME_SIZE * size]
    return usual


def _type_of(line: OcrLine) -> _Type:
    words = line.words
    if line.type_size:
        return _Type(line.type_size, line.baseline)
    if line.is_loose:
        above, below = _extent(line.text)
        tall = words[0].height / _LOOSE
        size = tall / (above + below)
        middle = (words[0].top + words[0].bottom) / 2
        return _Type(size, middle + tall / 2 - below * size)
    sizes = [(word.height / sum(_extent(word.text)), len(word.text)) for word in words]
    size = _weighted_median(sizes)
    bases = [word.bottom - _extent(word.text)[1] * size for word in words]
    return _Type(size, statistics.median(bases))


def _extent(text: str) -> tuple[float, float]:
    """How far the text reaches above and below its baseline, in sizes."""
    below = _DESCENT if _DEEP.search(text) else 0.0
    if text.isascii():
        return _ASCENT if _TALL.search(text) else _X_HEIGHT, below
    if any(unicodedata.east_asian_width(sign) in "WF" for sign in text):
        return 0.84, 0.1
    return _ASCENT, below


def _weighted_median(values: Iterable[tuple[float, int]]) -> float:
    ordered = sorted(values)
    half = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        half -= weight
        if half <= 0:
            return value
    return ordered[-1][0]


def _placed(words: Sequence[OcrWord], kind: _Type, height: float, scale: float) -> Iterator[_Glyphs]:
    """The words of a line, and a space where the next word follows close enough to be of the same piece."""
    size = max(_LEAST_SIZE_PT, kind.size * scale)
    y = height - kind.baseline * scale
    ordered = sorted(words, key=lambda word: word.left)
    if any(map(_is_from_right, ordered)):
        yield from _pieces(ordered, y, size, scale)
        return
    for word, following in zip(ordered, [*ordered[1:], None], strict=True):
        left, right = word.left * scale, word.right * scale
        if following is not None:
            right = max(left + 0.1 * size, min(right, following.left * scale - _LEAST_GAP_EM * size))
        yield _glyphs(left, y, size, right - left, _known(word.text))
        if following is not None:
            gap = following.left * scale - right
            if gap <= _MOST_GAP_EM * size:
                yield _glyphs(right, y, size, gap, " ")


def _glyphs(x: float, y: float, size: float, width: float, text: str) -> _Glyphs:
    return _Glyphs(x, y, size, max(_NARROWEST, round(1000 * width / size / max(1, len(text)))), text)


def _pieces(ordered: Sequence[OcrWord], y: float, size: float, scale: float) -> Iterator[_Glyphs]:
    """Words that are read from right to left, in the order of a PDF: from left to right, the letters too.

    MuPDF turns the letters of a piece round, but not pieces: words that follow one another are written as one.
    """
    runs: list[list[OcrWord]] = []
    for word in ordered:
        if runs and (word.left - runs[-1][-1].right) * scale <= _MOST_GAP_EM * size:
            runs[-1].append(word)
        else:
            runs.append([word])
    for run in runs:
        text = " ".join(_known(word.text)[:: -1 if _is_from_right(word) else 1] for word in run)
        left, right = run[0].left * scale, run[-1].right * scale
        yield _glyphs(left, y, size, right - left, text)


def _is_from_right(word: OcrWord) -> bool:
    return any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in word.text)


def _known(text: str) -> str:
    """The text in signs of two bytes, as the font has them."""
    return "".join(sign if sign <= "\uffff" else "\ufffd" for sign in text)


def _shown(one: _Glyphs) -> str:
    codes = one.text.encode("utf-16-be", "replace").hex()
    return f"BT /F{one.width} {one.size:.2f} Tf 3 Tr {one.x:.2f} {one.y:.2f} Td <{codes}> Tj ET"


def _drawn(rules: Rules, height: float, scale: float) -> Iterator[str]:
    for rule in rules.horizontal:
        y = height - rule.at * scale
        yield f"{rule.start * scale:.1f} {y:.1f} m {rule.end * scale:.1f} {y:.1f} l S"
    for rule in rules.vertical:
        x = rule.at * scale
        yield f"{x:.1f} {height - rule.start * scale:.1f} m {x:.1f} {height - rule.end * scale:.1f} l S"


def _document(content: bytes, widths: Sequence[int], width: float, height: float) -> bytes:
    fonts = " ".join(f"/F{one} {_FIRST_FONT + 2 * place} 0 R" for place, one in enumerate(widths))
    page = (
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.2f} {height:.2f}] /Contents 4 0 R "
        f"/Resources << /Font << {fonts} >> >> >>"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        page.encode(),
        _stream(content),
        _stream(_UNICODE_MAP),
        _DESCRIPTOR,
    ]
    for place, one in enumerate(widths):
        objects.append(
            f"<< /Type /Font /Subtype /Type0 /BaseFont /Scan /Encoding /Identity-H /ToUnicode 5 0 R "
            f"/DescendantFonts [{_FIRST_FONT + 2 * place + 1} 0 R] >>".encode()
        )
        objects.append(
            b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Scan /CIDToGIDMap /Identity /FontDescriptor 6 0 R "
            b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /DW %d >>" % one
        )
    return _file(objects)


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content)


def _file(objects: Sequence[bytes]) -> bytes:
    parts = [b"%PDF-1.7\n"]
    offsets: list[int] = []
    at = len(parts[0])
    for number, one in enumerate(objects, 1):
        offsets.append(at)
        parts.append(b"%d 0 obj\n%b\nendobj\n" % (number, one))
        at += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts += [b"%010d 00000 n \n" % offset for offset in offsets]
    parts.append(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, at))
    return b"".join(parts)
