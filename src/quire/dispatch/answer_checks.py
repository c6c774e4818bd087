"""Checks a model's answer before it is accepted: empty, refused, cut off, repeating, or unlike the page's text.

Weakness: for a page without a text layer only the form of the answer can be checked, and its confidence is unknown.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from quire.providers.provider_protocol import StopReason, VisionAnswer

EMPTY = "answer_empty"
REFUSED = "answer_refused"
CUT_OFF = "answer_cut_off"
REPEATING = "answer_repeating"
AT_ODDS = "answer_at_odds_with_text"

_GRAM = 4
_LAYER_MIN_CHARS = 80
"""A text layer with fewer letters and digits than this (a stamp, a page number) is not compared."""
_AGREEMENT_MIN = 0.3
_REFUSAL_MAX_CHARS = 600
_LOOP_MIN_TIMES = 8
_LOOP_MIN_CHARS = 400
_LOOP_MAX_UNIT = 200
_SAME_LINES = 25

_INVISIBLE = re.compile(
    r"[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]|[\ufe00-\ufe0f]{2,}"
)
"""Marks of direction, spaces of no width, tags, rows of variation selectors; not what joins or parts letters."""
_REFUSALS = re.compile(
    r"^\W*(?:i(?:['’]m| am) (?:sorry|unable|not able)|i (?:can(?:['’]t|not)|won['’]t)|sorry[,. ]|"
    r"(?:unfortunately|apologies),? i|as an ai\b|i do not (?:have|feel))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is '' for an accepted answer. `confidence` is its agreement with the text layer, if there is one."""

    reason: str
    confidence: float | None = None


def visible_text(text: str) -> str:
    """The text of an answer without signs that nobody sees: they could carry words, or turn the order of figures."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def check(answer: VisionAnswer, layer: str) -> Verdict:
    """Returns the verdict on an answer. `layer` is the page's own text where it can be trusted, otherwise empty."""
    text = answer.text.strip()
    letters = _letters(text)
    agreement = _agreement(_letters(layer), letters)
    return Verdict(_fault(answer.stop, text, letters, layer, agreement), agreement)


def _fault(stop: StopReason, text: str, letters: str, layer: str, agreement: float | None) -> str:
    unlike = agreement is not None and agreement < _AGREEMENT_MIN
    # A page may begin like a refusal; then its text layer has the same words.
    excuse = len(text) <= _REFUSAL_MAX_CHARS and (agreement is None or unlike) and _REFUSALS.match(text)
    faults = (
        (REFUSED, stop in (StopReason.REFUSAL, StopReason.FILTER) or bool(excuse)),
        (EMPTY, not letters),
        (REPEATING, _repeats(text) and not _repeats(layer.strip())),
        (CUT_OFF, stop is StopReason.LENGTH),
        (AT_ODDS, unlike),
    )
    return next((reason for reason, found in faults if found), "")


def _letters(text: str) -> str:
    """Letters and digits only, in one case."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text))).casefold()


def _agreement(layer: str, answer: str) -> float | None:
    """The share of the layer that is in the answer, by runs of four characters; order and markup don't matter."""
    if len(layer) < _LAYER_MIN_CHARS:
        return None
    wanted = {layer[i : i + _GRAM] for i in range(len(layer) - _GRAM + 1)}
    found = {answer[i : i + _GRAM] for i in range(len(answer) - _GRAM + 1)}
    return round(len(wanted & found) / len(wanted), 3)


def _repeats(text: str) -> bool:
    """Whether the text ends in a loop, or repeats one line many times."""
    if len(text) < _LOOP_MIN_CHARS:
        return False
    for unit in range(1, _LOOP_MAX_UNIT + 1):
        tail = text[-unit:]
        if not any(map(str.isalnum, tail)):
            continue
        times, at = 1, len(text) - unit
        while at >= unit and text[at - unit : at] == tail:
            times, at = times + 1, at - unit
        if times >= _LOOP_MIN_TIMES and times * unit >= _LOOP_MIN_CHARS:
            return True
    same, before = 0, ""
    for line in text.splitlines():
        stripped = line.strip()
        if not any(map(str.isalnum, stripped)):
            continue
        same = same + 1 if stripped == before else 1
        before = stripped
        if same >= _SAME_LINES:
            return True
    return False
