"""Makes the sample documents, the same ones every time: `python samples/make.py [--out samples]`.

Tests and benches import `make_text_pdf`, which writes thousands of realistic pages in seconds.
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pymupdf
from PIL import Image, ImageDraw, ImageFilter

A4 = (595.0, 842.0)
MARGIN = 62.0
BODY, BODY_BOLD, SANS, SANS_BOLD, ITALIC = "F1", "F2", "F3", "F4", "F5"
FONTS = {
    BODY: ("Times-Roman", "tiro"),
    BODY_BOLD: ("Times-Bold", "tibo"),
    SANS: ("Helvetica", "helv"),
    SANS_BOLD: ("Helvetica-Bold", "hebo"),
    ITALIC: ("Times-Italic", "tiit"),
}
FONT = "/Type/Font/Subtype/Type1/Encoding/WinAnsiEncoding"
PASSWORD = "quire"
HANDBOOK = "Handbook of the Tide and Harbour Office"

# --- Prose: sentences of our own, put together by chance ---

OPENINGS = [
    "",
    "",
    "",
    "As a rule, ",
    "In practice, ",
    "On calm days ",
    "After a storm, ",
    "Since the last survey, ",
]
ACTORS = [
    *("the harbour office", "the night watch", "every station", "the pilot on duty", "the survey team"),
    *(
        "the ferry crew",
        "the keeper of the gauge",
        "the dock foreman",
        "the records clerk",
        "each new observer",
    ),
]
ACTIONS = [
    "writes the height of the tide into the station log",
    "compares the float gauge with the painted staff",
    "checks the mooring lines before the evening ebb",
    "sends a short report to the main office",
    "measures the depth of the channel from the small launch",
    "keeps the lamps of the inner harbour burning",
    "notes wind, pressure and the colour of the water",
    "marks every vessel that is longer than the quay allows",
    "draws a fresh copy of the sounding chart",
    "tests the warning bell at the end of the pier",
    "counts the crates and signs for the damaged ones",
    "asks a second person to confirm an unusual reading",
]
TIMES = [
    *(
        "twice a day",
        "at every high water",
        "before the first ferry leaves",
        "on the first Monday of the month",
    ),
    *(
        "whenever the wind turns north",
        "within an hour of sunset",
        "as soon as the fog lifts",
        "without being told",
    ),
]
REASONS = [
    "because a single missing figure spoils the average of a whole month",
    "so that the next shift can pick up the work without questions",
    "although the older gauges still differ by a hand's breadth",
    "and the result is displayed on the board beside the door",
    "since nobody remembers last winter's levels with any certainty",
    "which costs little time and has prevented more than one accident",
    "while the original sheet stays in the archive",
]
REMARKS = [
    "The lowest level of the year was {a} centimetres, measured in {month}.",
    "Of {a} readings taken in {month}, only {b} had to be repeated.",
    "A difference of up to {b} millimetres is normal and needs no explanation.",
    "The channel was dredged to {b} metres in 19{c} and has been kept there ever since.",
    "In {month}, {a} vessels entered the harbour, {b} of them at night.",
    "Nothing in this section applies to boats shorter than {b} metres.",
]
MONTHS = ["January", "February", "March", "April", "May", "June", "August", "October", "November"]
TOPICS = [
    *(
        "Reading the gauge",
        "Mooring in strong wind",
        "Night signals",
        "Soundings and charts",
        "The ferry timetable",
    ),
    *(
        "Reports and records",
        "Care of instruments",
        "Arrivals and departures",
        "Fog and ice",
        "Work on the quay",
    ),
    *(
        "Duties of the watch",
        "Storm preparation",
        "Cargo and crates",
        "Training of observers",
        "Lamps and bells",
    ),
]
ITEMS = [
    *("a spare float and two metres of chain", "the log of the previous month", "oil for the lamps"),
    *("one sounding line with fresh marks", "a list of the vessels expected", "dry gloves and a whistle"),
    *("the key to the instrument room", "chalk, pencil and a clean board", "the table of corrections"),
]
PLACES = ["North Pier", "Old Quay", "Ferry Steps", "Outer Mole", "Mill Creek", "East Lock", "Long Sands"]


BREAKS = {
    head + tail: head
    for head, tail in [
        *(("acci", "dent"), ("al", "though"), ("ar", "chive"), ("centi", "metres"), ("cer", "tainty")),
        *(("chan", "nel"), ("com", "pares"), ("con", "firm"), ("differ", "ence"), ("dis", "played")),
        *(("eve", "ning"), ("har", "bour"), ("mea", "sured"), ("mea", "sures"), ("milli", "metres")),
        *(("moor", "ing"), ("observ", "er"), ("orig", "inal"), ("pres", "sure"), ("pre", "vented")),
        *(("ques", "tions"), ("remem", "bers"), ("sound", "ing"), ("sta", "tion"), ("when", "ever")),
    ]
}


def remark(chance: random.Random) -> str:
    numbers = {"a": chance.randint(31, 480), "b": chance.randint(3, 29), "c": chance.randint(10, 99)}
    return chance.choice(REMARKS).format(month=chance.choice(MONTHS), **numbers)


def sentences(chance: random.Random, count: int) -> list[str]:
    """Sentences about different people doing different things, one of them perhaps about figures."""
    said = []
    for actor, action, time in zip(
        chance.sample(ACTORS, count), chance.sample(ACTIONS, count), chance.sample(TIMES, count), strict=True
    ):
        one = f"{chance.choice(OPENINGS)}{actor} {action} {time}"
        if chance.random() < 0.45:
            one += f", {chance.choice(REASONS)}"
        said.append(f"{one[0].upper()}{one[1:]}.")
    if chance.random() < 0.7:
        said[chance.randrange(count)] = remark(chance)
    return said


def paragraph(chance: random.Random, count: int = 0) -> str:
    return " ".join(sentences(chance, count or chance.randint(3, 6)))


def level_rows(chance: random.Random, rows: int) -> list[list[str]]:
    places = chance.sample(PLACES, rows)
    levels = [(chance.uniform(3.1, 5.9), chance.uniform(0.2, 1.6)) for _ in places]
    return [[place, f"{high:.2f}", f"{low:.2f}"] for place, (high, low) in zip(places, levels, strict=True)]


# --- Drawing: content streams written directly, which makes 10,000 pages quick ---


@functools.cache
def width_of(text: str, font: str, size: float) -> float:
    return float(pymupdf.get_text_length(text, fontname=FONTS[font][1], fontsize=size))


def wrapped(text: str, font: str, size: float, width: float, *, hyphens: bool = False) -> list[str]:
    """The text in lines no wider than `width`, long words broken with a hyphen if so wanted."""
    lines: list[str] = []
    line, used, space = "", 0.0, width_of(" ", font, size)
    for word in text.split():
        wide = width_of(word, font, size)
        if line and used + space + wide > width:
            head = BREAKS.get(word, "") if hyphens else ""
            if head and used + space + width_of(f"{head}-", font, size) <= width:
                lines.append(f"{line} {head}-")
                word = word[len(head) :]  # noqa: PLW2901 - the rest goes on with the next line
                wide = width_of(word, font, size)
            else:
                lines.append(line)
            line, used = word, wide
        else:
            line, used = (f"{line} {word}", used + space + wide) if line else (word, wide)
    return [*lines, line] if line else lines


class Sheet:
    """One page being drawn from the top down. `y` is the distance of the next line from the top."""

    def __init__(self, size: tuple[float, float] = A4, left: float = MARGIN, width: float = 0.0) -> None:
        self.size, self.left, self.y = size, left, MARGIN + 20.0
        self.width = width or size[0] - 2 * left
        self.parts: list[bytes] = []

    @property
    def room(self) -> float:
        return self.size[1] - MARGIN - self.y

    def text(
        self, x: float, y: float, text: str, font: str = BODY, size: float = 10.5, gray: float = 0
    ) -> None:
        raw = text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        place = f"BT {gray:g} g /{font} {size:g} Tf {x:.2f} {self.size[1] - y:.2f} Td (".encode()
        self.parts.append(place + raw + b") Tj ET")

    def line(
        self, x0: float, y0: float, x1: float, y1: float, width: float = 0.7, color: str = "0 0 0"
    ) -> None:
        height = self.size[1]
        self.parts.append(
            f"{color} RG {width:g} w {x0:.2f} {height - y0:.2f} m {x1:.2f} {height - y1:.2f} l S".encode()
        )

    def box(self, x: float, y: float, width: float, height: float, color: str) -> None:
        self.parts.append(
            f"{color} rg {x:.2f} {self.size[1] - y - height:.2f} {width:.2f} {height:.2f} re f".encode()
        )

    def heading(self, text: str, size: float = 15) -> None:
        self.y += size * 0.9 + (9 if self.parts else 0)
        self.text(self.left, self.y, text, SANS_BOLD, size)
        self.y += size * 0.2 + 3

    def lines(self, lines: Sequence[str], font: str = BODY, size: float = 10.5, indent: float = 0) -> None:
        for line in lines:
            self.y += size * 1.28
            self.text(self.left + indent, self.y, line, font, size)

    def prose(self, text: str, font: str = BODY, size: float = 10.5, *, hyphens: bool = False) -> None:
        self.lines(wrapped(text, font, size, self.width, hyphens=hyphens), font, size)
        self.y += size * 0.6

    def bullets(self, items: Sequence[str], *, numbered: bool = False) -> None:
        for number, item in enumerate(items, 1):
            first = self.y + 10.5 * 1.28
            self.text(self.left + 8, first, f"{number}." if numbered else "\u2022")
            self.lines(wrapped(item, BODY, 10.5, self.width - 24), indent=24)
        self.y += 7

    def table(self, rows: Sequence[Sequence[str]], widths: Sequence[float], *, ruled: bool = True) -> None:
        step, top = 17.0, self.y + 4
        for number, row in enumerate(rows):
            x, baseline = self.left, top + step * number + 12
            for cell, width in zip(row, widths, strict=True):
                self.text(x + 4, baseline, cell, SANS_BOLD if number == 0 else SANS, 9)
                x += width
        bottom, right = top + step * len(rows), self.left + sum(widths)
        if ruled:
            for number in range(len(rows) + 1):
                self.line(self.left, top + step * number, right, top + step * number)
            for stop in range(len(widths) + 1):
                x = self.left + sum(widths[:stop])
                self.line(x, top, x, bottom)
        self.y = bottom + 12

    def running(self, header: str, number: int, total: int) -> None:
        """The header and the footer that come back on every page."""
        self.text(MARGIN, 44, header, SANS, 8, 0.35)
        self.line(MARGIN, 49, self.size[0] - MARGIN, 49, 0.4, "0.6 0.6 0.6")
        self.text(self.size[0] / 2 - 24, self.size[1] - 34, f"Page {number} of {total}", SANS, 8, 0.35)


def _kids(xrefs: Sequence[int]) -> str:
    return "/Kids[" + " ".join(f"{xref} 0 R" for xref in xrefs) + "]"


class Book:
    """A PDF being put together from sheets and pictures."""

    def __init__(self) -> None:
        self.pdf = pymupdf.open()
        fonts = [(name, self._object(f"<<{FONT}/BaseFont/{FONTS[name][0]}>>")) for name in FONTS]
        self.fonts = "<</Font<<" + "".join(f"/{name} {xref} 0 R" for name, xref in fonts) + ">>>>"

    def _object(self, source: str) -> int:
        xref = int(self.pdf.get_new_xref())
        self.pdf.update_object(xref, source)
        return xref

    def _contents(self, sheet: Sheet) -> int:
        xref = self._object("<<>>")
        self.pdf.update_stream(xref, b"\n".join(sheet.parts) or b" ", new=True)
        return xref

    def add(self, sheet: Sheet) -> pymupdf.Page:
        page = self.pdf.new_page(width=sheet.size[0], height=sheet.size[1])
        self.pdf.xref_set_key(page.xref, "Resources", self.fonts)
        self.pdf.xref_set_key(page.xref, "Contents", f"{self._contents(sheet)} 0 R")
        return page

    def fill(self, sheets: Iterable[Sheet]) -> None:
        """Makes these all the pages. `add` looks through all earlier pages, which 10,000 of them can't afford."""
        top = int(self.pdf.xref_get_key(self.pdf.pdf_catalog(), "Pages")[1].split()[0])
        branches, total, rest = [], 0, iter(sheets)
        while group := list(itertools.islice(rest, 64)):
            branch = self._object("<<>>")
            leaves = [
                self._object(
                    f"<</Type/Page/Parent {branch} 0 R/MediaBox[0 0 {sheet.size[0]:g} {sheet.size[1]:g}]"
                    f"/Resources {self.fonts}/Contents {self._contents(sheet)} 0 R>>"
                )
                for sheet in group
            ]
            self.pdf.update_object(
                branch, f"<</Type/Pages/Parent {top} 0 R{_kids(leaves)}/Count {len(leaves)}>>"
            )
            branches.append(branch)
            total += len(leaves)
        self.pdf.update_object(top, f"<</Type/Pages{_kids(branches)}/Count {total}>>")

    def add_picture(self, picture: Image.Image, quality: int = 45) -> None:
        page = self.pdf.new_page(width=A4[0], height=A4[1])
        page.insert_image(page.rect, stream=jpeg(picture, quality), keep_proportion=False)

    def save(self, path: Path, title: str = "", **options: int | str) -> None:
        self.pdf.set_metadata(
            {"title": title, "author": "Tide and Harbour Office", "producer": "samples/make.py"}
        )
        self.pdf.save(path, deflate=True, no_new_id=True, **options)
        self.pdf.close()


def make_text_pdf(path: Path, pages: int, seed: int = 1) -> None:
    """Writes a PDF of running text, about 3 kB a page, with headings, lists and a table now and then."""
    book = Book()
    book.fill(handbook_sheets(pages, random.Random(seed)))
    book.save(path, HANDBOOK)


def handbook_sheets(pages: int, chance: random.Random) -> Iterator[Sheet]:
    for number in range(1, pages + 1):
        sheet = Sheet()
        sheet.running(HANDBOOK, number, pages)
        if number % 12 == 1:
            sheet.heading(f"Chapter {number // 12 + 1}: {chance.choice(TOPICS)}", 20)
            sheet.prose(paragraph(chance, 2), ITALIC)
        sheet.heading(chance.choice(TOPICS))
        if number % 4 == 0:
            sheet.prose(paragraph(chance))
            sheet.table(
                [["Station", "High water, m", "Low water, m"], *level_rows(chance, 4)], [150, 110, 110]
            )
        if number % 2 == 0:
            sheet.prose(f"{paragraph(chance, 2)} The following must be at hand:")
            sheet.bullets(chance.sample(ITEMS, chance.randint(3, 5)), numbered=number % 4 == 0)
        filled = 0
        while sheet.room > 190:
            filled += 1
            if filled == 3:
                sheet.heading(chance.choice(TOPICS), 12)
            sheet.prose(paragraph(chance))
        yield sheet


# --- Pictures ---


def jpeg(picture: Image.Image, quality: int) -> bytes:
    held = io.BytesIO()
    picture.save(held, "JPEG", quality=quality, optimize=True)
    return held.getvalue()


def drawn(sheet: Sheet, dpi: int) -> Image.Image:
    """The sheet as a grey picture."""
    book = Book()
    pixels = book.add(sheet).get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def noisy(picture: Image.Image, chance: random.Random, strength: float) -> Image.Image:
    grain = Image.frombytes("L", picture.size, chance.randbytes(picture.width * picture.height))
    return Image.blend(picture, grain.filter(ImageFilter.GaussianBlur(0.8)), strength)


def scanned(sheet: Sheet, chance: random.Random, dpi: int = 130) -> Image.Image:
    """The sheet as a flatbed scanner sees it: a little askew, a little soft, a little dirty."""
    picture = drawn(sheet, dpi).filter(ImageFilter.GaussianBlur(0.5))
    picture = picture.rotate(chance.choice([-0.8, 0.7, 1.1]), Image.Resampling.BICUBIC, fillcolor=255)
    pen = ImageDraw.Draw(picture)
    for _ in range(60):
        x, y = chance.randrange(picture.width), chance.randrange(picture.height)
        pen.ellipse((x, y, x + chance.choice([1, 1, 2]), y + 1), fill=chance.randint(90, 180))
    return noisy(picture, chance, 0.07)


def landscape(width: int, height: int) -> Image.Image:
    """A picture that compresses and looks like a photo: evening sky, hills, water."""
    picture = Image.new("RGB", (width, height))
    pen, horizon = ImageDraw.Draw(picture), int(height * 0.62)
    for y in range(height):
        t = min(y / horizon, 1.0)
        sky = (int(60 + 190 * t), int(90 + 90 * t), int(150 - 40 * t))
        deep = (y - horizon) / max(height - horizon, 1)
        water = (int(150 - 110 * deep), int(120 - 60 * deep), int(120 - 30 * deep))
        pen.line((0, y, width, y), fill=sky if y < horizon else water)
    sun_x, sun_y, radius = width * 0.68, horizon - height * 0.1, height * 0.06
    pen.ellipse((sun_x - radius, sun_y - radius, sun_x + radius, sun_y + radius), fill=(255, 236, 190))
    for layer, tone in enumerate([(120, 96, 110), (82, 70, 92), (46, 44, 62)]):
        crest = [
            horizon
            - height
            * (0.14 - 0.045 * layer)
            * (
                1
                + math.sin(x / width * (5 + 3 * layer) + layer) * 0.5
                + math.sin(x / width * 23 + layer) * 0.12
            )
            for x in range(width)
        ]
        for x, y in enumerate(crest):
            pen.line((x, y, x, horizon), fill=tone)
    for step in range(40):
        y = horizon + 3 + step * (height - horizon) // 40
        reach = 14 + step * 1.6
        wobble = math.sin(step * 1.7) * 9
        pen.line((sun_x - reach + wobble, y, sun_x + reach + wobble, y), fill=(235, 190, 150), width=1)
    return picture.filter(ImageFilter.GaussianBlur(0.7))


def bar_chart(sheet: Sheet, title: str, values: Sequence[tuple[str, float]]) -> None:
    height, left, width = 170.0, sheet.left + 34, sheet.width - 60
    sheet.y += 16
    sheet.text(left, sheet.y, title, SANS_BOLD, 10)
    top = sheet.y + 12
    most = math.ceil(max(value for _, value in values) / 40) * 40
    for mark in range(5):
        y = top + height * (1 - mark / 4)
        sheet.line(left, y, left + width, y, 0.3, "0.8 0.8 0.8")
        sheet.text(left - 30, y + 3, f"{most * mark / 4:.0f}", SANS, 8)
    step = width / len(values)
    for number, (label, value) in enumerate(values):
        tall = height * value / most
        sheet.box(left + step * number + step * 0.2, top + height - tall, step * 0.6, tall, "0.20 0.42 0.62")
        sheet.text(left + step * number + step * 0.2, top + height + 12, label, SANS, 8)
    sheet.line(left, top + height, left + width, top + height, 0.9)
    sheet.y = top + height + 22


def line_chart(sheet: Sheet, title: str) -> None:
    height, left, width = 130.0, sheet.left + 34, sheet.width - 60
    sheet.y += 16
    sheet.text(left, sheet.y, title, SANS_BOLD, 10)
    top = sheet.y + 12
    for mark in range(4):
        sheet.line(left, top + height * mark / 3, left + width, top + height * mark / 3, 0.3, "0.8 0.8 0.8")
        sheet.text(left - 30, top + height * mark / 3 + 3, f"{6 - 2 * mark} m", SANS, 8)
    points = [
        (left + width * n / 96, top + height * (0.5 - 0.42 * math.sin(n / 96 * 4 * math.pi)))
        for n in range(97)
    ]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        sheet.line(x0, y0, x1, y1, 1.4, "0.75 0.30 0.15")
    for hour in range(0, 25, 6):
        sheet.text(left + width * hour / 24 - 8, top + height + 12, f"{hour:02d}:00", SANS, 8)
    sheet.y = top + height + 22


# --- The samples ---


def text_sheets(chance: random.Random) -> Iterator[Sheet]:
    for number, topic in enumerate(["Reading the gauge", "Duties of the watch", "Reports and records"], 1):
        sheet = Sheet()
        sheet.running(HANDBOOK, number, 3)
        if number == 1:
            sheet.heading("The Tide and Harbour Office", 22)
            sheet.prose("What a new observer should know in the first week.", ITALIC, 12)
        sheet.heading(f"{number}. {topic}", 16)
        sheet.prose(paragraph(chance, 5))
        sheet.heading(f"{number}.1 What to bring", 12.5)
        sheet.bullets(chance.sample(ITEMS, 4))
        sheet.prose(paragraph(chance, 4))
        sheet.heading(f"{number}.2 Step by step", 12.5)
        sheet.bullets(sentences(chance, 4), numbered=True)
        sheet.prose(paragraph(chance, 5))
        yield sheet


def make_text(out: Path) -> None:
    book = Book()
    for sheet in text_sheets(random.Random(11)):
        book.add(sheet)
    book.save(out / "text.pdf", "The Tide and Harbour Office")


def make_two_columns(out: Path) -> None:
    chance, book, gap = random.Random(12), Book(), 22.0
    column = (A4[0] - 2 * MARGIN - gap) / 2
    for number in (1, 2):
        whole = Sheet()
        whole.running("Notes on Tides, Volume 4", number, 2)
        if number == 1:
            whole.heading("A year of levels at seven stations", 19)
            whole.prose("From the records of the Tide and Harbour Office", ITALIC, 11)
        top = whole.y
        for left in (MARGIN, MARGIN + column + gap):
            side = Sheet(left=left, width=column)
            side.y = top
            side.heading(chance.choice(TOPICS), 12)
            text = paragraph(chance, 4)
            while len(wrapped(text, BODY, 9.5, column)) * 9.5 * 1.28 < side.room:
                side.prose(text, size=9.5, hyphens=True)
                text = paragraph(chance, 4)
            whole.parts += side.parts
        book.add(whole)
    book.save(out / "two-columns.pdf", "A year of levels at seven stations")


def merged_table(sheet: Sheet) -> None:
    """A ruled table whose heading spans two columns and whose first cell spans two rows."""
    top, left, step = sheet.y + 4, sheet.left, 18.0
    stops = [0, 120, 200, 280, 360]
    rows = [
        ["North Pier", "4.31", "0.52", "12"],
        ["Old Quay", "4.12", "0.61", "9"],
        ["East Lock", "3.95", "0.70", "4"],
    ]
    for number in range(6):
        start = stops[1] if number == 1 else stops[0]
        end = stops[3] if number == 1 else stops[4]
        sheet.line(left + start, top + step * number, left + end, top + step * number)
    for stop in stops:
        sheet.line(left + stop, top + (step if stop == stops[2] else 0), left + stop, top + step * 5)
    for x, y, label in [(0, 1.2, "Station"), (120, 0.7, "Water level, m"), (280, 1.2, "Vessels")]:
        sheet.text(left + x + 4, top + step * y, label, SANS_BOLD, 9)
    for x, label in [(120, "high"), (200, "low")]:
        sheet.text(left + x + 4, top + step * 1.7, label, SANS_BOLD, 9)
    for number, row in enumerate(rows, 2):
        for stop, cell in zip(stops, row, strict=False):
            sheet.text(left + stop + 4, top + step * (number + 0.7), cell, SANS, 9)
    sheet.y = top + step * 5 + 14


def table_sheet(chance: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.heading("Water levels of the year", 18)
    sheet.prose(paragraph(chance, 2))
    sheet.heading("Table 1: ruled", 12)
    sheet.table([["Station", "High water, m", "Low water, m"], *level_rows(chance, 6)], [150, 110, 110])
    sheet.heading("Table 2: merged cells", 12)
    merged_table(sheet)
    sheet.heading("Table 3: no lines", 12)
    rows = [[month, str(chance.randint(30, 90)), f"{chance.uniform(2, 19):.1f} °C"] for month in MONTHS[:6]]
    sheet.table([["Month", "Arrivals", "Mean water temperature"], *rows], [150, 110, 150], ruled=False)
    sheet.prose(paragraph(chance, 3))
    return sheet


def make_tables(out: Path) -> None:
    book = Book()
    book.add(table_sheet(random.Random(13)))
    book.save(out / "tables.pdf", "Water levels of the year")


def chart_sheet(chance: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.heading("Traffic and tides", 18)
    sheet.prose(paragraph(chance, 3))
    bar_chart(sheet, "Vessels by month", [(month[:3], chance.randint(40, 180)) for month in MONTHS])
    sheet.prose("Figure 1. Vessels that entered the harbour, by month.", ITALIC, 9.5)
    line_chart(sheet, "Level at the North Pier, one day")
    sheet.prose("Figure 2. Two high waters and two low waters within a day.", ITALIC, 9.5)
    sheet.prose(paragraph(chance, 3))
    return sheet


def make_pictures(out: Path) -> None:
    chance, book = random.Random(14), Book()
    book.add(chart_sheet(chance))
    sheet = Sheet()
    sheet.heading("The outer mole at dusk", 18)
    sheet.prose(paragraph(chance, 3))
    top, height = sheet.y + 8, 290.0
    sheet.y = top + height + 6
    sheet.prose("Figure 3. The bay seen from the outer mole, looking west.", ITALIC, 9.5)
    sheet.prose(paragraph(chance, 4))
    page = book.add(sheet)
    frame = pymupdf.Rect(MARGIN, top, A4[0] - MARGIN, top + height)
    page.insert_image(frame, stream=jpeg(landscape(940, 580), 72))
    book.save(out / "pictures.pdf", "Traffic and tides")


def scan_sheet(chance: random.Random, title: str) -> Sheet:
    sheet = Sheet()
    sheet.heading(title, 18)
    sheet.prose(paragraph(chance, 5), size=12)
    sheet.bullets(chance.sample(ITEMS, 3))
    sheet.prose(paragraph(chance, 6), size=12)
    return sheet


def make_scan(out: Path) -> None:
    chance, book = random.Random(15), Book()
    for title in ("Letter to all stations", "Answer of the survey team"):
        book.add_picture(scanned(scan_sheet(chance, title), chance))
    book.save(out / "scan.pdf", "Letter to all stations")


def make_encrypted(out: Path) -> None:
    """Encryption draws a random salt, so a file that already holds the right text is left as it is."""
    target, book = out / "encrypted.pdf", Book()
    page = book.add(next(text_sheets(random.Random(16))))
    if target.exists():
        with pymupdf.open(target) as there:
            if there.authenticate(PASSWORD) and there[0].get_text() == page.get_text():
                return
    book.save(
        target,
        "Confidential",
        encryption=pymupdf.PDF_ENCRYPT_AES_256,
        user_pw=PASSWORD,
        owner_pw=f"{PASSWORD}-owner",
    )


def make_mixed(out: Path) -> None:
    chance, book = random.Random(17), Book()
    sheets = list(text_sheets(chance))
    book.add(sheets[0])
    book.add_picture(scanned(scan_sheet(chance, "Enclosed letter"), chance))
    book.add(chart_sheet(chance))
    book.add(table_sheet(chance))
    book.add(sheets[2])
    book.save(out / "mixed.pdf", "Report with enclosures")


def make_odd(out: Path) -> None:
    turned = Book()
    for turn, sheet in zip((90, 180, 270), text_sheets(random.Random(18)), strict=True):
        turned.add(sheet).set_rotation(turn)
    turned.save(out / "odd-rotated.pdf", "Turned pages")

    sparse, sheets = Book(), list(text_sheets(random.Random(19)))
    white, spaces = Sheet(), Sheet()
    white.box(50, 50, 400, 600, "1 1 1")
    spaces.text(80, 100, "   ")
    for sheet in (sheets[0], Sheet(), white, spaces, sheets[1]):
        sparse.add(sheet)
    sparse.save(out / "odd-empty-pages.pdf", "Pages without text")

    broken = Book()
    for sheet in text_sheets(random.Random(20)):
        broken.add(sheet)
    held = out / "odd-damaged.pdf"
    broken.save(held, "Cut off")
    held.write_bytes(held.read_bytes()[: int(held.stat().st_size * 0.62)])

    poster = Book()
    huge = Sheet(size=(14_400.0, 14_400.0))
    huge.text(600, 2_000, "TIDE TABLE OF THE YEAR", SANS_BOLD, 900)
    huge.text(600, 3_200, "Please return this poster to the harbour office.", SANS, 400)
    poster.add(huge)
    poster.add(sheets[2])
    poster.save(out / "odd-huge-page.pdf", "Poster")

    active = Book()
    active.add(sheets[0])
    script = "<</Type/Action/S/JavaScript/JS(app.alert\\('This document runs a script.'\\);)>>"
    active.pdf.xref_set_key(active.pdf.pdf_catalog(), "OpenAction", script)
    active.save(out / "odd-javascript.pdf", "With a script")


def make_photo(out: Path) -> None:
    """A sheet of paper photographed on a dark desk, from the side and in uneven light."""
    chance = random.Random(21)
    sheet = Sheet(size=(400, 520), left=40)
    sheet.y = 30
    sheet.heading("Notice", 24)
    sheet.prose(
        "The ferry to Long Sands will not run on Thursday. Please use the landing at Mill Creek.", SANS, 15
    )
    sheet.heading("Hours on other days", 15)
    sheet.table(
        [["Day", "First", "Last"], ["Weekdays", "06:40", "21:10"], ["Sunday", "08:00", "19:30"]],
        [110, 80, 80],
    )
    sheet.prose("Lost property is kept at the harbour office for ninety days.", SANS, 13)
    paper = drawn(sheet, 120)
    width, height = 760, 980
    wide, tall = paper.size
    # Where each corner of the picture lies on the paper; outside of it is the desk.
    corners = (-70, -60, -110, tall + 70, wide + 80, tall + 95, wide + 60, -85)
    picture = paper.transform(
        (width, height), Image.Transform.QUAD, corners, Image.Resampling.BICUBIC, fillcolor=60
    )
    light = Image.radial_gradient("L").resize((width * 2, height * 2))
    light = light.crop((width // 3, height // 4, width // 3 + width, height // 4 + height))
    shade = Image.eval(light, lambda value: 255 - value // 2)
    lit = Image.composite(picture, Image.new("L", picture.size, 25), shade)
    noisy(lit, chance, 0.03).quantize(24).save(out / "photo-of-text.png", optimize=True)


def make_notes(out: Path) -> None:
    (out / "notes.md").write_text(
        "# Notes of the morning shift\n\n"
        "Wind from the north-west, **fresh**; the water is grey and _choppy_.\n\n"
        "## Done\n\n- gauge compared with the staff: difference 3 mm\n- lamps filled\n"
        "- two crates signed for as damaged\n\n"
        "## To do\n\n1. Ask the survey team for the new chart.\n2. Replace the chain of the float.\n\n"
        "| station | high water | low water |\n|---|---:|---:|\n"
        "| North Pier | 4.31 m | 0.52 m |\n| Old Quay | 4.12 m | 0.61 m |\n\n"
        "> Whoever finds the whistle: it belongs to the night watch.\n",
        "utf-8",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the sample documents.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for make in (
        make_text,
        make_two_columns,
        make_tables,
        make_pictures,
        make_scan,
        make_encrypted,
        make_mixed,
    ):
        make(out)
    make_odd(out)
    make_photo(out)
    make_notes(out)
    make_text_pdf(out / "long.pdf", 200, seed=7)


if __name__ == "__main__":
    main()
