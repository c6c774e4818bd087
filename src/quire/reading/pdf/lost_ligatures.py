"""Mends text layers whose ligatures have lost a letter: "signiicant" for "significant".

Such a font says "i" for the shape "fi". The shape is another glyph than the usual "i", and as wide as "f" and "i"
together: that is certain enough to mend it. A layer in which no glyph tells is left as it is, and is doubted
(`layer_damage.py`).

Weakness: a font that has no "f" of its own on the page tells nothing. Known are ligatures of f, i and l, and "Th".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quire.reading.grading.layer_damage import may_lack_ligatures
from quire.reading.pdf.layer_words import LayerWords
from quire.reading.pdf.text_lines import layer_text

_LOST = {"i": ("f", "ff"), "l": ("f", "ff"), "f": ("f",), "h": ("T",)}
"""What a ligature may have lost, by its last letter, which is what is left of it."""
_TELLING = frozenset("ilfhT")
_NARROWER, _WIDER = 0.87, 1.04
"""The width of a ligature, of that of its letters."""
_T_OF_H = 1.1
"""How wide "T" is, of the width of "h": a page may have no other "T" of the font. No other "h" is as wide as both."""
_UPRIGHT = (1.0, 0.0)
_KEYS_A_PT = 4

Place = tuple[int, int]
Glyph = tuple[str, int]
"""A character, and the number of its shape in the font."""


def mend_ligatures(page: Any, textpage: Any, content: dict[str, Any], words: LayerWords) -> None:
    """Puts the lost letters into MuPDF's dictionary of a page and into its words. Sound pages cost a few searches."""
    if not may_lack_ligatures(layer_text(content)):
        return
    lost = _lost_letters(page.get_texttrace())
    if not lost:
        return
    for block, detailed in zip(content["blocks"], textpage.extractRAWDICT()["blocks"], strict=True):
        for line, glyphs in zip(block.get("lines", ()), detailed.get("lines", ()), strict=True):
            if line["dir"] == _UPRIGHT:
                _mend(line, glyphs, lost, words)


def _lost_letters(trace: list[dict[str, Any]]) -> dict[Place, str]:
    """Where letters are lost, before the glyph that begins there, and which."""
    glyphs = [
        (span["font"], *glyph) for span in trace if tuple(span["dir"]) == _UPRIGHT for glyph in _glyphs(span)
    ]
    widths: dict[str, dict[Glyph, float]] = {}
    for font, glyph, width, _ in glyphs:
        widths.setdefault(font, {}).setdefault(glyph, width)
    ligatures = {
        (font, glyph): letters for font, found in widths.items() for glyph, letters in _ligatures(found)
    }
    return {place: ligatures[font, glyph] for font, glyph, _, place in glyphs if (font, glyph) in ligatures}


def _glyphs(span: Mapping[str, Any]) -> Iterator[tuple[Glyph, float, Place]]:
    """The glyphs of a span that tell something, with their widths in sizes of the type."""
    for code, number, origin, box, *_ in span["chars"]:
        if code > 0 and chr(code) in _TELLING:
            yield (chr(code), number), (box[2] - box[0]) / max(span["size"], 0.1), _place(origin)


def _ligatures(widths: Mapping[Glyph, float]) -> Iterator[tuple[Glyph, str]]:
    """The glyphs of a font that are ligatures, and the letters that each has lost. The narrowest is the letter."""
    usual: dict[str, float] = {}
    for (letter, _), width in widths.items():
        usual[letter] = min(width, usual.get(letter, width))
    for glyph, width in widths.items():
        plain = usual[glyph[0]]
        for letters in _LOST.get(glyph[0], ()):
            first = usual.get(letters[0], _T_OF_H * plain if letters == "T" else 0.0)
            whole = len(letters) * first + plain
            if first and _NARROWER * whole <= width <= _WIDER * whole:
                yield glyph, letters


def _mend(line: dict[str, Any], glyphs: dict[str, Any], lost: Mapping[Place, str], words: LayerWords) -> None:
    before, after = "", ""
    places: list[tuple[int, tuple[float, float]]] = []
    for span, detailed in zip(line["spans"], glyphs["spans"], strict=True):
        mended = ""
        for glyph in detailed["chars"]:
            letters = lost.get(_place(glyph["origin"]), "") if glyph["c"] in _LOST else ""
            if letters:
                x0, y0, x1, y1 = glyph["bbox"]
                places.append((len(before), ((x0 + x1) / 2, (y0 + y1) / 2)))
            before += glyph["c"]
            mended += letters + glyph["c"]
        span["text"] = mended
        after += mended
    if places:
        words.correct_line(before, after, places)


def _place(origin: tuple[float, float]) -> Place:
    return round(_KEYS_A_PT * origin[0]), round(_KEYS_A_PT * origin[1])
