"""Draws slides, sheets with two pages of a book, and landscape pages that look like such sheets and are none."""

from __future__ import annotations

import random
from collections.abc import Callable

from drawn_headings import LOW, WIDE, Face, Leaf
from drawn_tables import draw_table, figures_table, some_style

_GREY = (0.9, 0.9, 0.93)


def facing(chance: random.Random) -> Leaf:
    """Two pages of a book side by side: running heads, page numbers, headings, a table or notes on one of them."""
    s = Leaf(chance, (WIDE, LOW))
    s.size = chance.choice((8.0, 9.0, 9.5))
    face = Face(chance.uniform(1.2, 1.5), chance.random() < 0.6, space=1.2)
    number = 2 * chance.randint(3, 90)
    heads = [s.label(2, 3), s.label(2, 3)] if chance.random() < 0.7 else ["", ""]
    gutter = chance.choice((50.0, 70.0, 90.0))
    width = (WIDE - gutter - 2 * 40) / 2
    has_numbers = not heads[0] or chance.random() < 0.8
    begins = chance.random() < 0.4
    for side in range(2):
        x0 = 40 + side * (width + gutter)
        _book_page(
            s, face, x0, x0 + width, heads[side], f"{number + side}" if has_numbers else "", begins, chance
        )
        begins = chance.random() < 0.3
    return s


def _book_page(
    s: Leaf, face: Face, x0: float, x1: float, head: str, number: str, begins: bool, chance: random.Random
) -> None:
    s.y = 56.0
    if head and not begins:
        s.put(x0, 36, head, 0.9 * s.size)
        s.written.append(head)
    if begins:
        s.y = 80.0
        s.title(1, Face(face.ratio * 1.3, face.is_bold), s.label(2, 4), x0, x1)
    has_table, has_note = chance.random() < 0.3, chance.random() < 0.4
    end = LOW - (110 if has_note else 70)
    while s.y < end - 5 * s.size:
        s.paragraph(x0, x1, s.prose(chance.randint(3, 5)))
        if has_table and s.y < end - 190:
            content = figures_table(s, x1 - x0, most=4, rows=(3, 6))
            draw_table(s, content, some_style(s, ("grid", "book", "head")), x0)
            s.y += s.size
            has_table = False
        elif chance.random() < 0.3 and s.y < end - 9 * s.size:
            s.title(2, face, s.label(2, 3), x0, x1)
    if has_note:
        s.y = max(s.y, LOW - 80)
        s.line(x0, s.y, x0 + 80, s.y)
        s.paragraph(x0, x1, f"{chance.randint(1, 30)} {s.sentence()}", 0.8 * s.size)
    if number:
        s.put((x0 + x1) / 2, LOW - 24, number, 0.9 * s.size)
        s.written.append(number)


def landscape_columns(chance: random.Random) -> Leaf:
    """A landscape page in two columns with sections whose heads go over both: read section by section."""
    s = Leaf(chance, (WIDE, LOW))
    face = Face(1.5, True)
    gutter = chance.choice((24.0, 40.0))
    width = (WIDE - gutter - 80) / 2
    s.y = 40
    for _ in range(2):
        text = f"{s.label(2, 3)} and {s.phrase(2, 3)} of the {s.phrase(2, 3)} with {s.phrase(1, 2)} and {s.phrase()}"
        s.title(1, face, text, 40, WIDE - 40)
        top, lowest = s.y, s.y
        for side in range(2):
            s.y = top
            x0 = 40 + side * (width + gutter)
            s.paragraph(x0, x0 + width, s.prose(chance.randint(5, 7)))
            lowest = max(lowest, s.y)
        s.y = lowest
    return s


def landscape_table(chance: random.Random) -> Leaf:
    """A table as wide as a landscape page, with an empty column in its middle at times."""
    s = Leaf(chance, (WIDE, LOW))
    s.y = 50
    s.paragraph(40, 380, s.prose(2))
    content = figures_table(s, WIDE - 80, most=6, rows=(12, 20))
    content.widths = [140.0, *[(WIDE - 220) / (len(content.widths) - 1)] * (len(content.widths) - 1)]
    draw_table(s, content, some_style(s, ("grid", "rows", "book")), 40)
    return s


def slides(chance: random.Random) -> Leaf:
    """Three slides of one template: a title, bullets of two depths, two lists side by side, a footer, a number."""
    s = Leaf(chance, chance.choice(((WIDE, LOW), (720.0, 405.0), (720.0, 540.0), (960.0, 540.0))))
    s.size = s.paper[1] / chance.uniform(22, 30)
    face = Face(
        chance.uniform(1.25, 2.0),
        chance.random() < 0.4,
        chance.random() < 0.15,
        is_centred=chance.random() < 0.3,
        colour=chance.choice(((0.0, 0.0, 0.0), (0.1, 0.25, 0.55))),
        space=0.3,
    )
    mark = chance.choice(("•", "•", "–", "■", "▪", "➢"))
    footer = s.label(2, 3) if chance.random() < 0.6 else ""
    kinds = chance.sample(("list", "two", "list", "text", "only"), 3)
    for page, kind in enumerate(kinds):
        if page:
            s.turn()
        _slide(s, face, kind, mark, footer if page == 0 else "")
        if footer:
            s.put(40, s.paper[1] - 18, footer, 0.55 * s.size)
        s.put(s.paper[0] - 50, s.paper[1] - 18, str(page + 1), 0.55 * s.size)
    return s


def _slide(s: Leaf, face: Face, kind: str, mark: str, footer: str) -> None:
    left, right = 40.0, s.paper[0] - 40
    s.y = 20
    s.title(1, face, s.label(2, 4), left, right)
    s.y += s.size
    end = s.paper[1] - 60
    if kind == "two":
        top, middle = s.y, s.paper[0] / 2
        for x0, x1 in ((left, middle - 20), (middle + 20, right)):
            s.y = top
            for _ in range(s.chance.randint(3, 5)):
                if s.y < end - 3 * s.size:
                    s.item(x0, x1, s.label(2, 4), mark=mark, size=s.size)
    elif kind == "list":
        depth = 0
        while s.y < end - 4 * s.size:
            s.item(left, right, f"{s.label(2, 3)} for {s.phrase(1, 3)}", depth=depth, mark=mark, size=s.size)
            depth = s.chance.choice((0, 1)) if depth == 0 else s.chance.choice((0, 1, 1))
    elif kind == "text":
        s.paragraph(left, right, s.prose(2))
    else:
        s.page.draw_rect((left + 60, s.y, right - 60, end), color=None, fill=_GREY)
    if footer:
        s.written.append(footer)


SHEETS: dict[str, Callable[[random.Random], Leaf]] = {
    function.__name__: function for function in (facing, landscape_columns, landscape_table, slides)
}
