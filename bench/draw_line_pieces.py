"""Draws the pages that the network of `reading/ocr/line_direction.py` is trained on, and stores pieces of their lines.

    python bench/draw_line_pieces.py --words WORDFREQ_DATA [--seeds 0-80] [--to pieces.npz]

WORDFREQ_DATA is the folder `data` of the wheel `wordfreq` (word lists, CC BY-SA 4.0); the fonts are those of Debian's
`fonts-dejavu` and `fonts-noto`. The fonts inside MuPDF, with which `bench/orientation.py` draws its pages, are not
used, and neither are its sentences. Each page is taken upright or upside down, and on one of its sides.
`bench/train_line_direction.py` trains the network.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from PIL import Image, ImageDraw, ImageFont  # noqa: E402
from tests.reading.ocr import scans, script_pages  # noqa: E402

from quire.reading.ocr import ink_lines, line_pictures  # noqa: E402

NOTO, DEJAVU = "truetype/noto/Noto{}.ttf", "truetype/dejavu/DejaVu{}.ttf"
CJK = ("opentype/noto/NotoSansCJK-Regular.ttc", "opentype/noto/NotoSerifCJK-Regular.ttc")


def _fonts(pattern: str, *names: str) -> list[str]:
    return [pattern.format(name) for name in names]


EUROPEAN = [
    *_fonts(DEJAVU, "Sans", "Sans-Bold", "Serif", "Serif-Italic", "SansMono", "SerifCondensed"),
    *_fonts(NOTO, "Sans-Regular", "Serif-Regular", "Sans-Bold", "Serif-Italic", "SerifDisplay-Regular"),
]
SCRIPTS: dict[str, tuple[str, list[str]]] = {
    "latin": ("en de fr es pl vi tr it fi", EUROPEAN),
    "cyrillic": ("ru uk bg mk", EUROPEAN),
    "greek": ("el", EUROPEAN),
    "arabic": (
        "ar fa",
        [
            *_fonts(NOTO, "SansArabic-Regular", "SansArabic-Bold", "KufiArabic-Regular", "KufiArabic-Bold"),
            *_fonts(DEJAVU, "Sans", "SansMono", "Sans-Bold"),
        ],
    ),
    "urdu": ("ur", _fonts(NOTO, "NastaliqUrdu-Regular", "SansArabic-Regular")),
    "hebrew": (
        "he",
        [
            *_fonts(NOTO, "SansHebrew-Regular", "SansHebrew-Bold", "RashiHebrew-Regular"),
            DEJAVU.format("Sans"),
        ],
    ),
    "devanagari": ("hi", _fonts(NOTO, "SansDevanagari-Regular", "SansDevanagari-Bold")),
    "bengali": ("bn", _fonts(NOTO, "SansBengali-Regular", "SerifBengali-Regular")),
    "tamil": ("ta", _fonts(NOTO, "SansTamil-Regular", "SerifTamil-Regular")),
    "chinese": ("zh", list(CJK)),
    "japanese": ("ja", list(CJK)),
    "korean": ("ko", list(CJK)),
}
RIGHT_TO_LEFT = {"arabic", "urdu", "hebrew"}
WITHOUT_SPACES = {"chinese", "japanese"}
CONDITIONS = (*script_pages.CONDITIONS.values(), scans.noisy, scans.blurred)
PX_A_PT = 150 / 72
WIDTH_PT, HEIGHT_PT = 595, 842
MOST_WORDS, MOST_PIECES = 6_000, 16
SPECKLED = 8.0


class DrawnPage:
    """One page of random words in one font."""

    def __init__(self, script: str, seed: int, words: Path, fonts: Path) -> None:
        self._chance = random.Random(f"{script}{seed}")
        languages, files = SCRIPTS[script]
        self._words = word_list(words, self._chance.choice(languages.split()))
        self._font = str(fonts / self._chance.choice(files))
        self._space = "" if script in WITHOUT_SPACES else " "
        self._direction = "rtl" if script in RIGHT_TO_LEFT else "ltr"
        self._leading = self._chance.uniform(1.35, 1.8) * (1.6 if "Nastaliq" in self._font else 1)
        size = round(WIDTH_PT * PX_A_PT), round(HEIGHT_PT * PX_A_PT)
        self._picture = Image.new("L", size, 255)
        self._pen = ImageDraw.Draw(self._picture)
        self._lay_out()
        if self._chance.random() < 0.4:
            share = self._chance.uniform(0.65, 1.3)
            self._picture = self._picture.resize((round(size[0] * share), round(size[1] * share)))
        self.picture = self._chance.choice(CONDITIONS)(self._picture, seed)

    def _lay_out(self) -> None:
        chance = self._chance
        layout = chance.choice(("prose", "columns", "table", "sparse", "letter"))
        if layout == "prose":
            self._column(60, 50, 535, 110, chance.uniform(12, 22), 1)
            self._column(60, 115, 535, 780, chance.uniform(8, 14))
        elif layout == "columns":
            size = chance.uniform(7.5, 11)
            for left, right in ((50, 285), (310, 545)):
                self._column(left, 100, right, 790, size)
        elif layout == "table":
            self._table(chance.choice((3, 4, 5)), chance.randint(6, 18), chance.uniform(8, 11))
        elif layout == "sparse":
            self._column(
                90, chance.randint(100, 420), 505, 800, chance.uniform(11, 32), chance.choice((1, 2, 3))
            )
        else:
            self._column(60, 60, 260, 140, 10, 4)
            self._column(60, 220, 535, chance.choice((340, 520)), chance.uniform(9, 12))

    def _column(
        self, left: float, top: float, right: float, bottom: float, size: float, most: int = 999
    ) -> None:
        font = ImageFont.truetype(self._font, round(size * PX_A_PT))
        y, step = top * PX_A_PT, size * PX_A_PT * self._leading
        while y + step < bottom * PX_A_PT and most:
            text = self._line(font, (right - left) * PX_A_PT)
            width = self._pen.textlength(text, font=font, direction=self._direction)
            x = right * PX_A_PT - width if self._direction == "rtl" else left * PX_A_PT
            self._pen.text((x, y), text, font=font, fill=0, direction=self._direction)
            y, most = y + step * self._chance.choice((1, 1, 1, 1, 1, 1, 1, 1.5)), most - 1

    def _line(self, font: ImageFont.FreeTypeFont, width: float) -> str:
        text = self._word()
        while len(text) < 400:
            longer = text + self._space + self._word()
            if self._pen.textlength(longer, font=font, direction=self._direction) > width:
                break
            text = longer
        return text if self._chance.random() > 0.12 else text[: max(5, len(text) // 2)]

    def _word(self) -> str:
        chance = self._chance
        if chance.random() < 0.08:
            return str(chance.randint(1, 9999))
        word = chance.choice(self._words[: 800 if chance.random() < 0.5 else None])
        return (
            word.capitalize() if chance.random() < 0.15 else word + chance.choice(("", "", "", "", ",", "."))
        )

    def _table(self, columns: int, rows: int, size: float) -> None:
        font, width = ImageFont.truetype(self._font, round(size * PX_A_PT)), 475 / columns
        ruled = self._chance.random() < 0.6
        for row in range(rows):
            for column in range(columns):
                x, y = (60 + column * width) * PX_A_PT, (120 + 28 * row) * PX_A_PT
                if ruled:
                    self._pen.rectangle((x, y, x + width * PX_A_PT, y + 28 * PX_A_PT), outline=0)
                is_label = not row or not column
                text = self._word() if is_label else f"{self._chance.uniform(1, 9999):,.1f}"
                self._pen.text((x + 5, y + 6), text, font=font, fill=0)


def word_list(folder: Path, language: str, known: dict[str, list[str]] = {}) -> list[str]:  # noqa: B006
    """The most frequent words of a language, the most frequent first."""
    if language not in known:
        raw = (folder / f"small_{language}.msgpack.gz").read_bytes()
        bins = msgspec.msgpack.decode(gzip.decompress(raw))
        words = [word for words in bins[1:] for word in words if not word.isdigit()]
        known[language] = words[:MOST_WORDS]
    return known[language]


def pieces(picture: Image.Image, turns: int) -> np.ndarray:
    """The pictures of lines that are found on the page when it is turned by so many quarters."""
    turned = script_pages.turned(picture, turns)
    noise, small = ink_lines.grain(np.asarray(turned)), ink_lines.small_copy(turned)
    if noise > SPECKLED:
        ink = ink_lines.clear_ink_mask(small)
    else:
        ink = ink_lines.ink_mask(np.asarray(small, dtype=np.float32), noise)
    skew, _ = ink_lines.best_angle(*ink_lines.ink_points(ink))
    found = line_pictures.line_pictures(turned, small, ink, skew)
    return found[:: max(1, len(found) // MOST_PIECES)][:MOST_PIECES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    parser.add_argument("--seeds", default="0-80")
    parser.add_argument("--to", type=Path, default=Path("pieces.npz"))
    asked = parser.parse_args()
    start, end = map(int, asked.seeds.split("-"))
    found: list[np.ndarray] = []
    ways: list[tuple[int, int, int]] = []
    for seed in range(start, end):
        for number, script in enumerate(SCRIPTS):
            picture = DrawnPage(script, seed, asked.words, asked.fonts).picture
            for turns in random.Random(f"{seed}{script}").choice(((0, 1), (2, 1), (0, 3), (2, 3))):
                cut = pieces(picture, turns)
                found.append(cut)
                ways += [(turns, seed, number)] * len(cut)
    np.savez_compressed(asked.to, pieces=np.concatenate(found), ways=np.array(ways))
    print(f"{len(ways)} pieces of lines of {(end - start) * len(SCRIPTS)} pages in {asked.to}")


if __name__ == "__main__":
    main()
