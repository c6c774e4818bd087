"""Draws pages of known text in many layouts and spoils them as scanners and cameras do, for `bench/grades.py`.

The sentences come from the known texts of a corpus, the fonts from Debian's `fonts-dejavu` and `fonts-noto` and from
MuPDF. Layouts, conditions, fonts and sentences of a page follow from one seed; every tenth page or so of a layout is
hard on purpose (small type, narrow gutters, light text on dark ground, cut edges).
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pymupdf
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from tests.reading.ocr import scans, script_pages

DPI = 200
WIDTH, HEIGHT = 1654, 2339
FONTS = Path("/usr/share/fonts/truetype")
FILES = (
    *(
        f"dejavu/DejaVu{name}.ttf"
        for name in ("Sans", "Serif", "SansCondensed", "SerifCondensed", "SansMono")
    ),
    *(
        f"noto/Noto{name}.ttf"
        for name in (
            "Sans-Regular",
            "Serif-Regular",
            "SansDisplay-Regular",
            "SerifDisplay-Regular",
            "Serif-Italic",
        )
    ),
    *("tiro", "helv", "cour"),
)
"""A machine without Debian's fonts-noto draws other pages of a seed, in the fonts that it has."""
_SENTENCE = re.compile(r"[A-Z][a-z][^.!?|#*_<>\[\]\\`\n]{30,240}[.!?](?=\s)")


@dataclass(frozen=True, slots=True)
class DrawnScan:
    """A spoilt page; `text` is what is written on it, in reading order."""

    name: str
    picture: Image.Image
    text: str


@cache
def sentences(corpus: Path) -> tuple[str, ...]:
    """Sentences of the known texts of `mixed` and `office`."""
    found: set[str] = set()
    for file in sorted((*corpus.glob("mixed/markdown/*.md"), *corpus.glob("office/markdown/*.md"))):
        text = " ".join(file.read_text(errors="replace").split(" "))
        found |= {" ".join(one.split()) for one in _SENTENCE.findall(text) if one.isascii()}
    return tuple(sorted(one for one in found if sum(map(str.isalpha, one)) > 0.7 * len(one)))


def drawn_scan(corpus: Path, seed: int, number: int) -> DrawnScan:
    chance = random.Random(f"{seed} {number}")
    layout = tuple(LAYOUTS)[number % len(LAYOUTS)]
    condition = chance.choice(tuple(CONDITIONS))
    page = _Sheet(chance, sentences(corpus))
    LAYOUTS[layout](page)
    picture = CONDITIONS[condition](page.picture, chance.randrange(1 << 30))
    return DrawnScan(f"drawn/{seed}-{number} ({layout}, {condition})", picture, "\n".join(page.written))


class _Sheet:
    """A white page that remembers what is written on it."""

    def __init__(self, chance: random.Random, texts: tuple[str, ...]) -> None:
        self.chance, self._texts = chance, texts
        self.picture = Image.new("L", (WIDTH, HEIGHT), 255)
        self.pen = ImageDraw.Draw(self.picture)
        self.written: list[str] = []
        self._file = chance.choice([name for name in FILES if "/" not in name or (FONTS / name).exists()])
        self.size = chance.choice((8, 9, 10, 10, 11, 12))

    def font(self, size_pt: float) -> ImageFont.FreeTypeFont:
        px = round(size_pt * DPI / 72)
        if "/" in self._file:
            return ImageFont.truetype(str(FONTS / self._file), px)
        return ImageFont.truetype(io.BytesIO(pymupdf.Font(self._file).buffer), px)

    def words(self, least: int, most: int) -> str:
        words = self.chance.choice(self._texts).rstrip(".!?").split()
        return " ".join(words[: self.chance.randint(least, most)]).rstrip(",;:")

    def paragraph(self, least: int = 2, most: int = 6) -> str:
        return " ".join(self.chance.choice(self._texts) for _ in range(self.chance.randint(least, most)))

    def line(self, x: float, y: float, text: str, size: float, fill: int = 0) -> float:
        """Writes one line and returns where the next one begins."""
        self.pen.text((x, y), text, font=self.font(size), fill=fill)
        self.written.append(text)
        return y + size * DPI / 72 * 1.35

    def block(self, box: tuple[float, float, float, float], text: str, size: float, fill: int = 0) -> float:
        """Writes a text that is wrapped at the width of the box and cut at its foot; returns the next place."""
        left, y, right, bottom = box
        font, step = self.font(size), size * DPI / 72 * 1.35
        words = text.split()
        while words and y + step <= bottom:
            count = 1
            while count < len(words) and font.getlength(" ".join(words[: count + 1])) <= right - left:
                count += 1
            y = self.line(left, y, " ".join(words[:count]), size, fill)
            words = words[count:]
        return y

    def fill(self, box: tuple[float, float, float, float], size: float) -> float:
        """Fills a box with paragraphs."""
        left, y, right, bottom = box
        step = size * DPI / 72
        while y < bottom - 3 * step:
            y = self.block((left, y, right, bottom), self.paragraph(), size) + step * 0.7
        return y

    def table(self, box: tuple[float, float, float, float], columns: int, rows: int, *, ruled: bool) -> float:
        left, top, right, _ = box
        size = self.chance.choice((8, 9, 10))
        step, width = size * DPI / 72 * self.chance.uniform(1.5, 2.2), (right - left) / (columns + 1)
        has_gaps = self.chance.random() < 0.4
        for row in range(rows):
            cells: list[str] = []
            for column in range(columns):
                x = left + (0 if not column else (column + 1) * width)
                text = self._cell(row, column, width * (2 if not column else 1), size)
                if has_gaps and row and column and self.chance.random() < 0.25:
                    text = ""
                self.pen.text((x + 8, top + row * step + 4), text, font=self.font(size), fill=0)
                cells.append(text)
            self.written.append(" ".join(filter(None, cells)))
        if ruled:
            for row in range(rows + 1):
                self.pen.line((left, top + row * step, right, top + row * step), fill=0, width=2)
            for column in (0, *range(2, columns + 2)):
                x = left + column * width
                self.pen.line((x, top, x, top + rows * step), fill=0, width=2)
        return top + rows * step + 30

    def _cell(self, row: int, column: int, width: float, size: float) -> str:
        chance = self.chance
        if not row or not column:
            text = self.words(1, 3)
        else:
            text = chance.choice(
                (
                    f"{chance.uniform(1, 99999):,.2f}",
                    str(chance.randint(0, 99)),
                    f"{chance.uniform(0, 100):.1f}%",
                )
            )
        while self.font(size).getlength(text) > width - 16 and len(text) > 1:
            text = text.rsplit(" ", 1)[0] if " " in text else text[:-1]
        return text


def _prose(page: _Sheet) -> None:
    y = page.line(180, 150, page.words(3, 7), page.size * 1.7)
    page.fill((180, y + 30, 1480, page.chance.choice((1400, 2180))), page.size)


def _columns(page: _Sheet) -> None:
    count = page.chance.choice((2, 2, 3))
    gap = page.chance.choice((30, 45, 60, 80))
    y = page.line(120, 120, page.words(3, 6), page.size * 1.7) + 30
    width = (1414 - gap * (count - 1)) / count
    for place in range(count):
        left = 120 + place * (width + gap)
        page.fill((left, y, left + width, page.chance.choice((1900, 2200))), min(page.size, 10))


def _table(page: _Sheet) -> None:
    y = page.line(150, 150, page.words(3, 6), page.size * 1.4) + 20
    y = page.block((150, y, 1500, 700), page.paragraph(1, 3), page.size) + 30
    count = page.chance.randint(3, 6)
    y = page.table((150, y, 1500, 0), count, page.chance.randint(5, 18), ruled=page.chance.random() < 0.5)
    page.fill((150, y + 20, 1500, 2150), page.size)


def _form(page: _Sheet) -> None:
    y = page.line(150, 150, page.words(2, 5), page.size * 1.6) + 30
    for _ in range(page.chance.randint(10, 20)):
        label = page.words(1, 3) + ":"
        value = page.chance.choice((page.words(1, 4), str(page.chance.randint(100, 99999)), ""))
        if page.chance.random() < 0.5:
            page.pen.rectangle((560, y - 6, 1480, y + page.size * 3.6), outline=0, width=2)
        else:
            page.pen.line((560, y + page.size * 3.6, 1480, y + page.size * 3.6), fill=0, width=2)
        page.pen.text((150, y), label, font=page.font(page.size), fill=0)
        page.pen.text((575, y), value, font=page.font(page.size), fill=0)
        page.written.append(f"{label} {value}")
        y += page.size * 6.5
    page.block((150, y + 20, 1480, 2200), page.paragraph(1, 3), max(7, page.size - 2))


def _invoice(page: _Sheet) -> None:
    chance = page.chance
    y = 140.0
    for _ in range(4):
        y = page.line(150, y, page.words(2, 4), page.size)
    y = 140.0
    for label in ("Invoice", "Date", "Customer", "Due"):
        y = page.line(1000, y, f"{label}: {chance.randint(1000, 99999)}", page.size)
    y = page.block((150, y + 120, 1500, 800), page.paragraph(1, 2), page.size) + 30
    y = page.table((150, y, 1500, 0), 4, chance.randint(4, 12), ruled=chance.random() < 0.6)
    for label in ("Net", "VAT", "Total"):
        y = page.line(1000, y, f"{label}   {chance.uniform(1, 9999):,.2f}", page.size)
    page.block((150, 2100, 1500, 2250), page.paragraph(1, 2), 7)


def _lists(page: _Sheet) -> None:
    y = page.line(170, 150, page.words(3, 6), page.size * 1.5) + 20
    while y < 2000:
        y = page.line(170, y, page.words(2, 5), page.size * 1.2) + 10
        marks = page.chance.choice(
            (("•",) * 5, ("1.", "2.", "3.", "4.", "5."), ("a)", "b)", "c)", "d)", "e)"))
        )
        for mark in marks[: page.chance.randint(2, 5)]:
            page.pen.text((200, y), mark, font=page.font(page.size), fill=0)
            y = page.block((260, y, 1480, 2180), page.chance.choice(page._texts), page.size) + 8
        y += 30


def _figure(page: _Sheet) -> None:
    y = page.fill((170, 150, 1480, 800), page.size) + 30
    dice = np.random.default_rng(page.chance.randrange(1 << 30))
    if page.chance.random() < 0.5:
        shades = Image.fromarray(dice.integers(20, 230, (12, 16), dtype=np.uint8))
        page.picture.paste(shades.resize((1000, 600), Image.Resampling.BICUBIC), (300, round(y)))
    else:
        heights = dice.integers(50, 560, 9)
        for place, height in enumerate(heights.tolist()):
            page.pen.rectangle((330 + place * 100, y + 600 - height, 390 + place * 100, y + 600), fill=120)
        page.pen.line((300, y + 600, 1300, y + 600), fill=0, width=3)
    y = page.line(300, y + 620, "Figure 1: " + page.words(4, 8), page.size - 1)
    page.fill((170, y + 40, 1480, 2180), page.size)


def _notes(page: _Sheet) -> None:
    """Text with a box beside it, a head in small type, and notes at the foot."""
    page.line(170, 70, page.words(2, 4), 7)
    is_dark = page.chance.random() < 0.4
    page.fill((170, 150, 1080, 1900), page.size)
    page.pen.rectangle((1130, 180, 1520, 900), outline=0, fill=40 if is_dark else 235)
    page.block((1150, 200, 1500, 880), page.paragraph(), 9, 255 if is_dark else 0)
    page.pen.line((170, 1960, 600, 1960), fill=0, width=2)
    page.block((170, 1980, 1480, 2230), "1 " + page.paragraph(2, 3), 7)


def _flyer(page: _Sheet) -> None:
    """Titles in large type, light on dark, and texts in boxes."""
    page.pen.rectangle((0, 100, WIDTH, 330), fill=30)
    page.line(150, 150, page.words(2, 3), 26, 250)
    y = 400.0
    for _ in range(3):
        y = page.line(150, y, page.words(2, 5), 18) + 20
        y = page.block((150, y, 1500, y + 420), page.paragraph(2, 3), page.chance.choice((10, 12, 14))) + 40


def _contents(page: _Sheet) -> None:
    y = page.line(170, 150, "Contents", page.size * 1.7) + 30
    font = page.font(page.size)
    number = 1
    while y < 2100:
        text, number = page.words(2, 7), number + page.chance.randint(1, 9)
        dots = "." * max(3, int((1280 - font.getlength(text)) / font.getlength(".")))
        page.pen.text((170, y), text, font=font, fill=0)
        page.pen.text((170 + font.getlength(text) + 10, y), dots, font=font, fill=0)
        page.pen.text((1480, y), str(number), font=font, fill=0)
        page.written.append(f"{text} {number}")
        y += page.size * DPI / 72 * 1.6


LAYOUTS: dict[str, Callable[[_Sheet], None]] = {
    "prose": _prose,
    "columns": _columns,
    "table": _table,
    "form": _form,
    "invoice": _invoice,
    "lists": _lists,
    "figure": _figure,
    "notes": _notes,
    "flyer": _flyer,
    "contents": _contents,
}


def _coarse(picture: Image.Image, seed: int) -> Image.Image:
    """Scanned with 75 to 110 points an inch."""
    share = random.Random(seed).uniform(0.375, 0.55)
    size = round(picture.width * share), round(picture.height * share)
    return picture.resize(size, Image.Resampling.BOX).resize(picture.size, Image.Resampling.BICUBIC)


def _cut(picture: Image.Image, seed: int) -> Image.Image:
    """Laid askew on the glass, so that an edge of the text is missing."""
    chance = random.Random(seed)
    moved = Image.new("L", picture.size, 255)
    across = chance.choice((-1, 1)) * chance.randint(130, 330)
    moved.paste(picture, (across, chance.randint(-200, 100)))
    return moved


def _fax(picture: Image.Image, seed: int) -> Image.Image:
    """Black and white at half the resolution."""
    half = picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BOX)
    grain = np.random.default_rng(seed).normal(0, 18, (half.height, half.width))
    sharp = (np.asarray(half, dtype=np.float32) + grain > 150) * np.uint8(255)
    return Image.fromarray(sharp.astype(np.uint8)).resize(picture.size)


def _copied(picture: Image.Image, seed: int) -> Image.Image:
    """A copy of a copy: strokes are broken, and the edge is dark."""
    chance = random.Random(seed)
    soft = np.asarray(picture.filter(ImageFilter.GaussianBlur(1.2)), dtype=np.float32)
    pixels = (soft > chance.choice((70, 90, 190, 215))) * np.float32(255)
    pixels[:, : chance.randint(20, 70)] = 20
    specks = np.random.default_rng(seed).random(pixels.shape)
    pixels[specks < 0.001] = 0
    return Image.fromarray(pixels.astype(np.uint8))


def _shaded(picture: Image.Image, seed: int) -> Image.Image:
    """An open book: the page darkens and bends towards its spine."""
    chance = random.Random(seed)
    columns = np.arange(picture.width)
    near = np.exp(-columns / chance.uniform(60, 160))
    pixels = np.asarray(picture, dtype=np.float32)
    shift = (near * chance.uniform(10, 40)).astype(int)
    bent = np.stack([np.roll(pixels[:, column], shift[column]) for column in columns], axis=1)
    return Image.fromarray(np.clip(bent * (1 - 0.75 * near), 0, 255).astype(np.uint8))


CONDITIONS: dict[str, scans.Spoiler] = {
    "clean": scans.as_is,
    "noisy": scans.noisy,
    "skewed": scans.askew,
    "turned": lambda picture, seed: script_pages.turned(picture, 1 + seed % 3),
    "photographed": script_pages.photographed,
    "pale": scans.pale,
    "blurred": scans.blurred,
    "very blurred": lambda picture, seed: scans.blurred(scans.blurred(picture, seed), seed),
    "coarse": _coarse,
    "cut": _cut,
    "fax": _fax,
    "copied": _copied,
    "shaded": _shaded,
    "noisy, turned": lambda picture, seed: scans.noisy(script_pages.turned(picture, 1 + seed % 3), seed),
}
