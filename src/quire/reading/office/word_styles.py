"""Styles and numbering of a Word document: a paragraph's level, and the number that the file does not store.

Styles of a Word document: what a paragraph's or a run's style says of its structure and look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from quire.reading.office.inline_markdown import BOLD, HIDDEN, ITALIC, MONO, RAISED, STRIKE
from quire.reading.office.ooxml_package import Package

LOOKS = {"b": BOLD, "i": ITALIC, "strike": STRIKE, "dstrike": STRIKE, "vanish": HIDDEN}
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_CODE_STYLES = frozenset(
    {
        "source code",
        "code",
        "code block",
        "html preformatted",
        "preformatted text",
        "macro",
        "program listing",
    }
)
_MONO_FONT = re.compile(
    r"courier|consolas|menlo|monaco|lucida console|cascadia|fira (?:code|mono)|source code|jetbrains mono|.* mono\b",
    re.IGNORECASE,
)
_NESTED = re.compile(r"list (?:bullet|number|continue)? ?([2-5])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WordStyle:
    """`level` is that of a heading, 0 for none; `number` and `depth` those of a list."""

    level: int = 0
    quote: bool = False
    number: str = ""
    depth: int = 0
    look: int = 0
    is_caption: bool = False
    is_code: bool = False


_QUOTE_STYLES = ("quote", "intense quote", "quotations")
"""The last is that of LibreOffice."""


def run_look(package: Package, one: Element, look: int) -> int:
    """The look that a property of a run makes of the look before it."""
    name = package.local[one.tag]
    if name == "rFonts":
        font = package.attribute(one, "ascii") or package.attribute(one, "hAnsi")
        return look if not font else look | MONO if _MONO_FONT.match(font) else look & ~MONO
    if name == "vertAlign":
        return look | RAISED if package.attribute(one, "val") == "superscript" else look & ~RAISED
    if name == "position":  # how some programs raise letters, in half points
        given = package.attribute(one, "val")
        return look | RAISED if given.isdigit() and given.strip("0") else look
    bit = LOOKS.get(name, 0)
    return look | bit if package.is_on(one) else look & ~bit


def read_styles(package: Package, root: Element | None) -> dict[str, WordStyle]:
    """All of them by id."""
    raw: dict[str, Element] = {
        package.attribute(one, "styleId"): one for one in package.children(root, "style")
    }
    return {name: _style(package, raw, name) for name in raw}


def _style(package: Package, raw: dict[str, Element], name: str) -> WordStyle:
    """What a style and those it is based on say together; the nearest word counts."""
    level, quote, number, depth, look, caption = 0, False, "", 0, 0, False
    hidden: bool | None = None
    code, font = False, 0
    for _ in range(20):  # styles may be based on each other in a circle
        element = raw.get(name)
        if element is None:
            break
        title = package.child(element, "name")
        words = package.attribute(title, "val").lower() if title is not None else ""
        properties = package.child(element, "pPr")
        heading = _HEADING.fullmatch(words)
        outline = package.child(properties, "outlineLvl")
        given = package.attribute(outline, "val") if outline is not None else ""
        if not level:
            level = int(heading[1]) if heading else 1 if words == "title" else 0
            level = level or (int(given) + 1 if given.isdigit() and int(given) < 9 else 0)
        quote = quote or words in _QUOTE_STYLES
        caption = caption or words == "caption"
        code = code or words in _CODE_STYLES
        nested = _NESTED.fullmatch(words)
        numbered = package.child(properties, "numPr")
        if numbered is not None and not number:
            wanted, deep = package.child(numbered, "numId"), package.child(numbered, "ilvl")
            number = package.attribute(wanted, "val") if wanted is not None else ""
            value = package.attribute(deep, "val") if deep is not None else "0"
            depth = min(int(value), MAX_LEVEL) if value.isdigit() else 0
            depth = depth or (int(nested[1]) - 1 if nested else 0)
        own = package.child(element, "rPr")
        vanish, fonts = package.child(own, "vanish"), package.child(own, "rFonts")
        if not font and fonts is not None:
            font = MONO if run_look(package, fonts, 0) else -1
        if hidden is None and vanish is not None:
            hidden = package.is_on(vanish)
        if package.attribute(element, "type") == "character":
            for one in own if own is not None else ():
                look |= run_look(package, one, 0)
        based = package.child(element, "basedOn")
        name = package.attribute(based, "val") if based is not None else ""
    look = look | HIDDEN if hidden else look & ~HIDDEN
    look = look | MONO if font == MONO else look & ~MONO
    return WordStyle(level, quote, "" if number == "0" else number, depth, look, caption, code)


MAX_LEVEL = 8
_SIMPLE = re.compile(r"%\d[.)]?")
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


@dataclass(frozen=True, slots=True)
class NumberingLevel:
    format: str = "bullet"
    text: str = ""
    start: int = 1


@dataclass(frozen=True, slots=True)
class Label:
    """How a numbered paragraph begins. `marker` is what a Markdown list takes; `text` what a reader would see."""

    marker: str
    text: str


class Numbering:
    """Counts as it goes: labels are to be asked for in the order of the document."""

    def __init__(self, levels: dict[str, dict[int, NumberingLevel]], shared: dict[str, str]) -> None:
        """`levels` of each list by its number; lists with the same value in `shared` go on with each other's counts."""
        self._levels = levels
        self._shared = shared
        self._counts: dict[str, list[int | None]] = {}

    def has(self, number: str) -> bool:
        """Whether there is such a list."""
        return number in self._levels

    def label(self, number: str, depth: int) -> Label | None:
        """The next label of list `number` at this depth; None if the paragraph has none."""
        levels = self._levels.get(number)
        if levels is None:
            return None
        level = levels.get(depth) or NumberingLevel()
        if level.format == "none":
            return None
        if level.format == "bullet":
            return Label("-", "")
        counts = self._counts.setdefault(self._shared[number], [None] * (MAX_LEVEL + 1))
        count = counts[depth]
        counts[depth] = level.start if count is None else count + 1
        for skipped in range(
            1, depth
        ):  # a level that is shown, though it has no paragraph of its own, is counted
            if counts[skipped] is None:
                counts[skipped] = (levels.get(skipped) or NumberingLevel()).start
        counts[depth + 1 :] = [None] * (MAX_LEVEL - depth)
        shown = re.sub(r"%(\d)", lambda found: self._shown(levels, counts, int(found[1]) - 1), level.text)
        if level.format.startswith("decimal") and _SIMPLE.fullmatch(level.text):
            return Label(f"{counts[depth]}.", shown)
        return Label("-", shown)

    @staticmethod
    def _shown(levels: dict[int, NumberingLevel], counts: list[int | None], depth: int) -> str:
        if not 0 <= depth <= MAX_LEVEL:
            return ""
        level = levels.get(depth) or NumberingLevel("decimal")
        count = counts[depth]
        return written_number(level.start if count is None else count, level.format)


def read_numbering(package: Package, root: Element | None) -> Numbering:
    """The numbering of a document (DOCX)."""
    found: dict[str, dict[int, NumberingLevel]] = {}
    shared: dict[str, str] = {}
    abstract = {
        package.attribute(one, "abstractNumId"): _levels(package, one)
        for one in package.children(root, "abstractNum")
    }
    for one in package.children(root, "num"):
        number, link = package.attribute(one, "numId"), package.child(one, "abstractNumId")
        key = package.attribute(link, "val") if link is not None else ""
        levels = dict(abstract.get(key, {}))
        overrides = package.children(one, "lvlOverride")
        for override in overrides:
            depth = _number(package.attribute(override, "ilvl"))
            begin = package.child(override, "startOverride")
            given = _levels(package, override)
            level = given.get(depth) or levels.get(depth) or NumberingLevel()
            start = _number(package.attribute(begin, "val"), 1) if begin is not None else level.start
            levels[depth] = NumberingLevel(level.format, level.text, start)
        found[number] = levels
        # Lists that share a definition go on counting, unless one starts anew.
        shared[number] = f"{key}/{number}" if overrides else key
    return Numbering(found, shared)


def _levels(package: Package, holder: Element) -> dict[int, NumberingLevel]:
    found: dict[int, NumberingLevel] = {}
    for one in package.children(holder, "lvl"):
        form, text, start = (package.child(one, name) for name in ("numFmt", "lvlText", "start"))
        found[min(_number(package.attribute(one, "ilvl")), MAX_LEVEL)] = NumberingLevel(
            package.attribute(form, "val", "bullet") if form is not None else "decimal",
            package.attribute(text, "val") if text is not None else "",
            _number(package.attribute(start, "val"), 1) if start is not None else 1,
        )
    return found


def written_number(count: int, form: str) -> str:
    """A number as a format of Word (`lowerLetter`, `upperRoman` …) writes it."""
    if form in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (count - 1) % 26) * min(1 + (max(count, 1) - 1) // 26, 10)
        return letter if form == "lowerLetter" else letter.upper()
    if form in ("lowerRoman", "upperRoman") and 0 < count < 4000:
        text = ""
        for value, sign in _ROMAN:
            times, count = divmod(count, value)
            text += sign * times
        return text if form == "lowerRoman" else text.upper()
    return f"{count:02d}" if form == "decimalZero" else str(count)


def _number(text: str, otherwise: int = 0) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else otherwise


def look_in(package: Package, styles: Mapping[str, WordStyle], properties: Element, look: int) -> int:
    """The look of a run with these properties, whose paragraph has the given one."""
    for one in properties:
        name = package.local[one.tag]
        if name == "rStyle":
            look |= styles.get(package.attribute(one, "val"), WordStyle()).look
        else:
            look = run_look(package, one, look)
    return look
