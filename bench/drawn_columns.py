"""Draws pages without a table on which texts are side by side, for `bench/table_pages.py`.

An index, lists, cards, blocks of a form and boxes are read one after the other. Fields of a form that are at one height
are read from left to right, as they are filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drawn_tables import _NAMES, _PLACES, BOTTOM, LEFT, RIGHT, Sheet


def _columns(count: int, gutter: float) -> list[tuple[float, float]]:
    width = (RIGHT - LEFT - gutter * (count - 1)) / count
    return [(LEFT + i * (width + gutter), LEFT + i * (width + gutter) + width) for i in range(count)]


def _hanging(s: Sheet, x: float, x1: float, text: str, hang: float) -> None:
    """A text whose second line and those below it are indented."""
    first, *rest = s.wrap(text, x1 - x, s.size)
    for line in [first, *(s.wrap(" ".join(rest), x1 - x - hang, s.size) if rest else [])]:
        s.y += 1.25 * s.size
        s.put(x if line is first else x + hang, s.y, line, s.size)
    s.written.append(text)


def index(s: Sheet) -> None:
    """Terms with the numbers of their pages in two or three columns, some below another one, some of two lines."""
    c = s.chance
    count = c.choice((2, 2, 3))
    s.size = min(s.size, 9.0) if count == 3 else s.size
    has_letters = c.random() < 0.5
    s.heading("Index")
    terms = sorted({s.phrase(1, 3) for _ in range(c.randint(60, 110))})
    per_column = -(-len(terms) // count)
    start, letter = s.y, ""
    for place, (x0, x1) in enumerate(_columns(count, c.choice((18.0, 30.0)))):
        s.y = start
        for term in terms[place * per_column : (place + 1) * per_column]:
            if s.y > BOTTOM:
                break
            if has_letters and term[0] != letter:
                letter = term[0]
                s.y += 1.6 * s.size
                s.put(x0, s.y, letter.upper(), s.size, s.bold)
                s.written.append(letter.upper())
            pages = [str(n) for n in sorted(c.randint(1, 300) for _ in range(c.choice((1, 1, 2, 3, 9))))]
            _hanging(s, x0 + c.choice((0, 0, 0, 10)), x1, ", ".join([term, *pages]), 20)


def form(s: Sheet) -> None:
    """Labels with lines to write on, two in a row."""
    s.heading(s.label(2, 3))
    c = s.chance
    for _ in range(c.randint(8, 14)):
        s.y += 24
        for x, end, most in ((LEFT, 300, 2), (320, RIGHT, 1)):
            label = f"{s.label(1, most)}:"
            s.put(x, s.y, label, s.size)
            s.line(x + s.width(label, s.size) + 6, s.y + 1, end, s.y + 1, 0.4)
            s.written.append(label)


def form_blocks(s: Sheet) -> None:
    """Blocks of labels and values side by side, each with its heading, below them prose."""
    c = s.chance
    s.heading(s.label(2, 3))
    framed = c.random() < 0.5
    for _ in range(c.randint(1, 3)):
        top = bottom = s.y + 14
        for x0, x1 in _columns(c.choice((2, 2, 3)), 18):
            s.y = top
            _block(s, x0, x1, is_framed=framed)
            bottom = max(bottom, s.y)
        s.y = bottom + 8
    s.paragraph(LEFT, RIGHT, s.prose(4))


def _block(s: Sheet, x0: float, x1: float, *, is_framed: bool) -> None:
    c = s.chance
    top = s.y
    s.y += 1.6 * s.size
    head = s.label(1, 2)
    s.put(x0 + 4, s.y, head, s.size, s.bold)
    s.written.append(head)
    for _ in range(c.randint(3, 6)):
        s.y += 1.5 * s.size
        value = c.choice(
            (f"{c.choice(_NAMES)} {c.choice(_NAMES)}", c.choice(_PLACES), str(c.randint(10, 9999)))
        )
        text = f"{s.label(1, 1)}: {value}"
        s.put(x0 + 4, s.y, text, s.size)
        s.written.append(text)
    s.y += 0.8 * s.size
    if is_framed:
        s.page.draw_rect((x0, top, x1, s.y), color=(0, 0, 0), width=0.6)


def lists(s: Sheet) -> None:
    """Lists with bullets or numbers in two or three columns."""
    c = s.chance
    s.heading(s.label(2, 3))
    s.paragraph(LEFT, RIGHT, s.prose(3))
    start = bottom = s.y + 6
    is_numbered, number = c.random() < 0.5, 0
    words = c.choice((2, 3, 6))
    for x0, x1 in _columns(c.choice((2, 3)), 24):
        s.y = start
        for _ in range(c.randint(4, 9)):
            number += 1
            mark = f"{number}." if is_numbered else "•"
            s.put(x0, s.y + 1.25 * s.size, mark, s.size)
            s.written.append(mark if is_numbered else "")
            _hanging(s, x0 + 16, x1, s.label(1, words), 0)
        bottom = max(bottom, s.y)
    s.y = bottom + 10
    s.paragraph(LEFT, RIGHT, s.prose(3))


def cards(s: Sheet) -> None:
    """Texts with headings in two columns, each with a box or with a large number beside it."""
    c = s.chance
    s.heading(s.label(2, 3))
    is_boxed = c.random() < 0.6
    for _ in range(c.randint(2, 4)):
        top = bottom = s.y + 14
        for x0, x1 in _columns(2, 16):
            s.y = top
            s.y += 1.8 * s.size
            title = s.label(2, 3)
            s.put(x0 + 8, s.y, title, 1.2 * s.size, s.bold)
            s.written.append(title)
            s.paragraph(x0 + 8, x1 - 8, s.prose(c.randint(1, 3)))
            bottom = max(bottom, s.y)
        if is_boxed:
            for x0, x1 in _columns(2, 16):
                s.page.draw_rect((x0, top, x1, bottom + 2), color=(0.6, 0.6, 0.6), width=0.6)
        s.y = bottom + 6


def column_references(s: Sheet) -> None:
    """References in two columns, their labels in a column of their own."""
    c = s.chance
    s.heading("References")
    s.size = min(s.size, 9.0)
    start, number = s.y, 0
    named = c.random() < 0.5
    hang = 40.0 if named else 22.0
    for x0, x1 in _columns(2, c.choice((12.0, 20.0))):
        s.y = start
        while s.y < BOTTOM - 60:
            number += 1
            name = c.choice(_NAMES)
            label = f"[{name[:3]}{number:02}]" if named else f"[{number}]"
            s.put(x0, s.y + 1.25 * s.size, label, s.size)
            s.written.append(label)
            s.paragraph(x0 + hang, x1, f"{name} {c.choice('ABCD')}. {s.sentence()} {c.randint(1980, 2024)}.")


def sidebar(s: Sheet) -> None:
    """A box at the side of prose; it is read behind it."""
    s.heading(s.label(2, 3))
    start = s.y
    while s.y < BOTTOM - 120:
        s.paragraph(LEFT, 380, s.prose(5))
    s.y = start
    s.page.draw_rect((400, start + 4, RIGHT + 6, start + 330), color=None, fill=(0.92, 0.92, 0.92))
    s.paragraph(408, RIGHT, s.prose(7), 8)


def box_below(s: Sheet) -> None:
    """Prose in three columns, a box with facts in the lower part of two of them."""
    c = s.chance
    s.size = min(s.size, 9.0)
    s.heading(s.label(2, 3))
    start = s.y
    columns = _columns(3, 16)
    for place, (x0, x1) in enumerate(columns):
        s.y = start
        while s.y < (BOTTOM - 100 if place == 2 else 480):
            s.paragraph(x0, x1, s.prose(c.randint(2, 4)))
    s.y = 560
    top, left = s.y, columns[0][0]
    head = s.label(2, 3)
    s.put(left + 60, s.y + 18, head, 1.2 * s.size, s.bold)
    s.written.append(head)
    s.y += 26
    for line in _facts(s):
        s.paragraph(left + 130, columns[1][1] - 8, line)
        s.y -= 0.6 * s.size
    s.page.draw_rect((left, top, columns[1][1], s.y + 10), color=None, fill=(0.85, 0.92, 0.85), overlay=False)


def _facts(s: Sheet) -> Sequence[str]:
    return [f"{s.label(1, 2)}: {s.phrase(2, 5)} {s.phrase(1, 4)}" for _ in range(s.chance.randint(4, 7))]


LAYOUTS: dict[str, Callable[[Sheet], None]] = {
    function.__name__: function
    for function in (index, form, form_blocks, lists, cards, column_references, sidebar, box_below)
}
