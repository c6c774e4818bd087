"""Finds the script of a page that the readers can't read, by the models of other scripts that are installed.

A model that knows the letters is sure of a strip of the page (.67 to .96 on drawn pages in three scripts), one that
does not know them is not (.46 at most). So a strip is read with each, which takes a tenth of what the page takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PIL import ImageDraw

from quire.reading.ocr import careful_reader, quick_reader
from quire.reading.ocr.page_posture import dense_strip
from quire.reading.ocr.quick_reader import TesseractModels

if TYPE_CHECKING:
    from PIL import Image

    from quire.reading.ocr.ocr_words import Box

_SURE = 0.6
_CLEARLY_MORE = 1.5
_MOST_MODELS = 12
_WHITE = 255


def other_scripts(models: TesseractModels) -> list[str]:
    """The installed languages, not asked for, whose letters neither the careful reader nor the asked models know."""
    if not quick_reader.available():
        return []
    return [name for name in quick_reader.readable(models) if not careful_reader.reads([name])][:_MOST_MODELS]


def language_by_script(
    page: Image.Image, read_already: Iterable[Box], models: TesseractModels, dpi: int
) -> str | None:
    """The installed language of another script that reads the page clearly better than those asked for.

    `read_already` are figures that the readers are sure of, as those of a table: they say nothing.
    """
    others = other_scripts(models)
    if not others:
        return None
    strip = dense_strip(_without(page, read_already))
    most, best = 0.0, None
    for name in others:
        seen = quick_reader.read(strip, TesseractModels(name, models.folder), dpi, one_block=True)
        if (seen.confidence() or 0.0) >= _SURE and seen.weight() > most:
            most, best = seen.weight(), name
    if best is None:
        return None
    asked = quick_reader.read(strip, models, dpi, one_block=True) if quick_reader.has(models) else None
    return best if asked is None or most > _CLEARLY_MORE * asked.weight() else None


def _without(page: Image.Image, boxes: Iterable[Box]) -> Image.Image:
    left = page.copy()
    brush = ImageDraw.Draw(left)
    for box in boxes:
        brush.rectangle(box, fill=_WHITE)
    return left
