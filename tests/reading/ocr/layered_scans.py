"""Scans with text layers that agree with their pictures, and with layers that do not: drawn, so that both are known."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pymupdf
from PIL import Image, ImageDraw, ImageFont

from . import scans, script_pages

Box = tuple[float, float, float, float]
Word = tuple[Box, str]
"""Left, top, right and bottom in points, and the text."""

DPI = 150
_FACE = pymupdf.Font("helv")
_FINNISH = (
    *("kaupungin", "hallitus", "päätti", "eilen", "korjata", "vanhan", "sillan", "ennen", "talvea", "koska"),
    *("kustannukset", "olivat", "nousseet", "jokainen", "talous", "laaksossa", "sai", "kirjeen", "uusista"),
    *("vesimittareista", "opettajat", "pyysivät", "neljäkymmentä", "kappaletta"),
)
_VOWELS, _CONSONANTS = "aeiou", "bcdfghklmnprstvw"


def coarse(picture: Image.Image, seed: int) -> Image.Image:
    """Scanned with 90 points an inch."""
    small = picture.resize((round(picture.width * 0.6), round(picture.height * 0.6)), Image.Resampling.BOX)
    return small.resize(picture.size, Image.Resampling.BICUBIC)


def stamped(picture: Image.Image, seed: int) -> Image.Image:
    """With a stamp across the text."""
    stamp = Image.new("L", (520, 120), 255)
    pen = ImageDraw.Draw(stamp)
    pen.rectangle((4, 4, 515, 115), outline=60, width=6)
    pen.text((40, 30), "RECEIVED 12 MAY", font=ImageFont.load_default(48), fill=60)
    turned = stamp.rotate(12, expand=True, fillcolor=255)
    found = picture.copy()
    found.paste(turned, (500, 700), Image.eval(turned, lambda tone: 255 if tone < 200 else 0))
    return found


def watermarked(picture: Image.Image, seed: int) -> Image.Image:
    """With a pale word from corner to corner."""
    mark = Image.new("L", picture.size, 255)
    pen = ImageDraw.Draw(mark)
    pen.text((150, 700), "DRAFT", font=ImageFont.load_default(320), fill=215)
    return Image.composite(picture, mark, Image.eval(picture, lambda tone: 255 if tone < 200 else 0))


CONDITIONS: dict[str, scans.Spoiler] = {
    "clean": scans.as_is,
    "noisy": scans.noisy,
    "low contrast": scans.pale,
    "blurred": scans.blurred,
    "coarse": coarse,
    "stamped": stamped,
    "watermarked": watermarked,
}


@dataclass(frozen=True, slots=True)
class PageTexts:
    """The words of a page, and those of another one."""

    own: list[Word]
    other: list[Word]


def words_of(document: pymupdf.Document) -> list[Word]:
    return [((word[0], word[1], word[2], word[3]), word[4]) for word in document[0].get_text("words")]


def layered(picture: Image.Image, words: Sequence[Word], *, turns: int = 0) -> pymupdf.Document:
    """A page that shows the picture, with invisible words. `turns`: by how many quarters viewers turn it."""
    document = _with_picture(picture)
    page = document[0]
    for (left, top, right, bottom), text in words:
        height = max(3.0, bottom - top)
        size = 0.72 * height
        start = pymupdf.Point(left, bottom - 0.22 * height)
        stretch = pymupdf.Matrix((right - left) / max(0.1, _FACE.text_length(text, size)), 1)
        page.insert_text(start, text, fontsize=size, render_mode=3, morph=(start, stretch))
    page.set_rotation(90 * turns)
    return document


def covered(picture: Image.Image, document: pymupdf.Document) -> pymupdf.Document:
    """The page of the document with the picture drawn over its text."""
    document[0].insert_image(document[0].rect, stream=_jpeg(picture), overlay=True)
    return document


def on_background(picture: Image.Image, document: pymupdf.Document) -> pymupdf.Document:
    """The page of the document with the picture behind its text."""
    document[0].insert_image(document[0].rect, stream=_jpeg(picture), overlay=False)
    return document


def _with_picture(picture: Image.Image) -> pymupdf.Document:
    document = pymupdf.open()
    page = document.new_page(width=script_pages.WIDTH_PT, height=script_pages.HEIGHT_PT)
    page.insert_image(page.rect, stream=_jpeg(picture))
    return document


def _jpeg(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=75)
    return out.getvalue()


Change = Callable[[PageTexts, random.Random], list[Word]]


def _exact(texts: PageTexts, chance: random.Random) -> list[Word]:
    return texts.own


def _misread(share: float) -> Change:
    def change(texts: PageTexts, chance: random.Random) -> list[Word]:
        return [
            (box, "".join(_letter(chance) if chance.random() < share else letter for letter in text))
            for box, text in texts.own
        ]

    return change


def _letter(chance: random.Random) -> str:
    return chance.choice(_VOWELS + _CONSONANTS)


def _loose(texts: PageTexts, chance: random.Random) -> list[Word]:
    return [(_shaken(box, chance), text) for box, text in texts.own]


def _shaken(box: Box, chance: random.Random) -> Box:
    left, top, right, bottom = (edge + chance.uniform(-1.2, 1.2) for edge in box)
    return left, top, right, bottom


def _other(texts: PageTexts, chance: random.Random) -> list[Word]:
    return texts.other


def _foreign(texts: PageTexts, chance: random.Random) -> list[Word]:
    """Words of another language, as many and at the places of the page's own."""
    return [(box, chance.choice(_FINNISH)) for box, _ in texts.own]


def _invented(texts: PageTexts, chance: random.Random) -> list[Word]:
    """Words with vowels and consonants where the page has them."""
    return [(box, "".join(_like(letter, chance) for letter in text)) for box, text in texts.own]


def _like(letter: str, chance: random.Random) -> str:
    if not letter.isalpha():
        return letter
    return chance.choice(_VOWELS if letter.lower() in _VOWELS else _CONSONANTS)


def _shuffled(texts: PageTexts, chance: random.Random) -> list[Word]:
    found = [text for _, text in texts.own]
    chance.shuffle(found)
    return [(box, text) for (box, _), text in zip(texts.own, found, strict=True)]


def _upper_half(texts: PageTexts, chance: random.Random) -> list[Word]:
    return [word for word in texts.own if word[0][1] < _middle(texts.own)]


def _half_of_another(texts: PageTexts, chance: random.Random) -> list[Word]:
    return [
        word if word[0][1] < _middle(texts.own) else other
        for word, other in zip(texts.own, _foreign(texts, chance), strict=True)
    ]


def _middle(words: Sequence[Word]) -> float:
    tops = sorted(box[1] for box, _ in words)
    return tops[len(tops) // 2]


AGREEING: dict[str, Change] = {
    "exact": _exact,
    "2 % misread": _misread(0.02),
    "6 % misread": _misread(0.06),
    "loose boxes": _loose,
}
CONTRADICTING: dict[str, Change] = {
    "another page": _other,
    "another language": _foreign,
    "invented words": _invented,
    "words shuffled": _shuffled,
    "upper half only": _upper_half,
    "half of another": _half_of_another,
}
