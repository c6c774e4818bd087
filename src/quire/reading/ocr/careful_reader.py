"""The careful reader: RapidOCR's models, which come with its wheel, run by onnxruntime.

It reads noise, blur and odd type that the quick reader can't, for about five times the work. It has no idea of
paragraphs: its lines come from top to bottom, and the layout analysis puts them in order. It is loaded when it is first
needed and then kept, so that a reader process pays for that once. It never downloads anything: the models' files are
named one by one.

Weakness: it reads the Latin letters of Europe, Chinese and Japanese. Greek and Vietnamese are in its alphabet, but it
drops letters with accents of theirs (tried: 40 and 14 in a hundred), so it isn't asked to read them.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from quire.errors import PageError
from quire.reading.ocr.line_budget import LineBudget
from quire.reading.ocr.line_ink import LineInk, crossing, gutters, line_inks
from quire.reading.ocr.line_threads import for_each_line, share_heap
from quire.reading.ocr.ocr_words import Box, OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.sure_lines import SURELY_READ, SureLines

if TYPE_CHECKING:
    from PIL import Image

CAREFUL_READER = "rapidocr"

_DETECTION = "models/PP-OCRv6_det_small.onnx"
_RECOGNITION = "models/PP-OCRv6_rec_small.onnx"
_DETECTION_PX = 1280
_LEAST_SCORE = 0.5
_LINE_PX, _LEAST_LINE_PX = 48, 96
"""The height that lines are read at, and the width that a shorter one is filled up to. Work grows with the width: the
320 pixels that the model was trained with take three times as long for a cell of a table, and read no more in it.
"""
_LONGEST_PX = 4000
_LATIN = (
    "afr bos bre cat ceb ces cos cym dan deu eng enm epo est eus fao fil fin fra frm fry gla gle glg hat hrv hun ind "
    "isl ita jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron slk slv spa sqi srp_latn sun swa swe ton tur "
    "uzb"
)
_CLOSE_SET = frozenset(("chi_sim", "chi_tra", "jpn", "chi_sim_vert", "chi_tra_vert", "jpn_vert"))
"""Written without spaces, and with wide signs that are meant."""
_CLOSE_SIGNS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
"""Signs of these languages: a line that has some is in one of them, whatever language was asked for."""
_NONE_KNOWN = SureLines()
_KNOWN = frozenset(_LATIN.split()) | _CLOSE_SET


def available() -> bool:
    """Whether the program and its models are installed."""
    folder = _wheel()
    return (
        folder is not None
        and (folder / _DETECTION).exists()
        and (folder / _RECOGNITION).exists()
        and find_spec("onnxruntime") is not None
    )


def reads(languages: Sequence[str]) -> bool:
    """Whether the model knows the letters of all these languages (as Tesseract names them)."""
    return all(language in _KNOWN for language in languages)


def read(
    picture: Image.Image,
    languages: Sequence[str],
    known: SureLines = _NONE_KNOWN,
    budget: LineBudget | None = None,
) -> RecognisedPage:
    """The picture's words, line by line from top to bottom. Lines that are known already are not read again.

    Raises PageError where the model can't be loaded or fails.
    """
    pieces, is_over = _pieces(picture, known, budget)
    seen = RecognisedPage(picture.width, picture.height, is_over_budget=is_over)
    close_set = bool(_CLOSE_SET.intersection(languages))
    lines: list[OcrLine] = []
    for piece, ink in _measured(picture, pieces):
        text = piece.text if close_set or _CLOSE_SIGNS.search(piece.text) else _plain(piece.text)
        _, top, _, bottom = piece.box
        words = _words(text, (ink.left, top, ink.right, bottom) if ink else piece.box, piece.score)
        if words:
            size, baseline = (ink.size, ink.baseline) if ink else (0.0, 0.0)
            lines.append(OcrLine(words, is_loose=True, type_size=size, baseline=baseline))
    seen.paragraphs = [[line] for line in sorted(lines, key=lambda line: line.box()[1::-1])]
    return seen


class _Piece(NamedTuple):
    box: Box
    text: str
    score: float


def _pieces(picture: Image.Image, known: SureLines, budget: LineBudget | None) -> tuple[list[_Piece], bool]:
    """The lines of a picture, as the model finds them, that it can read or that are known.

    The second says that the budget did not suffice for the others.
    """
    import numpy as np

    pixels = np.asarray(picture.convert("RGB"))
    with _model() as engine:
        corners = engine(pixels, use_det=True, use_cls=False, use_rec=False).boxes
        if corners is None:
            return [], False
        boxes = [_hull(one) for one in corners]
        texts: dict[int, tuple[str, float]] = {
            place: (text, SURELY_READ)
            for place, box in enumerate(boxes)
            if (text := known.text_in(box)) is not None
        }
        rest = [place for place in range(len(boxes)) if place not in texts]
        pictures = (
            dict(zip(rest, engine.crop_text_regions(pixels, corners[rest]), strict=True)) if rest else {}
        )
        found, is_over = _within(budget, engine, boxes, pictures)
        texts.update(found)
    read = ((boxes[place], *texts[place]) for place in sorted(texts))
    pieces = [_Piece(box, text, score) for box, text, score in read if text.strip() and score >= _LEAST_SCORE]
    return pieces, is_over


def _within(
    budget: LineBudget | None, engine: Any, boxes: Sequence[Box], pictures: Mapping[int, Any]
) -> tuple[dict[int, tuple[str, float]], bool]:
    """The texts of the lines that are given with their pictures, and whether some were not read for want of budget."""

    def read_those(places: Sequence[int]) -> dict[int, tuple[str, float]]:
        return dict(zip(places, _read_pictures(engine, [pictures[at] for at in places]), strict=True))

    if budget is None:
        return read_those(list(pictures)), False
    widths = {place: _width_px(part) for place, part in pictures.items()}
    found = budget.left_to_quick({place: boxes[place] for place in pictures}, widths)
    is_over = bool(found)
    places = [place for place in pictures if place not in found]
    first = budget.first_lines(places, widths)
    read = read_those(first)
    found.update(read)
    others = [place for place in places if place not in read]
    if others and budget.is_spent(list(read.values())):
        return found, True
    found.update(read_those(others))
    return found, is_over


def _width_px(part: Any) -> float:
    """How wide the picture of a line is at the height that it is read at."""
    height, width = part.shape[:2]
    return float(max(_LEAST_LINE_PX, _LINE_PX * width / max(1, height)))


def _read_pictures(engine: Any, pictures: Sequence[Any]) -> list[tuple[str, float]]:
    """The text in each picture of a line, and how sure the model is of it."""

    def read_one(place: int) -> tuple[str, float]:
        found = engine.recognize_txt([pictures[place]])
        return str(found.txts[0]), float(found.scores[0])

    widths = [part.shape[1] / max(1, part.shape[0]) for part in pictures]
    order = sorted(range(len(pictures)), key=lambda place: -widths[place])
    found = dict(zip(order, for_each_line(read_one, order), strict=True))
    return [found[place] for place in range(len(pictures))]


def _hull(corners: Any) -> Box:
    xs, ys = [float(x) for x, _ in corners], [float(y) for _, y in corners]
    return round(min(xs)), round(min(ys)), round(max(xs)), round(max(ys))


def _measured(picture: Image.Image, pieces: list[_Piece]) -> list[tuple[_Piece, LineInk | None]]:
    """The lines with their ink. One that goes over the gutter of two columns is read again in two parts."""
    import numpy as np

    darkness = 255 - np.asarray(picture.convert("L"))
    inks = line_inks(darkness, [piece.box for piece in pieces], [piece.text for piece in pieces])
    found = list(zip(pieces, inks, strict=True))
    tight = [(ink.left, piece.box[1], ink.right, piece.box[3]) for piece, ink in found if ink]
    known = gutters(tight, picture.width)
    cuts = {piece.box: cut for piece in pieces if (cut := crossing(darkness, piece.box, known)) is not None}
    if not cuts:
        return found
    parts: list[_Piece] = []
    for piece in pieces:
        cut = cuts.get(piece.box)
        parts += [piece] if cut is None else _halves(picture, piece, cut)
    boxes, texts = [piece.box for piece in parts], [piece.text for piece in parts]
    return list(zip(parts, line_inks(darkness, boxes, texts), strict=True))


def _halves(picture: Image.Image, piece: _Piece, cut: int) -> list[_Piece]:
    """What is before and behind the cut; the whole line where one of them can't be read."""
    left, top, right, bottom = piece.box
    found: list[_Piece] = []
    for box in ((left, top, cut, bottom), (cut, top, right, bottom)):
        text, score = _read_part(picture.crop(box))
        if not text or score < _LEAST_SCORE:
            return [piece]
        found.append(_Piece(box, text, score))
    return found


def read_word(picture: Image.Image, box: Box, languages: Sequence[str]) -> tuple[str, float]:
    """The text in one box, and a confidence from 0 to 1. Raises as `read` does."""
    left, top, right, bottom = box
    margin = max(2, round(0.15 * (bottom - top)))
    part = picture.crop(
        (
            max(0, left - margin),
            max(0, top - margin),
            min(picture.width, right + margin),
            min(picture.height, bottom + margin),
        )
    )
    if part.width < 2 or part.height < 2:
        return "", 0.0
    text, score = _read_part(part)
    if not _CLOSE_SET.intersection(languages):
        text = _plain(text)
    return " ".join(text.split()), score


def _read_part(picture: Image.Image) -> tuple[str, float]:
    """The text of a picture that holds one line, and how sure the model is of it."""
    import numpy as np

    with _model() as engine:
        found = engine(np.asarray(picture.convert("RGB")), use_det=False, use_cls=False, use_rec=True)
    return (str(found.txts[0]), float(found.scores[0])) if found.txts else ("", 0.0)


@contextmanager
def _model() -> Iterator[Any]:
    try:
        yield _engine()
    except Exception as error:
        # Its own classes, onnxruntime's, OpenCV's, or MemoryError at the child's limit: whatever it was, the model
        # starts afresh for the next page, and its memory is given back.
        _engine.cache_clear()
        raise PageError(f"The careful OCR model failed ({type(error).__name__}).") from error


@functools.cache
def _engine() -> Any:
    """The one model of this process: children live for many pages."""
    folder = _wheel()
    if folder is None or not available():
        raise PageError("The careful OCR model is not installed. Install rapidocr and onnxruntime.")
    from rapidocr import RapidOCR

    share_heap()
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.use_cls": False,  # it turns upright lines over, and pages come upright
            "Global.max_side_len": _LONGEST_PX,
            "Global.text_score": _LEAST_SCORE,
            "Det.model_path": str(folder / _DETECTION),
            "Det.limit_type": "max",
            "Det.limit_side_len": _DETECTION_PX,  # lines of 7 points on A4 are still found
            "Rec.model_path": str(folder / _RECOGNITION),
            "Rec.rec_img_shape": [3, _LINE_PX, _LEAST_LINE_PX],
            "Rec.rec_batch_num": 1,  # six at a time need twice the memory and no less work
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,  # there is a reader process for each core
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _words(text: str, box: Box, score: float) -> list[OcrWord]:
    """The words of a line, each with its share of the line's box by its number of characters."""
    parts = text.split()
    if not parts:
        return []
    left, top, right, bottom = box
    step = (right - left) / max(1, len(" ".join(parts)))
    found: list[OcrWord] = []
    at = 0
    for part in parts:
        found.append(
            OcrWord(round(left + at * step), top, round(left + (at + len(part)) * step), bottom, part, score)
        )
        at += len(part) + 1
    return found


def _plain(text: str) -> str:
    """Signs of Chinese print (wide letters, a degree with its C in one) as the Latin ones that the page has."""
    return "".join(unicodedata.normalize("NFKC", sign) if _is_wide(sign) else sign for sign in text)


def _is_wide(sign: str) -> bool:
    return "\uff00" <= sign <= "\uffef" or sign in "\u3000\u2103\u2109"


def _wheel() -> Path | None:
    found = find_spec("rapidocr")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])
