"""Makes the weights of `reading/ocr/line_direction.py` from drawn pages.

    python bench/train_line_direction.py --words WORDFREQ_DATA [--seeds 0-52] [--out line_direction.bin]

WORDFREQ_DATA is the folder `data` of the wheel `wordfreq` (word lists, CC BY-SA 4.0); the fonts are those of Debian's
`fonts-dejavu` and `fonts-noto`. The fonts inside MuPDF, with which `bench/orientation.py` draws its pages, are not
used, and neither are its sentences. Each page is taken upright and upside down. The pages of one seed of ten are
kept aside; the share of their pieces of lines that are told right is printed.
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

from quire.reading.ocr import ink_lines, line_direction  # noqa: E402

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
MOST_WORDS, MOST_PIECES = 6_000, 40
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
                90, chance.randint(100, 420), 505, 800, chance.uniform(16, 30), chance.choice((1, 2))
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


def pieces(picture: Image.Image, half_turns: int) -> np.ndarray:
    noise, small = ink_lines.grain(np.asarray(picture)), ink_lines.small_copy(picture)
    if noise > SPECKLED:
        ink = ink_lines.clear_ink_mask(small)
    else:
        ink = ink_lines.ink_mask(np.asarray(small, dtype=np.float32), noise)
    ink = np.rot90(ink, 2 * half_turns)
    skew, _ = ink_lines.best_angle(*ink_lines.ink_points(ink))
    return line_direction.piece_counts(ink, skew)[:MOST_PIECES]


def examples(words: Path, fonts: Path, seeds: range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of numbers, 1 for upright and -1 for upside down, and whether the row is kept aside."""
    rows, ways, aside = [], [], []
    for seed in seeds:
        for script in SCRIPTS:
            picture = DrawnPage(script, seed, words, fonts).picture
            for half_turns in (0, 1):
                found = pieces(picture, half_turns)
                rows.append(found.astype(np.float32))
                ways += [1 - 2 * half_turns] * len(found)
                aside += [seed % 10 == 9] * len(found)
    return np.concatenate(rows), np.array(ways, np.float32), np.array(aside)


def trained(rows: np.ndarray, ways: np.ndarray, epochs: int = 16) -> list[np.ndarray]:
    """The weights, by Adam on the logistic loss of the difference between both scores of a piece."""
    dice = np.random.default_rng(0)
    turned = line_direction.turned_counts(rows)
    mean, spread = (
        np.concatenate((rows, turned)).mean(0),
        np.concatenate((rows, turned)).std(0) + np.float32(0.05),
    )
    up, down = (rows - mean) / spread, (turned - mean) / spread
    inputs, hidden = rows.shape[1], line_direction.HIDDEN
    weights = [
        dice.normal(0, inputs**-0.5, (inputs, hidden)).astype(np.float32),
        np.zeros(hidden, np.float32),
        dice.normal(0, hidden**-0.5, hidden).astype(np.float32),
    ]
    first, second = [np.zeros_like(one) for one in weights], [np.zeros_like(one) for one in weights]
    step = 0
    for epoch in range(epochs):
        rate, order = 3e-3 * (1 - epoch / epochs) + 1e-4, dice.permutation(len(rows))
        for chosen in np.array_split(order, max(1, len(order) // 256)):
            step += 1
            for at, slope in enumerate(_slopes(weights, up[chosen], down[chosen], ways[chosen], dice)):
                first[at] = 0.9 * first[at] + 0.1 * slope
                second[at] = 0.999 * second[at] + 0.001 * slope**2
                scale = np.sqrt(second[at] / (1 - 0.999**step)) + 1e-8
                weights[at] -= (rate * first[at] / (1 - 0.9**step) / scale).astype(np.float32)
    return [weights[0] / spread[:, None], weights[1] - mean / spread @ weights[0], weights[2]]


def _slopes(
    weights: list[np.ndarray], up: np.ndarray, down: np.ndarray, ways: np.ndarray, dice: np.random.Generator
) -> list[np.ndarray]:
    up, down = (one + 0.1 * dice.standard_normal(one.shape, dtype=np.float32) for one in (up, down))
    units = [np.tanh(one @ weights[0] + weights[1]) for one in (up, down)]
    says = np.clip(ways * ((units[0] - units[1]) @ weights[2]), -20, 20)
    error = (-ways / (1 + np.exp(says)) / len(ways)).astype(np.float32)
    above, below = (
        sign * (1 - one**2) * weights[2] * error[:, None] for sign, one in zip((1, -1), units, strict=True)
    )
    return [
        up.T @ above + down.T @ below + 3e-4 * weights[0],
        above.sum(0) + below.sum(0),
        (units[0] - units[1]).T @ error + 3e-4 * weights[2],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts"))
    parser.add_argument("--seeds", default="0-52")
    parser.add_argument("--out", type=Path, default=Path("line_direction.bin"))
    asked = parser.parse_args()
    start, end = map(int, asked.seeds.split("-"))
    rows, ways, aside = examples(asked.words, asked.fonts, range(start, end))
    weights = trained(rows[~aside], ways[~aside])
    for name, part in (("trained on", ~aside), ("kept aside", aside)):
        both = rows[part], line_direction.turned_counts(rows[part])
        scores = [np.tanh(one @ weights[0] + weights[1]) @ weights[2] for one in both]
        right = np.mean((scores[0] - scores[1]) * ways[part] > 0)
        print(f"{name}: {part.sum()} pieces of lines, {100 * right:.1f} % right")
    np.concatenate([one.ravel() for one in weights]).astype("<f2").tofile(asked.out)


if __name__ == "__main__":
    main()
