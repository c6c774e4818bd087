"""Writes formulas of web pages, articles and OpenDocument files (MathML) as LaTeX.

What the author gives as TeX beside the formula is taken as it is. Everything else is written as `math_markup` writes
formulas of Office documents; elements that are not known are written as what is in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree.ElementTree import Element

from quire.reading.office.math_markup import (
    ACCENTS,
    DEEPEST,
    FUNCTIONS,
    grouped,
    latex_rows,
    latex_signs,
    latex_words,
    named_function,
)

_TEX = frozenset({"application/x-tex", "application/x-latex", "text/x-tex", "text/x-latex", "tex", "latex"})
_LOOKS_LIKE_TEX = re.compile(r"[\\^_{]")
_BAR = re.compile(r"(?<!\\)\|")
_LIMITS = re.compile(
    r"\\(?:sum|prod|int|iint|iiint|oint|bigcup|bigcap|bigvee|bigwedge|lim|max|min|sup|inf)\b"
)
_WRAPPED = re.compile(r"\{\\(?:display|text)style\s+(.*)\}|\\(?:display|text)style\s+(.*)")


def mathml_latex(math: Element) -> str:
    """The LaTeX of a `math` element."""
    given = _given_tex(math)
    if given:
        return given
    written = " ".join(_inside(math, 0).split())
    return written or latex_words(math.get("alttext", ""))


def _name(element: Element) -> str:
    tag = element.tag
    return tag.rpartition("}")[2].rpartition(":")[2].lower() if isinstance(tag, str) else ""


def _given_tex(math: Element) -> str:
    """The TeX that the author gives with the formula; "" for none."""
    texts = [
        "".join(one.itertext())
        for one in math.iter()
        if _name(one) == "annotation" and one.get("encoding", "").lower() in _TEX
    ]
    spoken = math.get("alttext", "")
    if _LOOKS_LIKE_TEX.search(spoken):
        texts.append(spoken)
    for text in texts:
        tex = " ".join(text.split()).strip("$ ")
        wrapped = _WRAPPED.fullmatch(tex)
        if wrapped:
            tex = (wrapped[1] or wrapped[2] or "").strip()
        if tex and "$" not in tex:
            return _BAR.sub(r"\\vert ", tex).strip()
    return ""


def _inside(element: Element, depth: int) -> str:
    """All that is in the element, one after the other."""
    return "".join(_one(child, depth + 1) for child in element)


def _one(element: Element, depth: int) -> str:
    name = _name(element)
    if depth > DEEPEST:
        return latex_signs("".join(element.itertext()))
    if name in _LEAVES:
        return _LEAVES[name](" ".join("".join(element.itertext()).split()))
    if name in ("annotation", "annotation-xml", "mphantom", "mspace"):
        return " " if name == "mspace" else ""
    if name in ("maction", "semantics"):
        first = next(iter(element), None)
        return _one(first, depth + 1) if first is not None else ""
    write = _WRITERS.get(name)
    return write(element, depth) if write else _inside(element, depth)


def _identifier(text: str) -> str:
    if len(text) < 2:
        return latex_signs(text)
    return f"\\{text} " if text in FUNCTIONS else f"\\mathrm{{{latex_signs(text).strip()}}}"


def _words(text: str) -> str:
    return f"\\text{{{latex_words(text)}}}" if text else " "


def _operator(text: str) -> str:
    return named_function(text) + " " if text in FUNCTIONS else latex_signs(text)


def _parts(element: Element, depth: int, count: int) -> list[str]:
    """The first children, each written; "" for those that are missing."""
    written = [_one(child, depth + 1).strip() for child in element][:count]
    return written + [""] * (count - len(written))


def _fraction(element: Element, depth: int) -> str:
    above, below = _parts(element, depth, 2)
    if element.get("linethickness", "").startswith("0"):
        return f"{{{above} \\atop {below}}}"
    return f"\\frac{{{above}}}{{{below}}}"


def _script(element: Element, depth: int) -> str:
    name = _name(element)
    base, first, second = _parts(element, depth, 3)
    below, above = ("", first) if name == "msup" else (first, second)
    return f"{grouped(base)}{_scripts(below, above)}"


def _scripts(below: str, above: str) -> str:
    return (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def _limits(element: Element, depth: int) -> str:
    """A base with something right below or above it: the limits of a sum, an accent, a line."""
    name = _name(element)
    base, first, second = _parts(element, depth, 3)
    below, above = ("", first) if name == "mover" else (first, second)
    if _LIMITS.fullmatch(base):
        return f"{base}{_scripts(below, above)} "
    sign = "".join(list(element)[1].itertext()).strip() if name == "mover" and len(element) > 1 else ""
    if sign in ACCENTS:
        return f"\\{ACCENTS[sign]}{{{base}}}"
    if above:
        base = f"\\overset{{{above}}}{{{base}}}"
    return f"\\underset{{{below}}}{{{base}}}" if below else base


def _square_root(element: Element, depth: int) -> str:
    return f"\\sqrt{{{_inside(element, depth).strip()}}}"


def _root(element: Element, depth: int) -> str:
    base, degree = _parts(element, depth, 2)
    return f"\\sqrt[{degree}]{{{base}}}" if degree else f"\\sqrt{{{base}}}"


def _fenced(element: Element, depth: int) -> str:
    opening, closing = (
        latex_signs(element.get(name, sign)) for name, sign in (("open", "("), ("close", ")"))
    )
    between = latex_signs((element.get("separators", ",").strip() or " ")[0])
    inner = f"{between} ".join(_parts(element, depth, len(element)))
    return f"{opening}{inner}{closing}"


def _matrix(element: Element, depth: int) -> str:
    rows = [[_inside(cell, depth + 2).strip() for cell in row] for row in element if _name(row) != "none"]
    return latex_rows("matrix", [" & ".join(cells) for cells in rows])


_LEAVES: dict[str, Callable[[str], str]] = {
    "mi": _identifier,
    "mn": latex_signs,
    "mo": _operator,
    "mtext": _words,
    "ms": _words,
}
_WRITERS: dict[str, Callable[[Element, int], str]] = {
    "mfrac": _fraction,
    "msup": _script,
    "msub": _script,
    "msubsup": _script,
    "munder": _limits,
    "mover": _limits,
    "munderover": _limits,
    "msqrt": _square_root,
    "mroot": _root,
    "mfenced": _fenced,
    "mtable": _matrix,
}
