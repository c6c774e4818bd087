"""Draws PDF pages whose tables are known, and pages without a table that look like one, for `bench/table_pages.py`.

Everything of a page follows from a seed and a number: layout, words, figures, type, rules, gaps. The corpus has few
tables, so rules fit themselves to them; a seed that nobody has looked at can't be fitted to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pymupdf

WIDTH, HEIGHT = 595.0, 842.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 533.0, 70.0, 775.0
FAMILIES = (("helv", "hebo"), ("tiro", "tibo"))


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_NOUNS = _listed(
    "revenue cost share report region district school hospital farm market price budget loan grant income "
    "tax output yield sample model method result error method rate index survey household worker pupil "
    "teacher road bridge river lake forest energy oil gas coal steel paper glass copper wheat maize rice "
    "sugar fish wool port airport railway vessel vehicle engine sensor signal filter cell protein patient "
    "dose trial group control policy council office agency member partner supplier customer contract "
    "invoice account balance asset equity debt interest dividend reserve provision expense depreciation "
    "inventory equipment property building land "
)
_ADJECTIVES = _listed(
    "total net gross other public private local foreign domestic current former average annual monthly "
    "rural urban primary secondary new old large small medium northern southern eastern western general "
    "special direct indirect fixed variable deferred accrued long-term short-term operating financial "
    "industrial medical technical "
)
_VERBS = _listed("shows gives takes needs holds covers limits raises lowers meets keeps joins serves follows")
_SMALL = ("of", "for", "in", "by", "with", "from", "on", "and", "without", "under")
_PLACES = _listed(
    "Norway Spain Kenya Brazil Japan Canada Chile Poland Ghana Turkey Austria Ireland Portugal Bolivia "
    "Nepal Malta Iceland Greece Cuba Laos Oregon Texas Maine Utah Ohio Idaho "
)
_NAMES = _listed(
    "Adams Baker Clark Diaz Evans Foster Grant Hayes Irwin Jones Kelly Lopez Moore Nolan Owens Perez "
)


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A page as PDF, and its tables in reading order, each as rows of cells; a span has its text at its first place."""

    name: str
    pdf: bytes
    tables: tuple[tuple[tuple[str, ...], ...], ...]
    text: str


@dataclass(slots=True)
class Content:
    """What a table says. A head cell is its text and the number of columns that it is over."""

    heads: list[list[tuple[str, int]]]
    rows: list[list[str]]
    indents: list[int]
    widths: list[float]
    right: list[bool]
    signs: bool = False

    def truth(self) -> tuple[tuple[str, ...], ...]:
        heads = [[text if i == 0 else "" for text, span in row for i in range(span)] for row in self.heads]
        return tuple(tuple(row) for row in (*heads, *self.rows))


@dataclass(slots=True)
class Style:
    """How a table is drawn. `rules`: grid, rows, book, head, frame, zebra, columns or none."""

    rules: str
    size: float
    gap: float
    row_gap: float
    bold_head: bool = True
    leaders: bool = False
    middle: bool = False


class Sheet:
    """A page that remembers its tables and its text."""

    def __init__(self, chance: random.Random, paper: tuple[float, float] = (WIDTH, HEIGHT)) -> None:
        self.chance = chance
        self.document = pymupdf.open()
        self.page = self.document.new_page(width=paper[0], height=paper[1])
        self.regular, self.bold = chance.choice(FAMILIES)
        self.size = chance.choice((8.0, 9.0, 9.5, 10.0, 11.0))
        self.y = TOP
        self.tables: list[tuple[tuple[str, ...], ...]] = []
        self.written: list[str] = []
        self._fonts = {name: pymupdf.Font(name) for name in (self.regular, self.bold, "cour")}

    def width(self, text: str, size: float, font: str | None = None) -> float:
        return float(self._fonts[font or self.regular].text_length(text, fontsize=size))

    def put(self, x: float, y: float, text: str, size: float, font: str | None = None) -> None:
        if text:
            self.page.insert_text((x, y), text, fontsize=size, fontname=font or self.regular)

    def line(self, x0: float, y0: float, x1: float, y1: float, width: float = 0.6) -> None:
        self.page.draw_line((x0, y0), (x1, y1), width=width)

    def wrap(self, text: str, width: float, size: float, font: str | None = None) -> list[str]:
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.width(longer, size, font) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines or [""]

    def paragraph(self, x0: float, x1: float, text: str, size: float | None = None) -> None:
        size = size or self.size
        for line in self.wrap(text, x1 - x0, size):
            self.y += 1.25 * size
            self.put(x0, self.y, line, size)
        self.written.append(text)
        self.y += 0.7 * size

    def heading(self, text: str, x: float = LEFT) -> None:
        self.y += 1.8 * self.size
        self.put(x, self.y, text, 1.3 * self.size, self.bold)
        self.written.append(text)
        self.y += 0.4 * self.size

    # ---- words

    def phrase(self, low: int = 1, high: int = 3) -> str:
        words = [self.chance.choice(_ADJECTIVES) for _ in range(self.chance.randint(low, high) - 1)]
        return " ".join([*words, self.chance.choice(_NOUNS)])

    def label(self, low: int = 1, high: int = 3) -> str:
        return self.phrase(low, high).capitalize()

    def sentence(self) -> str:
        c = self.chance
        tail = " ".join(f"{c.choice(_SMALL)} {self.phrase(1, 3)}" for _ in range(c.randint(1, 4)))
        return f"The {self.phrase()} {c.choice(_VERBS)} the {self.phrase()} {tail}.".capitalize()

    def prose(self, count: int) -> str:
        return " ".join(self.sentence() for _ in range(count))

    def figure(self, kind: str) -> str:
        c = self.chance
        if kind == "money":
            value = f"{c.randint(1, 99_999):,}"
            return f"({value})" if c.random() < 0.15 else value
        if kind == "per cent":
            return f"{c.uniform(-9, 99):.1f}%"
        if kind == "decimal":
            return f"{c.uniform(0, 20):.{c.choice((1, 2, 3))}f}"
        return str(c.randint(0, 2_000))


def drawn_page(seed: int, number: int, layouts: Mapping[str, Callable[[Sheet], None]]) -> DrawnPage:
    """Page `number` of a seed; the layouts take turns."""
    names = tuple(layouts)
    name = names[number % len(names)]
    sheet = Sheet(random.Random(f"tables {seed} {number}"))
    layouts[name](sheet)
    data = sheet.document.tobytes()
    return DrawnPage(f"{seed}-{number} {name}", data, tuple(sheet.tables), "\n".join(sheet.written))


# ---------------------------------------------------------------- what tables say


def figures_table(s: Sheet, width: float, *, most: int = 7, rows: tuple[int, int] = (4, 16)) -> Content:
    """Labels and figures; heads of one or two rows, sections, empty cells, labels that wrap."""
    c = s.chance
    count = c.randint(2, most)
    first = c.choice((90.0, 120.0, 150.0)) if width > 300 else 80.0
    widths = [first, *[(width - first) / count] * count]
    widths = [first, *[min(w, c.choice((55.0, 80.0, 200.0))) for w in widths[1:]]]
    kinds = [c.choice(("money", "per cent", "decimal", "count")) for _ in range(count)]
    years = c.random() < 0.3
    heads = [str(2000 + i) if years else s.label(1, 2) for i in range(count)]
    upper: list[list[tuple[str, int]]] = []
    if count >= 4 and c.random() < 0.45:
        half = count // 2
        upper.append([("", 1), (s.label(1, 2), half), (s.label(1, 2), count - half)])
    blank = c.choice(("", "", "–", "n/a", ".."))
    holes = c.choice((0.0, 0.0, 0.1, 0.25))
    body: list[list[str]] = []
    indents: list[int] = []
    sections = c.random() < 0.3
    long = c.choice((2, 3, 8))
    for i in range(c.randint(*rows)):
        if sections and i % 5 == 0:
            body.append([s.label(2, 3), *[""] * count])
            indents.append(0)
        values = [blank if c.random() < holes else s.figure(kind) for kind in kinds]
        if not any(values):
            values[0] = s.figure(kinds[0])
        label = c.choice(_PLACES) if long == 2 else s.label(1, 3)
        if long == 8 and c.random() < 0.3:
            label = f"{label} {c.choice(_SMALL)} {s.phrase(2, 4)} {c.choice(_SMALL)} {s.phrase(1, 3)}"
        body.append([label, *values])
        indents.append(1 if sections else 0)
    corner = s.label(1, 1) if c.random() < 0.5 else ""
    return Content(
        [*upper, [(corner, 1), *((h, 1) for h in heads)]], body, indents, widths, [False, *[True] * count]
    )


def text_table(
    s: Sheet, width: float, *, columns: int = 0, rows: tuple[int, int] = (3, 9), words: int = 3
) -> Content:
    """Cells of words: names, places, short phrases or sentences that wrap."""
    c = s.chance
    count = columns or c.randint(3, 5)
    makers: list[Callable[[], str]] = [
        lambda: s.label(1, words),
        lambda: c.choice(_PLACES),
        lambda: f"{c.choice(_NAMES)}, {c.choice('ABCDEFG')}.",
        lambda: (
            f"{c.randint(1, 28)} {c.choice(['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun'])} {c.randint(1998, 2024)}"
        ),
        lambda: c.choice(("Yes", "No", "Partly", "Open")),
    ]
    chosen = [makers[0], *(c.choice(makers) for _ in range(count - 1))]
    if words > 3:
        chosen[-1] = s.sentence
    body = [[make() for make in chosen] for _ in range(c.randint(*rows))]
    heads = [(s.label(1, 1), 1) for _ in range(count)]
    shares = [c.uniform(0.8, 1.3) for _ in range(count)]
    if words > 3:
        shares[-1] = 2.5
    widths = [width * share / sum(shares) for share in shares]
    return Content([heads], body, [0] * len(body), widths, [False] * count)


def money_table(s: Sheet, width: float) -> Content:
    """A financial statement: two or three years, currency signs before the first and the last figure, sections."""
    c = s.chance
    count = c.choice((2, 2, 3))
    body: list[list[str]] = []
    indents: list[int] = []
    for _ in range(c.randint(2, 4)):
        body.append([f"{s.label(1, 2)}:", *[""] * count])
        indents.append(0)
        for i in range(c.randint(2, 5)):
            sign = "$" if i == 0 else ""
            body.append([s.label(2, 3), *(sign + s.figure("money") for _ in range(count))])
            indents.append(1)
        body.append([f"Total {s.phrase(1, 2)}", *("$" + s.figure("money") for _ in range(count))])
        indents.append(0)
    heads = [("", 1), *((str(2024 - i), 1) for i in range(count))]
    first = width - count * c.choice((75.0, 90.0))
    widths = [first, *[(width - first) / count] * count]
    return Content([heads], body, indents, widths, [False, *[True] * count], signs=c.random() < 0.7)


# ---------------------------------------------------------------- how tables are drawn


def draw_table(s: Sheet, content: Content, style: Style, x0: float) -> None:
    """Draw it below what is on the page, from `x0`; rows that would not fit are left out."""
    edges = [x0]
    for width in content.widths:
        edges.append(edges[-1] + width)
    top = s.y + 0.8 * style.size
    levels: list[tuple[float, bool]] = []
    y = top
    for place, head in enumerate(content.heads):
        y = _draw_head(s, head, content, style, edges, y, is_last=place == len(content.heads) - 1)
        levels.append((y, place == len(content.heads) - 1))
    head_bottom = y
    kept = 0
    for place, row in enumerate(content.rows):
        height = _row_height(s, row, content, style, edges)
        if y + height > BOTTOM:
            break
        if style.rules == "zebra" and place % 2 == 0:
            s.page.draw_rect((edges[0] - 3, y, edges[-1] + 3, y + height), color=None, fill=(0.9, 0.92, 0.95))
        _draw_row(s, row, content, style, edges, y, content.indents[place])
        y += height
        kept += 1
        levels.append((y, False))
    del content.rows[kept:]
    _draw_rules(s, style, edges, top, head_bottom, levels)
    s.tables.append(content.truth())
    s.written.append("\n".join(" ".join(filter(None, row)) for row in content.truth()))
    s.y = y + style.size


def _pad(style: Style) -> float:
    return 0.35 * style.size if style.rules in ("grid", "rows", "columns") else style.row_gap / 2


def _cell_lines(
    s: Sheet, text: str, width: float, style: Style, indent: float, font: str | None = None
) -> list[str]:
    return s.wrap(text, max(20.0, width - style.gap - indent), style.size, font)


def _draw_head(
    s: Sheet,
    head: Sequence[tuple[str, int]],
    content: Content,
    style: Style,
    edges: Sequence[float],
    y: float,
    *,
    is_last: bool,
) -> float:
    font = s.bold if style.bold_head else s.regular
    at = 0
    cells: list[tuple[int, int, list[str]]] = []
    for text, span in head:
        width = edges[at + span] - edges[at]
        cells.append((at, span, _cell_lines(s, text, width, style, 0.0, font)))
        at += span
    most = max(len(lines) for _, _, lines in cells)
    height = most * 1.15 * style.size + 2 * _pad(style) + 2
    for at, span, lines in cells:
        for i, line in enumerate(lines):
            base = y + _pad(style) + (most - len(lines) + i + 1) * 1.15 * style.size - 0.15 * style.size
            width = s.width(line, style.size, font)
            x = edges[at] + style.gap / 2
            if span > 1:
                x = (edges[at] + edges[at + span] - width) / 2
            elif content.right[at]:
                x = edges[at + 1] - style.gap / 2 - width
            s.put(x, base, line, style.size, font)
        if span > 1 and not is_last and style.rules in ("book", "grid"):
            s.line(edges[at] + 4, y + height - 1, edges[at + span] - 4, y + height - 1, 0.4)
    return y + height


def _row_height(
    s: Sheet, row: Sequence[str], content: Content, style: Style, edges: Sequence[float]
) -> float:
    most = max(
        len(_cell_lines(s, text, edges[i + 1] - edges[i], style, 10.0 if i == 0 else 0.0))
        for i, text in enumerate(row)
    )
    if sum(map(bool, row)) == 1 and row[0]:
        most = 1
    return most * 1.15 * style.size + 2 * _pad(style) + (style.row_gap if style.rules != "grid" else 0.0)


def _draw_row(
    s: Sheet,
    row: Sequence[str],
    content: Content,
    style: Style,
    edges: Sequence[float],
    y: float,
    indent: int,
) -> None:
    is_section = sum(map(bool, row)) == 1 and bool(row[0])
    lines_of = [
        [text]
        if is_section
        else _cell_lines(s, text, edges[i + 1] - edges[i], style, 10.0 if i == 0 else 0.0)
        for i, text in enumerate(row)
    ]
    most = max(map(len, lines_of))
    for i, lines in enumerate(lines_of):
        offset = (most - len(lines)) / 2 if style.middle else 0.0
        for at, line in enumerate(lines):
            base = y + _pad(style) + (offset + at + 1) * 1.15 * style.size - 0.15 * style.size
            x = edges[i] + style.gap / 2 + (10.0 * indent if i == 0 else 0.0)
            if content.right[i]:
                x = edges[i + 1] - style.gap / 2 - s.width(line.lstrip("$"), style.size)
                if line.startswith("$"):
                    sign_x = edges[i] + style.gap / 2 + 8 if content.signs else x - s.width("$", style.size)
                    s.put(sign_x, base, "$", style.size)
            s.put(x, base, line.lstrip("$"), style.size, s.bold if is_section and style.bold_head else None)
            if style.leaders and i == 0 and at == len(lines) - 1 and not is_section:
                start = x + s.width(line, style.size) + 3
                dot = s.width(" .", style.size)
                s.put(start, base, " ." * int((edges[1] - start) / dot), style.size)


def _draw_rules(
    s: Sheet,
    style: Style,
    edges: Sequence[float],
    top: float,
    head_bottom: float,
    levels: Sequence[tuple[float, bool]],
) -> None:
    left, right, bottom = edges[0], edges[-1], levels[-1][0]
    kind = style.rules
    if kind in ("grid", "rows", "book", "frame", "columns"):
        for y in (top, head_bottom, bottom):
            s.line(left, y, right, y, 0.8)
    if kind == "head":
        s.line(left, head_bottom, right, head_bottom)
    if kind in ("grid", "rows"):
        for y, _ in levels[:-1]:
            s.line(left, y, right, y, 0.4)
    if kind in ("frame", "grid", "columns"):
        for x in (left, right):
            s.line(x, top, x, bottom)
    if kind in ("grid", "columns"):
        for x in edges[1:-1]:
            s.line(x, head_bottom if len(edges) > 3 and kind == "columns" else top, x, bottom, 0.4)


def some_style(s: Sheet, rules: Sequence[str]) -> Style:
    c = s.chance
    size = c.choice((7.5, 8.0, 9.0, 10.0))
    kind = c.choice(tuple(rules))
    return Style(kind, size, c.choice((8.0, 12.0, 20.0)), c.choice((0.0, 1.0, 3.0, 6.0)), c.random() < 0.7)


# ---------------------------------------------------------------- pages with tables

_ANY = ("grid", "rows", "book", "head", "frame", "zebra", "columns", "none")
_PLAIN = ("book", "head", "zebra", "none", "rows")


def _intro(s: Sheet, sentences: int = 5) -> None:
    s.heading(s.label(2, 3))
    s.paragraph(LEFT, RIGHT, s.prose(sentences))


def _caption(s: Sheet, x0: float = LEFT, x1: float = RIGHT) -> None:
    if s.chance.random() < 0.7:
        s.paragraph(
            x0, x1, f"Table {s.chance.randint(1, 20)}. {s.label(2, 3)} {s.chance.choice(_SMALL)} {s.phrase()}"
        )


def figures(s: Sheet) -> None:
    _intro(s)
    _caption(s)
    draw_table(s, figures_table(s, RIGHT - LEFT), some_style(s, _ANY), LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(6))


def words(s: Sheet) -> None:
    _intro(s)
    _caption(s)
    draw_table(s, text_table(s, RIGHT - LEFT), some_style(s, _PLAIN), LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(6))


def ruled_words(s: Sheet) -> None:
    _intro(s)
    style = some_style(s, ("grid", "rows", "columns"))
    style.middle = s.chance.random() < 0.3
    draw_table(s, text_table(s, RIGHT - LEFT, words=8), style, LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(4))


def wrapped_words(s: Sheet) -> None:
    """Cells that wrap, rows that only space divides."""
    _intro(s, 3)
    style = some_style(s, ("book", "head", "none"))
    style.row_gap = s.chance.choice((4.0, 6.0, 8.0))
    draw_table(s, text_table(s, RIGHT - LEFT, words=8, rows=(3, 7)), style, LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(4))


def statement(s: Sheet) -> None:
    s.heading(s.label(2, 3))
    style = some_style(s, ("none", "none", "head", "zebra"))
    style.leaders = s.chance.random() < 0.3
    draw_table(s, money_table(s, RIGHT - LEFT), style, LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(4))


def in_a_column(s: Sheet) -> None:
    """Two columns of prose, a table in one of them."""
    gutter = s.chance.choice((16.0, 20.0, 26.0))
    middle = (LEFT + RIGHT) / 2
    columns = [(LEFT, middle - gutter / 2), (middle + gutter / 2, RIGHT)]
    chosen = s.chance.randrange(2)
    s.heading(s.label(2, 3))
    start = s.y
    for place, (x0, x1) in enumerate(columns):
        s.y = start
        for _ in range(s.chance.randint(1, 3)):
            s.paragraph(x0, x1, s.prose(4))
        if place == chosen:
            _caption(s, x0, x1)
            content = figures_table(s, x1 - x0, most=3, rows=(4, 10))
            draw_table(s, content, some_style(s, ("grid", "book", "head", "rows")), x0)
        while s.y < BOTTOM - 120:
            s.paragraph(x0, x1, s.prose(s.chance.randint(3, 6)))


def two_tables(s: Sheet) -> None:
    for _ in range(2):
        _intro(s, 2)
        _caption(s)
        draw_table(s, figures_table(s, RIGHT - LEFT, rows=(4, 9)), some_style(s, _ANY), LEFT)
    s.paragraph(LEFT, RIGHT, s.prose(3))


def invoice(s: Sheet) -> None:
    c = s.chance
    s.put(LEFT, 60, f"{c.choice(_NAMES)} & {c.choice(_NAMES)} Ltd", 14, s.bold)
    for i, line in enumerate(
        (f"Invoice {c.randint(1000, 9999)}", f"Date: {c.randint(1, 28)} May 2024", "Due: 30 days")
    ):
        s.put(400, 60 + 13 * i, line, 9)
    for i, line in enumerate(
        (f"{c.choice(_NAMES)} Company", f"{c.randint(1, 99)} Station Road", c.choice(_PLACES))
    ):
        s.put(LEFT, 120 + 13 * i, line, 9)
    s.y = 180
    rows: list[list[str]] = []
    for _ in range(c.randint(3, 8)):
        rows.append(
            [s.label(2, 3), str(c.randint(1, 20)), f"{c.uniform(1, 90):.2f}", f"{c.uniform(90, 900):.2f}"]
        )
    heads = [("Item", 1), ("Quantity", 1), ("Price", 1), ("Amount", 1)]
    content = Content([heads], rows, [0] * len(rows), [231.0, 80.0, 80.0, 80.0], [False, True, True, True])
    draw_table(s, content, some_style(s, ("grid", "rows", "head", "zebra", "none")), LEFT)
    s.y += 20
    s.paragraph(LEFT, RIGHT, s.prose(2))


def many_columns(s: Sheet) -> None:
    _intro(s, 2)
    style = some_style(s, _PLAIN)
    style.size, style.gap = s.chance.choice((6.5, 7.0, 7.5)), s.chance.choice((6.0, 8.0))
    c = s.chance
    count = c.randint(8, 11)
    body = [
        [c.choice(_PLACES), *(s.figure("decimal") for _ in range(count))] for _ in range(c.randint(8, 25))
    ]
    heads = [("", 1), *((str(2010 + i), 1) for i in range(count))]
    widths = [75.0, *[(RIGHT - LEFT - 75) / count] * count]
    draw_table(s, Content([heads], body, [0] * len(body), widths, [False, *[True] * count]), style, LEFT)


# ---------------------------------------------------------------- pages without tables


def columns_of_prose(s: Sheet) -> None:
    count = s.chance.choice((2, 2, 3))
    gutter = s.chance.choice((12.0, 16.0, 24.0))
    width = (RIGHT - LEFT - gutter * (count - 1)) / count
    if count == 3:
        s.size = min(s.size, 9.0)
    s.heading(s.label(2, 3))
    start = s.y
    for place in range(count):
        s.y = start
        x0 = LEFT + place * (width + gutter)
        while s.y < BOTTOM - 100:
            s.paragraph(x0, x0 + width, s.prose(s.chance.randint(2, 5)))


def contents(s: Sheet) -> None:
    c = s.chance
    s.heading("Contents")
    dots = c.random() < 0.5
    number = 3
    for chapter in range(1, c.randint(6, 9)):
        for part in range(c.randint(1, 4)):
            s.y += 1.6 * s.size
            label = f"{chapter}.{part}  {s.label(2, 3)}" if part else f"{chapter}  {s.label(2, 3)}"
            x = LEFT + (14 if part else 0)
            s.put(x, s.y, label, s.size)
            end = x + s.width(label, s.size) + 4
            if dots:
                s.put(end, s.y, "." * int((RIGHT - 25 - end) / s.width(".", s.size)), s.size)
            s.put(RIGHT - s.width(str(number), s.size), s.y, str(number), s.size)
            s.written.append(f"{label} {number}")
            number += c.randint(1, 9)


def code(s: Sheet) -> None:
    _intro(s, 3)
    c = s.chance
    for _ in range(c.randint(3, 6)):
        name = c.choice(_NOUNS)
        block = [f"def {name}(a, b):", f"    {name} = a + {c.randint(2, 99)}   # {s.phrase()}"]
        block += [
            f"    if {name} > b:      return {c.randint(1, 9)}",
            f"    return {name} * {c.randint(2, 9)}",
        ]
        for line in block:
            s.y += 12
            s.put(LEFT + 10, s.y, line, 9, "cour")
        s.y += 8
    s.y += 10
    s.paragraph(LEFT, RIGHT, s.prose(5))


def letter(s: Sheet) -> None:
    c = s.chance
    for i in range(4):
        s.put(LEFT, 70 + 13 * i, f"{c.choice(_NAMES)} {c.choice(_PLACES)}", 9)
        s.put(380, 70 + 13 * i, f"{c.choice(_NAMES)} {c.choice(_PLACES)}", 9)
    s.y = 150
    for _ in range(c.randint(3, 6)):
        s.paragraph(LEFT, RIGHT, s.prose(c.randint(2, 5)))


def references(s: Sheet) -> None:
    s.heading("References")
    for i in range(1, s.chance.randint(10, 20)):
        text = f"{s.chance.choice(_NAMES)} {s.chance.choice('ABCD')}. {s.sentence()} {s.chance.randint(1980, 2024)}."
        start = s.y
        s.put(LEFT, start + 1.25 * s.size, f"[{i}]", s.size)
        s.paragraph(LEFT + 24, RIGHT, text)
        s.y -= 0.4 * s.size
        if s.y > BOTTOM:
            break


def numbered(s: Sheet) -> None:
    _intro(s, 2)
    for i in range(1, s.chance.randint(6, 12)):
        s.put(LEFT + 10, s.y + 1.25 * s.size, f"{i}." if s.chance.random() < 0.9 else "•", s.size)
        s.paragraph(LEFT + 30, RIGHT, s.prose(s.chance.randint(1, 2)))


def definitions(s: Sheet) -> None:
    """Headings in the margin beside their text."""
    s.heading(s.label(1, 2))
    while s.y < BOTTOM - 90:
        s.put(LEFT, s.y + 1.25 * s.size, s.label(1, 2), s.size, s.bold)
        s.paragraph(LEFT + 140, RIGHT, s.prose(s.chance.randint(2, 5)))


def chart(s: Sheet) -> None:
    """A chart of lines or bars with figures at its axes."""
    _intro(s, 4)
    c = s.chance
    x0, y0, x1, y1 = 110.0, s.y + 20, 480.0, s.y + 240
    for i in range(6):
        y = y1 - (y1 - y0) * i / 5
        s.line(x0, y, x1, y, 0.3)
        s.put(x0 - 30, y + 3, str(20 * i), 8)
    bars = c.random() < 0.5
    last = None
    for i in range(8):
        x = x0 + 20 + (x1 - x0 - 40) * i / 7
        top = y1 - c.uniform(10, y1 - y0 - 10)
        if bars:
            s.page.draw_rect((x - 9, top, x + 9, y1), color=None, fill=(0.3, 0.4, 0.7))
            s.put(x - 8, top - 3, str(c.randint(10, 99)), 8)
        elif last:
            s.line(*last, x, top, 1.2)
        last = (x, top)
        s.put(x - 10, y1 + 12, str(2012 + i), 8)
    s.y = y1 + 30
    s.paragraph(LEFT, RIGHT, s.prose(5))


def framed(s: Sheet) -> None:
    """Prose with boxes beside and in it."""
    _intro(s, 4)
    for _ in range(2):
        top = s.y + 6
        s.y += 10
        s.paragraph(LEFT + 8, RIGHT - 8, s.prose(4))
        s.page.draw_rect((LEFT, top, RIGHT, s.y + 2), color=(0, 0, 0), width=0.6)
        s.y += 16
        s.paragraph(LEFT, RIGHT, s.prose(4))


LAYOUTS: dict[str, Callable[[Sheet], None]] = {
    function.__name__: function
    for function in (
        *(
            figures,
            words,
            ruled_words,
            wrapped_words,
            statement,
            in_a_column,
            two_tables,
            invoice,
            many_columns,
        ),
        *(columns_of_prose, contents, code, letter, references, numbered, definitions, chart, framed),
    )
}
