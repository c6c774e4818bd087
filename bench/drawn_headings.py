"""Draws documents whose headings are known, in type schemes of many kinds, for `bench/heading_pages.py`.

Everything follows from a seed and a number, as in `drawn_tables.py`: the type of each level, the words, what else looks
like a heading and is none (labels in bold, bold words at the start of a line, captions, heads of tables, lists).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from drawn_tables import BOTTOM, LEFT, RIGHT, TOP, Sheet, draw_table, figures_table, some_style

WIDE, LOW = 842.0, 595.0
_BLUE, _WHITE, _DARK = (0.1, 0.25, 0.55), (1.0, 1.0, 1.0), (0.15, 0.2, 0.35)


@dataclass(frozen=True, slots=True)
class DrawnDocument:
    """A document as PDF, its headings with their levels, its text in reading order, and the items of its lists."""

    name: str
    pdf: bytes
    headings: tuple[tuple[int, str], ...]
    items: tuple[tuple[int, str], ...]
    text: str
    has_tables: bool
    pages: int


@dataclass(frozen=True, slots=True)
class Face:
    """The type of the headings of one level. `ratio` is their size, in sizes of the text."""

    ratio: float
    is_bold: bool = False
    is_upper: bool = False
    is_small_caps: bool = False
    is_centred: bool = False
    colour: tuple[float, float, float] = (0.0, 0.0, 0.0)
    is_boxed: bool = False
    space: float = 1.0


class Leaf(Sheet):
    """A sheet that remembers its headings and the items of its lists."""

    def __init__(self, chance: random.Random, paper: tuple[float, float] = (595.0, 842.0)) -> None:
        super().__init__(chance, paper)
        self.paper = paper
        self.headings: list[tuple[int, str]] = []
        self.items: list[tuple[int, str]] = []
        self.numbers = [0, 0, 0]

    def turn(self) -> None:
        """Goes on to a new page."""
        self.page = self.document.new_page(width=self.paper[0], height=self.paper[1])
        self.y = TOP

    def title(self, level: int, face: Face, text: str, x0: float = LEFT, x1: float = RIGHT) -> None:
        """A heading of the level (from 1) in its type, over as many rows as it takes."""
        text = text.upper() if face.is_upper else text
        size = face.ratio * self.size
        font = self.bold if face.is_bold else self.regular
        self.y += face.space * self.size
        rows = self.wrap(text, x1 - x0, size, font)
        if face.is_boxed:
            self.page.draw_rect(
                (x0 - 4, self.y, x1, self.y + 1.3 * size * len(rows) + 5), color=None, fill=_DARK
            )
        for row in rows:
            self.y += 1.25 * size
            x = x0 + (x1 - x0 - self.width(row, size, font)) / 2 if face.is_centred else x0
            self._row(x, row, size, font, face)
        self.y += 0.5 * self.size
        self.written.append(text)
        self.headings.append((level, text.upper() if face.is_small_caps else text))

    def _row(self, x: float, row: str, size: float, font: str, face: Face) -> None:
        colour = _WHITE if face.is_boxed else face.colour
        if not face.is_small_caps:
            self.page.insert_text((x, self.y), row, fontsize=size, fontname=font, color=colour)
            return
        for word in row.upper().split():
            for piece, height in ((word[:1], size), (word[1:], 0.8 * size)):
                if piece:
                    self.page.insert_text((x, self.y), piece, fontsize=height, fontname=font, color=colour)
                    x += self.width(piece, height, font)
            x += 0.28 * size

    def item(
        self, x0: float, x1: float, text: str, *, depth: int = 0, mark: str = "•", size: float = 0.0
    ) -> None:
        size = size or self.size
        left = x0 + 1.6 * size * depth
        for i, row in enumerate(self.wrap(text, x1 - left - 1.4 * size, size)):
            self.y += 1.3 * size
            if i == 0:
                self.put(left, self.y, mark, size)
            self.put(left + 1.4 * size, self.y, row, size)
        self.y += 0.25 * size
        self.written.append(text)
        self.items.append((depth, text))

    def number(self, level: int) -> str:
        """The next number of a heading of the level."""
        self.numbers[level - 1] += 1
        self.numbers[level:] = [0] * (len(self.numbers) - level)
        return ".".join(map(str, self.numbers[:level]))


def drawn_document(seed: int, number: int) -> DrawnDocument:
    from drawn_sheets import SHEETS

    layouts = {**LAYOUTS, **SHEETS}
    names = tuple(layouts)
    name = names[number % len(names)]
    leaf = layouts[name](random.Random(f"headings {seed} {number}"))
    return DrawnDocument(
        f"{seed}-{number} {name}",
        leaf.document.tobytes(),
        tuple(leaf.headings),
        tuple(leaf.items),
        "\n".join(leaf.written),
        bool(leaf.tables),
        leaf.document.page_count,
    )


# ---------------------------------------------------------------- type schemes


def _bold(c: random.Random) -> list[Face]:
    top = c.uniform(1.3, 1.8)
    return [Face(top, True, space=1.5), Face(c.uniform(1.1, top - 0.12), True)]


def _regular(c: random.Random) -> list[Face]:
    top = c.uniform(1.35, 1.7)
    return [Face(top, space=1.6), Face(c.uniform(1.18, top - 0.12), space=1.2)]


def _coloured(c: random.Random) -> list[Face]:
    top = c.uniform(1.25, 1.5)
    return [Face(top, colour=_BLUE, space=1.5), Face(c.uniform(1.15, 1.2), colour=_BLUE, space=1.2)]


def _text_size(c: random.Random) -> list[Face]:
    """In the size of the text: capitals and bold type tell."""
    return [Face(1.0, True, True, space=1.5), Face(1.0, True, space=c.choice((0.6, 1.0)))]


def _little_larger(c: random.Random) -> list[Face]:
    return [Face(c.uniform(1.2, 1.3), True, space=1.4), Face(c.uniform(1.06, 1.12), True)]


def _centred(c: random.Random) -> list[Face]:
    return [
        Face(c.uniform(1.0, 1.4), True, c.random() < 0.5, is_centred=True, space=1.5),
        Face(1.0, True, is_centred=c.random() < 0.5),
    ]


def _capitals(c: random.Random) -> list[Face]:
    """Regular capitals with more space than between paragraphs above them."""
    return [Face(c.uniform(1.15, 1.4), is_upper=True, space=1.6), Face(1.0, is_upper=True, space=1.2)]


def _small_caps(c: random.Random) -> list[Face]:
    return [Face(c.uniform(1.2, 1.5), is_small_caps=True, space=1.5), Face(1.0, True)]


def _mixed_weights(c: random.Random) -> list[Face]:
    """A regular level above bold ones in the size of the text, or below larger bold ones."""
    if c.random() < 0.5:
        return [Face(c.uniform(1.4, 1.8), space=1.5), Face(1.0, True)]
    return [Face(c.uniform(1.4, 1.6), True, space=1.5), Face(c.uniform(1.15, 1.25), space=1.2)]


def _boxed(c: random.Random) -> list[Face]:
    return [
        Face(c.uniform(1.1, 1.4), c.random() < 0.6, is_boxed=True, space=1.2),
        Face(c.uniform(1.0, 1.1), True),
    ]


# ---------------------------------------------------------------- what is no heading


def _list(s: Leaf, x0: float, x1: float) -> None:
    for _ in range(s.chance.randint(2, 4)):
        s.item(x0, x1, s.sentence())
    s.y += 0.6 * s.size


def _labels(s: Leaf, x0: float, x1: float) -> None:
    """Labels in bold, each with its value behind it."""
    for _ in range(s.chance.randint(2, 3)):
        label, value = f"{s.label(1, 2)}:", s.phrase(2, 3)
        s.y += 1.4 * s.size
        s.put(x0, s.y, label, s.size, s.bold)
        s.put(x0 + s.width(label + " ", s.size, s.bold), s.y, value, s.size)
        s.written.append(f"{label} {value}")
    s.y += 0.8 * s.size


def _run_in(s: Leaf, x0: float, x1: float) -> None:
    """A paragraph that begins with words in bold."""
    head, text = f"{s.label(2, 3)}. ", s.prose(3)
    width = s.width(head, s.size, s.bold)
    first = ""
    for word in text.split():
        if width + s.width(f"{first} {word}", s.size) > x1 - x0:
            break
        first = f"{first} {word}".strip()
    rest = text[len(first) :].strip()
    rows = s.wrap(rest, x1 - x0, s.size) if rest else []
    s.y += 1.25 * s.size
    s.put(x0, s.y, head, s.size, s.bold)
    s.put(x0 + width, s.y, first, s.size)
    for row in rows:
        s.y += 1.25 * s.size
        s.put(x0, s.y, row, s.size)
    s.y += 0.7 * s.size
    s.written.append(head + text)


def _caption(s: Leaf, x0: float, x1: float) -> None:
    """A picture with its caption, in bold at times."""
    s.page.draw_rect((x0, s.y + 4, x0 + 120, s.y + 64), color=None, fill=(0.8, 0.85, 0.8))
    s.y += 68
    text = f"Figure {s.chance.randint(1, 9)}. {s.label(2, 3)}"
    s.y += 1.2 * s.size
    s.put(x0, s.y, text, 0.9 * s.size, s.chance.choice((s.regular, s.bold)))
    s.y += s.size
    s.written.append(text)


def _table(s: Leaf, x0: float, x1: float) -> None:
    content = figures_table(s, x1 - x0, most=4, rows=(3, 8))
    style = some_style(s, ("grid", "rows", "book", "head"))
    style.size = min(style.size, s.size)
    draw_table(s, content, style, x0)
    s.y += s.size


def _quotation(s: Leaf, x0: float, x1: float) -> None:
    """A sentence in bold by itself, as a warning."""
    text = s.sentence()
    for row in s.wrap(text, x1 - x0, s.size, s.bold):
        s.y += 1.25 * s.size
        s.put(x0, s.y, row, s.size, s.bold)
    s.y += 0.7 * s.size
    s.written.append(text)


_OTHERS: tuple[Callable[[Leaf, float, float], None], ...] = (
    *(_list, _labels, _run_in, _caption, _table, _quotation),
)


# ---------------------------------------------------------------- documents


def _columns(s: Leaf) -> list[tuple[float, float]]:
    count = s.chance.choice((1, 1, 2))
    gutter = 20.0
    width = (RIGHT - LEFT - gutter * (count - 1)) / count
    return [(LEFT + i * (width + gutter), LEFT + i * (width + gutter) + width) for i in range(count)]


def _document(
    chance: random.Random, scheme: Callable[[random.Random], list[Face]], *, is_numbered: bool
) -> Leaf:
    s = Leaf(chance)
    faces = scheme(chance)
    columns = _columns(s)
    others = chance.sample(_OTHERS, 2)
    head = s.phrase(2, 3).capitalize() if chance.random() < 0.4 else ""
    if chance.random() < 0.6:
        s.title(0, Face(faces[0].ratio * 1.35, faces[0].is_bold), s.label(3, 4))
    for page in range(3):
        if page:
            s.turn()
        if head:
            s.put(LEFT, 40, head, 0.9 * s.size)
        s.put(290, 812, str(page + 1), 9)
        top = s.y
        for x0, x1 in columns:
            s.y = top
            while s.y < BOTTOM - 170:
                _section(s, faces, x0, x1, others, is_numbered=is_numbered)
    return s


def _section(
    s: Leaf,
    faces: list[Face],
    x0: float,
    x1: float,
    others: list[Callable[[Leaf, float, float], None]],
    *,
    is_numbered: bool,
) -> None:
    c = s.chance
    level = 1 if not s.headings or c.random() < 0.4 else 2
    long = c.random() < 0.15
    text = f"{s.label(2, 3)} {'of the' if long else 'and'} {s.phrase(2, 3) if long else s.phrase(1, 1)}"
    number = f"{s.number(level if s.numbers[0] else 1)} " if is_numbered else ""
    s.title(level, faces[level - 1], number + text, x0, x1)
    s.paragraph(x0, x1, s.prose(c.randint(3, 5)))
    if c.random() < 0.35 and s.y < BOTTOM - 200:
        c.choice(others)(s, x0, x1)


def in_margin(chance: random.Random) -> Leaf:
    """Headings in the margin, beside the text that they head."""
    s = Leaf(chance)
    size = chance.uniform(1.0, 1.3)
    font = chance.choice((s.bold, s.bold, s.regular))
    size = max(size, 1.25) if font == s.regular else size
    for page in range(2):
        if page:
            s.turn()
        while s.y < BOTTOM - 150:
            top, text = s.y, s.label(2, 3)
            for i, row in enumerate(s.wrap(text, 110, size * s.size, font)):
                s.put(LEFT, top + 1.25 * s.size + 1.2 * i * size * s.size, row, size * s.size, font)
            s.headings.append((1, text))
            s.written.append(text)
            for _ in range(chance.randint(1, 2)):
                s.paragraph(LEFT + 130, RIGHT, s.prose(chance.randint(3, 5)))
            s.y += 1.2 * s.size
    return s


def _layout(
    scheme: Callable[[random.Random], list[Face]], is_numbered: bool = False
) -> Callable[[random.Random], Leaf]:
    return lambda chance: _document(chance, scheme, is_numbered=is_numbered)


LAYOUTS: dict[str, Callable[[random.Random], Leaf]] = {
    "bold": _layout(_bold),
    "regular": _layout(_regular),
    "coloured": _layout(_coloured),
    "text_size": _layout(_text_size),
    "little_larger": _layout(_little_larger),
    "centred": _layout(_centred),
    "capitals": _layout(_capitals),
    "small_caps": _layout(_small_caps),
    "mixed_weights": _layout(_mixed_weights),
    "boxed": _layout(_boxed),
    "numbered_bold": _layout(_bold, True),
    "numbered_regular": _layout(_regular, True),
    "in_margin": in_margin,
}
