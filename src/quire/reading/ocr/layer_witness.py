"""Compares the picture of a page with a text layer that the page does not draw: where is ink, and what does it say?

Each word of the layer must have ink below it, and letters of the picture must be in a word. A few lines of the layer,
spread over the page, are cut out of the picture, put one below the other and read at once by the quick reader. That
takes a sixth of what reading the page takes.

Weakness: eight lines are a sample, so that a wrong paragraph can be missed; lines in letters that no installed model
knows, and lines that the reader is not sure of, say nothing.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from quire.errors import PageError
from quire.reading.files.document_source import PdfSource, open_documents, page_errors
from quire.reading.ocr import quick_reader
from quire.reading.ocr.ink_lines import grain
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.ocr_words import Box, OcrWord, around
from quire.reading.ocr.quick_reader import TesseractModels
from quire.reading.ocr.unread_ink import PageShapes
from quire.reading.pdf.page_render import RenderOptions, draw_scan
from quire.reading.pdf.reading_direction import view_of
from quire.reading.pdf.texts_ahead import text_of

if TYPE_CHECKING:
    from PIL import Image

    Pixels = Any  # numpy's arrays, without numpy being imported for their name

_DPI, _LONGEST_PX, _PIXELS = 200, 6000, 40_000_000
_SHAPES_PX = 1100
_FEWER_SHAPES = 8
"""With an eighth as many shapes as the layer has letters a picture shows nothing of it: it may not be there at all."""
_LINES, _LINE_LETTERS, _LEAST_LETTERS = 8, 50, 10
_HEIGHT_PX, _GAP_PX, _WIDEST_PX = 44, 22, 2400
_LEAST_HEIGHT = 0.2
_ASIDE, _ABOVE = 0.3, 0.1
"""What is cut out around a line, in its height."""
_DARK_GROUND = 110
_INK, _EDGE, _EMPTY = 128, 0.3, 0.02
_LIKE, _UNLIKE = 0.6, 0.5
"""Of what the layer has of a line and what was read of it. Lines of other texts have .1 to .5 in common, the same line
with every tenth letter wrong .8 and more.
"""
_SURE = 0.7
_AS_LONG = 0.5
_ONE_SCRIPT = 0.8
_LATIN = "LATIN"
_OTHER_SCRIPTS = {
    "CYRILLIC": ("rus", "ukr", "bel", "bul", "srp", "mkd"),
    "GREEK": ("ell", "grc"),
    "DEVANAGARI": ("hin", "mar", "nep", "san"),
}
"""The languages whose models read a script; Arabic and Hebrew are left out, for their lines run the other way."""
_NOT_LATIN = frozenset(name for names in _OTHER_SCRIPTS.values() for name in names) | frozenset(
    ("ara", "fas", "urd", "heb", "chi_sim", "chi_tra", "jpn", "kor", "tha")
)


@dataclass(frozen=True, slots=True)
class LayerEvidence:
    """What the picture says of a text layer. `for_it` and `against_it` are letters of the lines that were read.

    `unread` is the share of the picture's letters that are in no word, `bare` that of the layer's letters without ink
    below them, `likeness` how much the lines that are for it have in common with what was read.
    """

    unread: float = 0.0
    bare: float = 0.0
    for_it: int = 0
    against_it: int = 0
    lines_against: int = 0
    likeness: float = 0.0
    has_ink: bool = True


@dataclass(frozen=True, slots=True)
class _LayerWord:
    text: str
    box: Box


def layer_evidence(path: str, password: str | None, number: int, options: OcrOptions | None) -> LayerEvidence:
    """Compares the text layer of page `number` (from 1) with its picture; without `options` nothing is read by OCR.

    Raises what opening the document raises, and PageError for a page that can't be drawn.
    """
    source = open_documents().get(path, password)
    if not isinstance(source, PdfSource):
        raise PageError("Only pages of PDFs have a text layer.")
    return page_errors(number)(_evidence)(source, path, password, number, options)


def _evidence(
    source: PdfSource, path: str, password: str | None, number: int, options: OcrOptions | None
) -> LayerEvidence:
    drawn = draw_scan(
        path, password, number, RenderOptions(_DPI, "gray", max_px=_LONGEST_PX, max_pixels=_PIXELS)
    )
    page, layer_words, content = text_of(source, number)
    view = view_of(page, content)
    picture = _turned(drawn.picture, (view.rotation - int(page.rotation)) % 360)
    scale = 1 / drawn.points_per_px
    lines: dict[tuple[int, int], list[_LayerWord]] = {}
    for word in layer_words.found():
        box = view.turn((word[0], word[1], word[2], word[3]))
        left, top, right, bottom = (round(edge * scale) for edge in box)
        lines.setdefault((word[5], word[6]), []).append(_LayerWord(word[4], (left, top, right, bottom)))
    ink = _ink_evidence(picture, [word for line in lines.values() for word in line])
    if options is None or not ink.has_ink:
        return ink
    return _with_lines(ink, picture, list(lines.values()), options)


def _turned(picture: Image.Image, degrees: int) -> Image.Image:
    from PIL import Image

    if not degrees:
        return picture
    ways = {
        90: Image.Transpose.ROTATE_270,
        180: Image.Transpose.ROTATE_180,
        270: Image.Transpose.ROTATE_90,
    }
    return picture.transpose(ways[degrees])


def _ink_evidence(picture: Image.Image, words: Sequence[_LayerWord]) -> LayerEvidence:
    """Compares where the picture has letters with where the layer has words."""
    import numpy as np

    ratio = max(1.0, max(picture.size) / _SHAPES_PX)
    size = max(1, round(picture.width / ratio)), max(1, round(picture.height / ratio))
    small = picture if ratio == 1.0 else picture.resize(size, reducing_gap=2.0)
    found = PageShapes.of(small, grain(np.asarray(picture)))
    boxes: list[Box] = []
    letters: list[int] = []
    for word in words:
        if count := len(_compact(word.text)):
            left, top, right, bottom = (round(edge / ratio) for edge in word.box)
            boxes.append((left, top, right, bottom))
            letters.append(count)
    total = sum(letters)
    if not total or len(found.shapes) * _FEWER_SHAPES < total:
        return LayerEvidence(has_ink=False)
    middles = (found.shapes[:, :2] + found.shapes[:, 2:4]) / 2
    order = np.argsort(middles[:, 1])
    middles = middles[order]
    bare = sum(count for box, count in zip(boxes, letters, strict=True) if not _has_middle(middles, box))
    return LayerEvidence(round(found.unread_share(boxes), 3), round(bare / total, 3))


def _has_middle(middles: Any, box: Box) -> bool:
    """Whether one of the points, which are sorted from top to bottom, is in the box."""
    import numpy as np

    left, top, right, bottom = box
    first, after = np.searchsorted(middles[:, 1], (top, bottom + 1))
    across = middles[first:after, 0]
    return bool(((across >= left) & (across <= right)).any())


def _with_lines(
    ink: LayerEvidence, picture: Image.Image, lines: Sequence[list[_LayerWord]], options: OcrOptions
) -> LayerEvidence:
    """The evidence with what a few lines of the picture say."""
    models = _models_for(_compact("".join(word.text for line in lines for word in line)), options.models)
    sample = _sample(lines) if models else []
    if models is None or not sample:
        return ink
    sheet, kept = _sheet(picture, sample)
    if not kept:
        return ink
    read = _read(sheet, len(kept), models)
    for_it = against = unlike = 0
    alike = 0.0
    for line, words in zip(kept, read, strict=True):
        own = _compact("".join(word.text for word in line))
        seen = _compact("".join(word.text for word in sorted(words, key=lambda word: word.left)))
        likeness = SequenceMatcher(None, own, seen, autojunk=False).ratio()
        if likeness >= _LIKE:
            for_it += len(own)
            alike += likeness * len(own)
        elif likeness <= _UNLIKE and len(seen) >= _AS_LONG * len(own) and _sureness(words) >= _SURE:
            against += len(own)
            unlike += 1
    return replace(
        ink,
        for_it=for_it,
        against_it=against,
        lines_against=unlike,
        likeness=round(alike / for_it, 3) if for_it else 0.0,
    )


def _compact(text: str) -> str:
    """The letters and figures without their marks: readers differ in accents before they differ in letters."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(filter(str.isalnum, folded))


def _models_for(letters: str, asked: TesseractModels) -> TesseractModels | None:
    """The models that know the letters of the layer; None where none is installed."""
    scripts = Counter(_script(letter) for letter in letters if letter.isalpha())
    if not scripts or not quick_reader.available():
        return None
    script, count = scripts.most_common(1)[0]
    if count < _ONE_SCRIPT * scripts.total():
        return None
    names = asked.names()
    if script == _LATIN:
        wanted = [name for name in names if name not in _NOT_LATIN] or ["eng"]
    else:
        known = (*names, *quick_reader.installed(asked))
        wanted = list(dict.fromkeys(name for name in known if name in _OTHER_SCRIPTS.get(script, ())))
    found = TesseractModels("+".join(wanted), asked.folder)
    return found if wanted and quick_reader.has(found) else None


def _script(letter: str) -> str:
    return _LATIN if letter.isascii() else unicodedata.name(letter, "").partition(" ")[0]


def _sample(lines: Iterable[list[_LayerWord]]) -> list[list[_LayerWord]]:
    """The fullest line of each eighth of the page's lines, from top to bottom, cut to a few words."""
    fit = [line for line in lines if len(_compact("".join(word.text for word in line))) >= _LEAST_LETTERS]
    fit.sort(key=lambda line: line[0].box[1])
    count = min(_LINES, len(fit))
    parts = [fit[len(fit) * at // count : len(fit) * (at + 1) // count] for at in range(count)]
    return [max(map(_cut, part), key=lambda line: sum(len(word.text) for word in line)) for part in parts]


def _cut(line: Sequence[_LayerWord]) -> list[_LayerWord]:
    found: list[_LayerWord] = []
    letters = 0
    for word in line:
        letters += len(word.text)
        if found and letters > _LINE_LETTERS:
            break
        found.append(word)
    return found


def _sheet(
    picture: Image.Image, lines: Sequence[list[_LayerWord]]
) -> tuple[Image.Image, list[list[_LayerWord]]]:
    """A picture with the places of the lines one below the other, and the lines that are on it."""
    from PIL import Image

    pieces: list[Image.Image] = []
    kept: list[list[_LayerWord]] = []
    for line in lines:
        left, top, right, bottom = around([word.box for word in line])
        height = bottom - top
        aside, above = round(_ASIDE * height), round(_ABOVE * height)
        box = (
            max(0, left - aside),
            max(0, top - above),
            min(picture.width, right + aside),
            min(picture.height, bottom + above),
        )
        if box[2] - box[0] >= _HEIGHT_PX / 8 and box[3] - box[1] >= _HEIGHT_PX / 8:
            pieces.append(_cleared(picture.crop(box)))
            kept.append(line)
    width = max((piece.width for piece in pieces), default=0) + 2 * _GAP_PX
    sheet = Image.new("L", (width, (_HEIGHT_PX + _GAP_PX) * len(pieces) + _GAP_PX), 255)
    for place, piece in enumerate(pieces):
        sheet.paste(piece, (_GAP_PX, _GAP_PX + place * (_HEIGHT_PX + _GAP_PX)))
    return sheet, kept


def _cleared(piece: Image.Image) -> Image.Image:
    """A line in dark ink on white paper, as tall as all others."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(piece, dtype=np.float32)
    if float(np.median(pixels)) < _DARK_GROUND:
        pixels = 255.0 - pixels
    dark, light = np.percentile(pixels, (2, 90))
    clear = np.clip((pixels - dark) / max(30.0, light - dark) * 255.0, 0, 255).astype(np.uint8)
    _clear_neighbours(clear)
    _clear_neighbours(clear[::-1])
    width = min(_WIDEST_PX, max(1, round(piece.width * _HEIGHT_PX / piece.height)))
    return Image.fromarray(clear).resize((width, _HEIGHT_PX), Image.Resampling.BICUBIC)


def _clear_neighbours(rows: Pixels) -> None:
    """Whitens what a box has of the line above: ink at its edge that an empty row divides from the line."""
    import numpy as np

    ink = np.count_nonzero(rows < _INK, axis=1)
    edge = ink[: max(1, round(_EDGE * len(ink)))]
    gaps = np.nonzero(edge <= _EMPTY * ink.max())[0]
    if len(gaps):
        rows[: gaps[-1]] = 255


def _read(sheet: Image.Image, count: int, models: TesseractModels) -> list[list[OcrWord]]:
    """The words that the quick reader sees in each line of the sheet; none where it fails."""
    found: list[list[OcrWord]] = [[] for _ in range(count)]
    try:
        seen = quick_reader.read(sheet, models, _DPI, one_block=True)
    except PageError:
        return found
    for word in seen.words():
        place = int(((word.top + word.bottom) / 2 - _GAP_PX / 2) // (_HEIGHT_PX + _GAP_PX))
        if 0 <= place < count and word.height >= _LEAST_HEIGHT * _HEIGHT_PX:
            found[place].append(word)
    return found


def _sureness(words: Sequence[OcrWord]) -> float:
    letters = sum(len(word.text) for word in words)
    return sum(word.confidence * len(word.text) for word in words) / letters if letters else 0.0
