"""Pages of known text, drawn and then spoilt the way scanners, photocopiers and fax machines spoil them.

The fonts are MuPDF's own, so that the pages are the same on every machine; the same seed gives the same page.
"""

from __future__ import annotations

import io
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pymupdf
from PIL import Image, ImageFilter
from rapidfuzz.distance import Levenshtein

Spoiler = Callable[[Image.Image, int], Image.Image]

WIDTH_PT, HEIGHT_PT, MARGIN_PT = 595, 842, 64

_OPENINGS = (
    "In the spring of {year}",
    "After the meeting in {place}",
    "According to {name}",
    "As the report of {place} shows",
    "On the {day} of {month}",
    "For the third time",
)
_SUBJECTS = (
    "the harbour office",
    "the board of the railway",
    "a committee of seven members",
    "the new director",
    "every household in the valley",
    "the printing works",
)
_DEEDS = (
    "paid {sum} for repairs",
    "asked for {count} copies of the plan",
    "sold its share of {percent}",
    "moved into larger rooms",
    "was told to wait until the question had been settled",
    "found {count} errors in the accounts",
    "refused to sign the agreement",
)
_ENDINGS = (
    "because the old bridge (built in {year}) was no longer safe.",
    "although nobody had expected it; the price had risen by {percent}.",
    "and the letter of {day} {month} {year} says so plainly.",
    'which {name} called "a quiet and reasonable solution".',
    "before the quarter was over.",
    "so that less than {count} jobs were lost.",
)
_NAMES = ("Mrs. Whitfield", "J. K. Okafor", "Dr. Quennell", "Captain Zimmer", "Ms. Ybarra", "Prof. Vaughan")
_PLACES = ("Eastbury", "Kilmarnock", "Oxwich", "Valparaiso", "Jönköping", "Wuppertal")
_MONTHS = ("January", "March", "June", "July", "September", "December")
_TITLES = ("Annual Report", "Minutes of the Board", "On Bridges and Tolls", "A Letter to the Members")

_GERMAN = (
    "Die Gemeinde prüfte die Rechnungen des Jahres und fand größere Lücken.",
    "Über die Straße führt seit kurzem eine schmale Brücke aus Stahl.",
    "Der Müller verkaufte {count} Säcke Mehl für {sum} an das Kloster.",
    "Außerdem wünschten die Bürger am {day}. Oktober {year} ein öffentliches Gespräch.",
    "Schließlich übernahm die Behörde die Kosten von {percent} für das Gebäude.",
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page that is clean and upright, and what is written on it."""

    picture: Image.Image
    text: str
    dpi: int


def sheet(
    seed: int,
    *,
    font: str = "tiro",
    size: float = 11,
    dpi: int = 200,
    german: bool = False,
    columns: int = 1,
    filled: float = 1.0,
) -> Sheet:
    """A title and paragraphs of one font; the text is what a perfect reader would read.

    `filled` is how much of the page has text on it.
    """
    chance = random.Random(seed)
    document = pymupdf.open()
    page = document.new_page(width=WIDTH_PT, height=HEIGHT_PT)
    face = pymupdf.Font(font)
    written = [chance.choice(_TITLES)]
    pen = pymupdf.TextWriter(page.rect)
    pen.append((MARGIN_PT, MARGIN_PT + 10), written[0], face, size * 1.7)
    gap = 24
    width = (WIDTH_PT - 2 * MARGIN_PT - gap * (columns - 1)) / columns
    for column in range(columns):
        left, y = MARGIN_PT + column * (width + gap), MARGIN_PT + 20 + size * 2
        while y < (HEIGHT_PT - MARGIN_PT - size * 5) * filled:
            paragraph = " ".join(_sentence(chance, german) for _ in range(chance.randint(2, 5)))
            for line in _lines(paragraph, face, size, width):
                if y > HEIGHT_PT - MARGIN_PT:
                    break
                pen.append((left, y), line, face, size)
                written.append(line)
                y += size * 1.32
            y += size * 0.9
    pen.write_text(page)
    picture = _drawn(page, dpi)
    document.close()
    return Sheet(picture, "\n".join(written), dpi)


def written(lines: Sequence[str], *, size: float = 12, dpi: int = 200) -> Sheet:
    """The lines as they are, one below the other."""
    document = pymupdf.open()
    page = document.new_page(width=WIDTH_PT, height=MARGIN_PT * 2 + size * 2.6 * len(lines))
    pen = pymupdf.TextWriter(page.rect)
    for row, line in enumerate(lines):
        pen.append((MARGIN_PT, MARGIN_PT + size * 2.6 * row), line, pymupdf.Font("helv"), size)
    pen.write_text(page)
    picture = _drawn(page, dpi)
    document.close()
    return Sheet(picture, "\n".join(lines), dpi)


def written_part(sheet: Sheet, share: float) -> Image.Image:
    """The upper part of a sheet that is not filled: the quick reader takes 15 s for a page of noise."""
    width, height = sheet.picture.size
    return sheet.picture.crop((0, 0, width, round(share * height)))


def as_is(picture: Image.Image, seed: int) -> Image.Image:
    return picture


def noisy(picture: Image.Image, seed: int) -> Image.Image:
    """Soft, grainy, dusty, and squeezed by JPEG."""
    dice = np.random.default_rng(seed)
    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.8)), dtype=np.float32)
    pixels = pixels * 0.82 + 30 + dice.normal(0, 22, pixels.shape)
    specks = dice.random(pixels.shape)
    pixels[specks < 0.006] = 0
    pixels[specks > 0.994] = 255
    return _squeezed(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)), 45)


def blurred(picture: Image.Image, seed: int) -> Image.Image:
    """Out of focus."""
    return _squeezed(picture.filter(ImageFilter.GaussianBlur(1.3)), 60)


def askew(picture: Image.Image, seed: int) -> Image.Image:
    """Turned by one to three degrees, either way."""
    chance = random.Random(seed)
    angle = chance.choice((-1, 1)) * chance.uniform(1.0, 3.0)
    return picture.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=255)


def noisy_askew(picture: Image.Image, seed: int) -> Image.Image:
    return noisy(askew(picture, seed), seed)


def pale(picture: Image.Image, seed: int) -> Image.Image:
    """Grey on grey, darker towards one edge, as an old photocopy."""
    pixels = np.asarray(picture, dtype=np.float32)
    shade = np.linspace(205, 165, pixels.shape[1], dtype=np.float32)[None, :]
    ink = shade - 62
    mixed = ink + (shade - ink) * pixels / 255
    mixed += np.random.default_rng(seed).normal(0, 4, pixels.shape)
    return _squeezed(Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8)), 60)


def sideways(picture: Image.Image, seed: int) -> Image.Image:
    return picture.transpose(
        random.Random(seed).choice((Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270))
    )


def upside_down(picture: Image.Image, seed: int) -> Image.Image:
    return picture.transpose(Image.Transpose.ROTATE_180)


def noisy_sideways(picture: Image.Image, seed: int) -> Image.Image:
    return noisy(sideways(picture, seed), seed)


def noisy_upside_down(picture: Image.Image, seed: int) -> Image.Image:
    return noisy(upside_down(picture, seed), seed)


SPOILERS: dict[str, Spoiler] = {
    "clean": as_is,
    "noisy": noisy,
    "skewed": askew,
    "noisy and skewed": noisy_askew,
    "low contrast": pale,
    "turned 90": sideways,
    "turned 180": upside_down,
    "noisy, turned 90": noisy_sideways,
    "noisy, turned 180": noisy_upside_down,
}


def png(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=1)
    return out.getvalue()


def error_rate(found: str, expected: str) -> float:
    """Edits needed for each expected character, over texts without markup and with single spaces."""
    wanted = normalised(expected)
    return float(Levenshtein.distance(normalised(found), wanted)) / max(1, len(wanted))


def normalised(text: str) -> str:
    plain = re.sub(r"(?m)^#+ |\\(?=[-#*_|.)>+])", "", unicodedata.normalize("NFKC", text))
    for typographic, simple in (("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("—", "-"), ("–", "-")):
        plain = plain.replace(typographic, simple)
    return " ".join(plain.replace("&lt;", "<").split())


def _sentence(chance: random.Random, german: bool) -> str:
    pattern = (
        chance.choice(_GERMAN)
        if german
        else f"{chance.choice(_OPENINGS)}, {chance.choice(_SUBJECTS)} {chance.choice(_DEEDS)} "
        f"{chance.choice(_ENDINGS)}"
    )
    return pattern.format(
        year=chance.randint(1874, 2026),
        day=chance.randint(1, 30),
        month=chance.choice(_MONTHS),
        place=chance.choice(_PLACES),
        name=chance.choice(_NAMES),
        sum=f"{chance.choice('$£€') if not german else ''}{chance.randint(1, 99)},{chance.randint(100, 999)}.50",
        count=chance.randint(12, 980),
        percent=f"{chance.uniform(1, 60):.1f}%",
    )


def _drawn(page: pymupdf.Page, dpi: int) -> Image.Image:
    pixels = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)


def _lines(paragraph: str, face: pymupdf.Font, size: float, width: float) -> list[str]:
    lines: list[str] = []
    for word in paragraph.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and face.text_length(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _squeezed(picture: Image.Image, quality: int) -> Image.Image:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality)
    with Image.open(io.BytesIO(out.getvalue())) as opened:
        return opened.convert("L")
