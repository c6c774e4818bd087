"""Writes recognised words as a PDF page that has nothing but text and rules, each at its place in the scan.

Such a page goes through the same layout analysis as a page of a text PDF, so columns, tables, lists and headings of
scans and of text PDFs are found by one code. The page is never shown: its font has no shapes, only widths that make
each word as wide as it is in the picture.

Weakness: whether type is bold or italic is not known of a scan.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quire.reading.ocr.justified_lines import justified_lines
from quire.reading.ocr.line_types import LineType, body_size, types_of
from quire.reading.ocr.list_marks import BULLET
from quire.reading.ocr.ocr_words import OcrLine, OcrWord, RecognisedPage
from quire.reading.pdf.drawn_rules import Rules

_LEAST_GAP_EM, _MOST_GAP_EM, _MOST_MARK_GAP_EM = 0.12, 0.8, 2.0
"""How wide the space between two words of one text is at least and at most, and that behind the mark of an item."""
_LEAST_SIZE_PT = 3.0
_BODY_PT = 10.0
_LONGEST_PT = 14_000.0
_NARROWEST = 60

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
class _Glyphs:
    """A piece of a line in points; `width` is that of one character in thousandths of the size."""

    x: float
    y: float
    size: float
    width: int
    text: str


def sheet_scale(seen: RecognisedPage) -> float:
    """The points a pixel at which the body's type is ten points: the layout analysis knows distances in points."""
    body = body_size(list(seen.lines())) or _BODY_PT
    return min(_BODY_PT / max(body, 1.0), _LONGEST_PT / max(seen.width, seen.height, 1))


def word_sheet(seen: RecognisedPage, rules: Rules, points_per_px: float) -> bytes:
    """The PDF of one page with the words and the rules of a scan."""
    lines = list(seen.lines())
    height = seen.height * points_per_px
    glyphs: list[_Glyphs] = []
    types = types_of(lines)
    justified = justified_lines(lines, [one.size for one in types], _MOST_GAP_EM)
    for line, kind, is_justified in zip(lines, types, justified, strict=True):
        glyphs += _placed(line, kind, height, points_per_px, is_justified=is_justified)
    content = [*_drawn(rules, height, points_per_px), *map(_shown, glyphs)]
    widths = sorted({one.width for one in glyphs})
    return _document("\n".join(content).encode(), widths, seen.width * points_per_px, height)


def _placed(
    line: OcrLine, kind: LineType, height: float, scale: float, *, is_justified: bool
) -> Iterator[_Glyphs]:
    """The texts of a line."""
    size = max(_LEAST_SIZE_PT, kind.size * scale)
    y = height - kind.baseline * scale
    ordered = sorted(line.words, key=lambda word: word.left)
    if line.is_loose and not any(map(_is_from_right, ordered)):
        return _words(ordered, y, size, scale)
    return _pieces(ordered, y, size, scale, math.inf if is_justified else _MOST_GAP_EM)


def _words(ordered: Sequence[OcrWord], y: float, size: float, scale: float) -> Iterator[_Glyphs]:
    """Each word, and a space where the next one follows close enough to be of the same piece.

    This is for words that share the width of their line, so that their letters are equally wide as it is.
    """
    for word, following in zip(ordered, [*ordered[1:], None], strict=True):
        left, right = word.left * scale, word.right * scale
        if following is not None:
            right = max(left + 0.1 * size, min(right, following.left * scale - _LEAST_GAP_EM * size))
        yield _glyphs(left, y, size, right - left, _known(word.text))
        if following is not None:
            gap = following.left * scale - right
            if gap <= _MOST_GAP_EM * size:
                yield _glyphs(right, y, size, gap, " ")


def _pieces(
    ordered: Sequence[OcrWord], y: float, size: float, scale: float, most_gap_em: float
) -> Iterator[_Glyphs]:
    """Words that follow one another closely, as one text whose letters are equally wide.

    Where the widths of letters change from word to word, the layout reader more easily mixes neighbouring columns.
    """
    pieces: list[list[OcrWord]] = []
    for word in ordered:
        is_behind_mark = bool(pieces) and [one.text for one in pieces[-1]] == [BULLET]
        most = max(most_gap_em, _MOST_MARK_GAP_EM) if is_behind_mark else most_gap_em
        if pieces and (word.left - pieces[-1][-1].right) * scale <= most * size:
            pieces[-1].append(word)
        else:
            pieces.append([word])
    is_from_right = any(map(_is_from_right, ordered))
    for piece in pieces:
        texts = [_known(word.text) for word in piece]
        if is_from_right:
            # The letters are in the order of a PDF, from left to right: MuPDF turns them round, but not pieces.
            texts = [
                text[:: -1 if _is_from_right(word) else 1] for word, text in zip(piece, texts, strict=True)
            ]
        left, right = piece[0].left * scale, max(word.right for word in piece) * scale
        yield _glyphs(left, y, size, right - left, " ".join(texts))


def _glyphs(x: float, y: float, size: float, width: float, text: str) -> _Glyphs:
    return _Glyphs(x, y, size, max(_NARROWEST, round(1000 * width / size / max(1, len(text)))), text)


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
