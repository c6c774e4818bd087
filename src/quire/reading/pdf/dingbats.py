"""Signs of the font ZapfDingbats, which files call by letters: the mark in a check box is a "3" or a "4" otherwise.

The font is one of the fourteen that every viewer has, and its encoding is its own, so the letter is never on the page.
"""

from __future__ import annotations

from typing import Any

from quire.reading.pdf.layer_words import LayerWords, Point

_FONTS = ("ZapfDingbats", "ZaDb")
_SIGNS = {
    **{0x21 + at: 0x2701 + at for at in range(0x5E)},
    **dict(zip(b"%*+Hlnstuw", map(ord, "☎☛☞★●■▲▼◆◗"), strict=True)),
}


def set_dingbats(content: dict[str, Any], words: LayerWords) -> None:
    """Writes such letters as the signs that the page shows, in MuPDF's dictionary of a page and in its words."""
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            if any(span["font"].endswith(_FONTS) for span in line["spans"]):
                _write(line, words)


def _write(line: dict[str, Any], words: LayerWords) -> None:
    before = "".join(span["text"] for span in line["spans"])
    places: list[tuple[int, Point]] = []
    spans, start = [], 0
    for span in line["spans"]:
        text = span["text"]
        is_own = span["font"].endswith(_FONTS)
        shown = text.translate(_SIGNS) if is_own else text
        (x0, y0, x1, y1), width = span["bbox"], max(1, len(text))
        places += [
            (start + at, (x0 + (at + 0.5) * (x1 - x0) / width, (y0 + y1) / 2))
            for at, (one, other) in enumerate(zip(text, shown, strict=True))
            if one != other
        ]
        spans.append({**span, "text": shown} if shown != text else span)
        start += len(text)
    line["spans"] = spans
    words.correct_line(before, "".join(span["text"] for span in spans), places)
