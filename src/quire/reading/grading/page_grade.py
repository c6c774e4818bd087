"""Turns what is known of how a page was read into one confidence and one of three grades.

The thresholds are set so that a page is called good only if its text can be used without a second look. How often that
holds is measured by `bench/grades.py` on labelled pages. A page is never graded higher than its weakest evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from quire.domain.page import Grade
from quire.reading.grading.layer_damage import UNREADABLE
from quire.reading.grading.plausibility import ENOUGH_LETTERS, has_implausible_words, plausibility

LOW_PLAUSIBILITY = "implausible_text"
SYMBOL_DEBRIS = "symbol_debris"
INK_LEFT_OUT = "ink_left_out"
CUT_OFF = "cut_off"
DOUBTFUL_WORDS = "doubtful_words"
ON_ITS_SIDE = "on_its_side"
UNKNOWN_WRITING = "handwriting_or_unknown_script"
UNSUPPORTED = "not_supported_by_page"
UNGROUNDED_NUMBERS = "ungrounded_numbers"
ALTERED_WORDS = "words_not_on_page"
TEXT_LEFT_OUT = "text_left_out"
NOT_CHECKED = "not_checked"

_USUAL_ODD = 0.06
_ODD_WEIGHT = 1.6
_DEBRIS_WEIGHT = 2.5
_USUAL_DEBRIS = 0.01
_DISORDER = 0.88
UNREAD = 0.03
"""With more of the letters of a picture in no word a page is not good."""
_LEAST_CUT, _CUT_SHARE = 3, 0.05
_LEAST_UNKNOWN = 2
"""One may be a logo or a signature."""
_GOOD, _FAIR = 0.92, 0.75
BELOW_GOOD, BELOW_FAIR = 0.91, 0.74


@dataclass(frozen=True, slots=True)
class Judgement:
    """`confidence` is from 0 to 1, None where there is nothing to judge; `reasons` say what lowered it."""

    confidence: float | None
    grade: Grade | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OcrEvidence:
    """What an OCR reader knows of its page. Shares are from 0 to 1."""

    confidence: float | None
    doubtful: float = 0.0
    unread: float = 0.0  # of the letters that the picture shows, those that are in no word
    has_ink: bool = True
    cut_lines: int = 0  # lines that touch the edge of the picture
    lines: int = 0
    usual: float = 0.0  # the confidence that this reader has at least on pages that it reads right
    doubts: tuple[str, ...] = ()  # reasons to doubt the order of the text
    is_on_its_side: bool = False  # its lines run down the picture
    is_unknown_writing: bool = False  # clear letters that no reader knows
    unknown_lines: int = 0  # lines of a clear page that no reader is sure of


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """What a page's own words say of a model's answer about it.

    `support` is the share of the answer that they support, None where there are none; the others count elements, and
    words with numbers and words without, that the page has not at that place.
    """

    support: float | None
    ungrounded: int = 0
    ungrounded_numbers: int = 0
    altered: int = 0


def grade_of(confidence: float) -> Grade:
    if confidence >= _GOOD:
        return Grade.GOOD
    return Grade.FAIR if confidence >= _FAIR else Grade.LOW


def judge_text(
    text: str,
    debris: float,
    doubts: tuple[str, ...] = (),
    *,
    has_graphics: bool = False,
    damage: tuple[str, ...] = (),
) -> Judgement:
    """Judges a text layer. `debris` is the share of characters that no writer typed (private area, control, cid).

    `doubts` are reasons to doubt the order of the text. `has_graphics`: the page has pictures or charts, which a text
    layer does not have. `damage` is what `layer_damage` says of a layer.
    """
    if not text.strip():
        return Judgement(None, None)
    factor, reasons = _plausible(text)
    confidence = factor
    if doubts or has_graphics:
        confidence *= _DISORDER
        reasons = (*reasons, *doubts)
    if debris > _USUAL_DEBRIS:
        confidence *= _debris_factor(debris)
        reasons = (*reasons, SYMBOL_DEBRIS)
    if damage:
        confidence = min(confidence, BELOW_GOOD if UNREADABLE.isdisjoint(damage) else BELOW_FAIR)
        reasons = (*reasons, *damage)
    return _judgement(confidence, reasons)


def judge_ocr(text: str, evidence: OcrEvidence) -> Judgement:
    """Judges a page that OCR has read. A page with ink but without words is low."""
    if evidence.confidence is None:
        return Judgement(0.0, Grade.LOW) if evidence.has_ink else Judgement(None, None)
    factor, reasons = _plausible(text)
    confidence = evidence.confidence * factor
    if evidence.doubtful > 0.1:
        confidence *= 1.0 - 0.5 * evidence.doubtful
    if evidence.doubtful > 0.1 or evidence.confidence < evidence.usual:
        confidence = min(confidence, BELOW_GOOD)
        reasons = (*reasons, DOUBTFUL_WORDS)
    if evidence.doubts:
        confidence *= _DISORDER
        reasons = (*reasons, *evidence.doubts)
    if evidence.unread > UNREAD:
        confidence = min(confidence * (1.0 - evidence.unread), BELOW_GOOD)
        reasons = (*reasons, INK_LEFT_OUT)
    if evidence.is_on_its_side:
        confidence = min(confidence, BELOW_FAIR)
        reasons = (*reasons, ON_ITS_SIDE)
    if evidence.is_unknown_writing:
        confidence = min(confidence, BELOW_FAIR)
        reasons = (*reasons, UNKNOWN_WRITING)
    elif evidence.unknown_lines >= _LEAST_UNKNOWN:
        confidence = min(confidence, BELOW_GOOD)
        reasons = (*reasons, UNKNOWN_WRITING)
    if evidence.cut_lines >= max(_LEAST_CUT, _CUT_SHARE * evidence.lines):
        confidence = min(confidence, BELOW_GOOD)
        reasons = (*reasons, CUT_OFF)
    return _judgement(confidence, reasons)


def judge_answer(found: AnswerEvidence, agreement: float | None) -> Judgement:
    """Judges a model's answer by what the page supports of it, and by the share of the page's own text that it has.

    Neither a long page nor a right remainder makes an invented sentence, number or word right: with one of them an
    answer is never good. Where there was nothing to compare it with it has no grade, and says so.
    """
    if found.support is None:
        return Judgement(agreement, None, (NOT_CHECKED,))
    confidence = found.support if agreement is None else min(found.support, agreement)
    marks = {
        UNSUPPORTED: found.ungrounded,
        UNGROUNDED_NUMBERS: found.ungrounded_numbers,
        ALTERED_WORDS: found.altered,
        TEXT_LEFT_OUT: agreement is not None and agreement < _GOOD,
    }
    reasons = tuple(name for name, is_so in marks.items() if is_so)
    if reasons:
        confidence = min(confidence, BELOW_GOOD)
    return _judgement(confidence, reasons)


def text_confidence(text: str, debris: float = 0.0) -> float:
    """How sure one element of a text layer is, from 0 to 1. In few letters one odd name is no garbage."""
    if not has_implausible_words(text):
        return _debris_factor(debris)
    found = plausibility(text)
    weight = min(1.0, found.letters / ENOUGH_LETTERS)
    return _odd_factor(weight * found.implausible) * _debris_factor(debris)


def _plausible(text: str) -> tuple[float, tuple[str, ...]]:
    found = plausibility(text)
    if found.letters < ENOUGH_LETTERS or found.implausible <= _USUAL_ODD:
        return 1.0, ()
    return _odd_factor(found.implausible), (LOW_PLAUSIBILITY,)


def _odd_factor(implausible: float) -> float:
    return min(1.0, max(0.0, 1.0 - _ODD_WEIGHT * (implausible - _USUAL_ODD)))


def _debris_factor(debris: float) -> float:
    return max(0.0, 1.0 - _DEBRIS_WEIGHT * debris) if debris > _USUAL_DEBRIS else 1.0


def _judgement(confidence: float, reasons: tuple[str, ...]) -> Judgement:
    grade = grade_of(confidence)
    return Judgement(round(confidence, 3), grade, () if grade is Grade.GOOD else reasons)
