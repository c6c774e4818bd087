"""The font of text layers: one empty glyph for every letter of every script, as nothing of a layer is drawn.

A letter has a code of its own in each document, its width, and an entry in the table by which a viewer copies text.
"""

from __future__ import annotations

import functools
import struct
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from quire.reading.pdf.mupdf import mupdf

FONT_NAME = "QuireLayer"
_UNITS = 1_000
_USUAL, _WIDE = 0.5, 1.0
_MOST_LETTERS = 65_000
_ENTRIES = 100
"""How many entries a block of the table may have, by the specification."""


class LayerFont:
    """The font of the layers of one document."""

    def __init__(self, texts: Iterable[str]) -> None:
        letters = sorted({letter for text in texts for letter in text if not _is_surrogate(letter)})
        self._codes = {letter: code for code, letter in enumerate(letters[:_MOST_LETTERS], 1)}

    def written(self, text: str) -> str:
        """The codes of the text in hexadecimal digits; letters that the font does not have are left out."""
        return "".join(f"{self._codes[letter]:04x}" for letter in text if letter in self._codes)

    def width(self, text: str) -> float:
        """The width of the text where the font has size 1."""
        return sum(letter_width(letter) for letter in text if letter in self._codes)

    def add_to(self, document: Any) -> int:
        """Writes the font into a document; returns the number of its object."""
        data = _font_file()
        file = _new_object(document, "<<>>", data)
        document.xref_set_key(file, "Length1", str(len(data)))
        described = _new_object(
            document,
            f"<</Type/FontDescriptor/FontName/{FONT_NAME}/Flags 4/FontBBox[0 -200 1000 800]/ItalicAngle 0"
            f"/Ascent 800/Descent -200/CapHeight 800/StemV 80/FontFile2 {file} 0 R>>",
        )
        glyphs = _new_object(document, "<<>>", bytes(2 * (len(self._codes) + 1)))
        widths = " ".join(str(round(_UNITS * letter_width(letter))) for letter in self._codes)
        inner = _new_object(
            document,
            f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{FONT_NAME}/CIDSystemInfo<</Registry(Adobe)"
            f"/Ordering(Identity)/Supplement 0>>/FontDescriptor {described} 0 R/DW 500/W[1[{widths}]]"
            f"/CIDToGIDMap {glyphs} 0 R>>",
        )
        table = _new_object(document, "<<>>", _unicode_table(list(self._codes.items())))
        return _new_object(
            document,
            f"<</Type/Font/Subtype/Type0/BaseFont/{FONT_NAME}/Encoding/Identity-H"
            f"/DescendantFonts[{inner} 0 R]/ToUnicode {table} 0 R>>",
        )


@functools.lru_cache(maxsize=4096)
def letter_width(letter: str) -> float:
    """About how wide a letter is in print, as a share of its height: a word's place in its line depends on it."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf", "Cc"):
        return 0.0
    if unicodedata.east_asian_width(letter) in ("W", "F"):
        return _WIDE
    font = _latin()
    return float(font.glyph_advance(ord(letter))) if font.has_glyph(ord(letter)) else _USUAL


def in_visual_order(text: str) -> str:
    """The letters from left to right as they are printed, which is how a page has them.

    Stretches of a line run to the left or to the right by their letters; what is between two of one direction goes
    along, and numbers run to the right. This is the bidirectional algorithm without embeddings.
    """
    ways = [_direction(letter) for letter in text]
    if "R" not in ways:
        return text
    line = next(way for way in ways if way in ("L", "R"))
    found: list[tuple[str, str]] = []
    for letter, way in zip(text, _settled(ways, line), strict=True):
        if found and found[-1][0] == way:
            found[-1] = (way, found[-1][1] + letter)
        else:
            found.append((way, letter))
    runs = [run[::-1] if way == "R" else run for way, run in found]
    return "".join(reversed(runs) if line == "R" else runs)


def _direction(letter: str) -> str:
    """`R`, `L`, `N` for a digit, or nothing for what takes the direction of its neighbours."""
    kind = unicodedata.bidirectional(letter)
    return {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}.get(kind, "")


def _settled(ways: Sequence[str], line: str) -> list[str]:
    """A direction for every letter: `L` or `R`."""
    found = list(ways)
    at = 0
    while at < len(found):
        if found[at]:
            at += 1
            continue
        end = next((n for n in range(at, len(found)) if found[n]), len(found))
        before = found[at - 1] if at else line
        after = found[end] if end < len(found) else line
        # A digit counts as a neighbour of its own direction, so that `12.03` stays together.
        found[at:end] = [before if before == after else line] * (end - at)
        at = end
    return ["L" if way == "N" else way for way in found]


def _unicode_table(codes: Sequence[tuple[str, int]]) -> bytes:
    lines = [
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap",
        "/CIDSystemInfo <</Registry (Adobe) /Ordering (UCS) /Supplement 0>> def",
        f"/CMapName /{FONT_NAME} def /CMapType 2 def",
        "1 begincodespacerange <0000> <ffff> endcodespacerange",
    ]
    for at in range(0, len(codes), _ENTRIES):
        some = codes[at : at + _ENTRIES]
        lines.append(f"{len(some)} beginbfchar")
        lines += [f"<{code:04x}> <{letter.encode('utf-16-be').hex()}>" for letter, code in some]
        lines.append("endbfchar")
    lines.append("endcmap CMapName currentdict /CMap defineresource pop end end")
    return "\n".join(lines).encode("ascii")


@functools.cache
def _font_file() -> bytes:
    """A TrueType file with one glyph, which is empty."""
    tables = {
        b"glyf": bytes(4),
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            *(0x00010000, 0x00010000, 0, 0x5F0F3CF5, 0, _UNITS, 0, 0, 0, 0, 0, 0, 0, 8, 2, 1, 0),
        ),
        b"hhea": struct.pack(">IhhhHhhhhhhhhhhhH", 0x00010000, 800, -200, 0, 500, *[0] * 3, 1, *[0] * 7, 1),
        b"hmtx": struct.pack(">Hh", 500, 0),
        b"loca": struct.pack(">II", 0, 0),
        b"maxp": struct.pack(">IH13H", 0x00010000, 1, 0, 0, 0, 0, 1, *[0] * 8),
    }
    count = len(tables)
    head, body = struct.pack(">IHHHH", 0x00010000, count, 64, 2, 16 * count - 64), b""
    for tag, data in tables.items():
        padded = data + bytes(-len(data) % 4)
        total = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        head += tag + struct.pack(">III", total, 12 + 16 * count + len(body), len(data))
        body += padded
    return head + body


def _new_object(document: Any, text: str, stream: bytes | None = None) -> int:
    number = int(document.get_new_xref())
    document.update_object(number, text)
    if stream is not None:
        document.update_stream(number, stream)
    return number


@functools.cache
def _latin() -> Any:
    return mupdf().Font("helv")


def _is_surrogate(letter: str) -> bool:
    return "\ud800" <= letter <= "\udfff"
