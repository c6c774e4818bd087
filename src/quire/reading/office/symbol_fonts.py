"""Signs of fonts that have shapes instead of letters (Symbol, Wingdings, Webdings), as Unicode.

A sign that is not in the tables is a bullet where it begins a line, for that is what most of these signs are used for.
Elsewhere it is a neutral sign, which says nothing of its shape.
"""

from __future__ import annotations

BULLET, UNKNOWN = "•", "◇"
_PRIVATE = 0xF000
"""Word keeps the places of a font's signs in the private area."""

_SYMBOL = {
    **dict(enumerate("ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", 0x41)),
    **dict(enumerate("αβχδεφγηιϕκλμνοπθρστυϖωξψζ", 0x61)),
    **dict(enumerate("ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…", 0xA1)),
    **dict(enumerate("↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑", 0xBF)),
    0xF1: "⟩", 0xF2: "∫", 0x22: "∀", 0x24: "∃", 0x27: "∋", 0x2A: "∗", 0x2D: "−", 0x40: "≅", 0x5C: "∴", 0x5E: "⊥",
    0x7E: "∼", **{at: chr(at) for at in (*b" !#%&(),+./:;<=>?[]_{|}", *range(0x30, 0x3A))},
}  # fmt: skip
_WINGDINGS = {
    **dict(enumerate("①②③④⑤⑥⑦⑧⑨⑩", 0x81)), **dict(enumerate("❶❷❸❹❺❻❼❽❾❿", 0x8C)),
    **dict(enumerate("←→↑↓↖↗↙↘", 0xDF)), **dict(enumerate("⇦⇨⇧⇩⇔⇕", 0xEF)),
    0x28: "☎", 0x2A: "✉", 0x45: "☜", 0x46: "☞", 0x47: "☝", 0x48: "☟", 0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6D: "❍",
    0x6E: "■", 0x6F: "☐", 0x70: "☐", 0x71: "❑", 0x72: "❒", 0x74: "◆", 0x75: "◆", 0x76: "❖", 0x77: "◆", 0x78: "☒",
    0x9E: "·", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐", 0xAB: "★", 0xD8: "➢", 0xE8: "➔", 0xFB: "✗", 0xFC: "✓",
    0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2 = {
    0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x97: "●", 0xA2: "■", 0xA3: "☐",
}  # fmt: skip
_WEBDINGS = {0x61: "✓", 0x63: "☐", 0x67: "■", 0x6E: "●", 0x72: "✗"}
_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": _WINGDINGS_2,
    "wingdings 3": {},
    "webdings": _WEBDINGS,
}


def symbol(font: str, code: str, *, begins_line: bool) -> str:
    """The sign at a place of a font, which `code` gives in hexadecimal digits; "" for what is no place."""
    try:
        point = int(code, 16)
    except ValueError:
        return ""
    signs = _FONTS.get(font.strip().lower())
    if signs is None and 0x20 <= point < 0xD800:
        return chr(point)
    place = point - _PRIVATE if _PRIVATE <= point < _PRIVATE + 0x100 else point
    return (signs or {}).get(place) or (BULLET if begins_line else UNKNOWN)
