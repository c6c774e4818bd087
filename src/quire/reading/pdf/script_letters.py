"""Raised and lowered letters: where they belong, and how they are written.

MuPDF gives a small letter that is set above or below its line as a line of its own where the gap beside it is wide
enough. Here it goes back behind the word that it belongs to. Raised figures are written as such ("m²", "1,234¹"):
otherwise the power, or the mark of a note, would be a part of the word or of the number. Lowered figures are written
as plain ones ("H2O", "CO2"), for that is how they are searched for; beside a figure they are lowered ("10₂"), for
there they would make another number of it.

Weakness: raised letters are plain ones ("5th", "ex"); marks in brackets, or behind a space, are as they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from quire.reading.pdf.layer_words import LayerWords, Word
from quire.reading.raised_figures import raised_text

_SMALL = (0.4, 0.85)
"""The size of such letters, of that of their line."""
_RAISED, _LOWERED = (0.1, 0.7), (-0.4, -0.04)
"""How far above the line's base they are, in sizes of the line."""
_UPRIGHT = (1.0, 0.0)
_LONGEST = 6
_BEHIND_EM = (-0.2, 0.25)
_NO_SPACE_EM = 0.12
_LOWERED_FIGURES = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

RawLine = dict[str, Any]
Span = dict[str, Any]


def set_scripts(content: dict[str, Any], words: LayerWords) -> None:
    """Writes raised and lowered figures as such, and puts letters that are lines of their own behind their words.

    The dictionary of MuPDF is changed, and `words` likewise. Most pages cost a look at the sizes of their spans.
    """
    short: list[RawLine] = []
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            spans = line["spans"]
            if len(spans) > 1 and _has_sizes(spans):
                if line["dir"] == _UPRIGHT:
                    _write_scripts(spans, words)
            elif line["bbox"][2] - line["bbox"][0] < _LONGEST * spans[0]["size"] and _is_short(line):
                short.append(line)
    if short:
        _put_back(content, short, words)


def _has_sizes(spans: Sequence[Span]) -> bool:
    first = spans[0]["size"]
    return any(abs(span["size"] - first) > 0.1 * first for span in spans)


def _is_short(line: RawLine) -> bool:
    text = "".join(span["text"] for span in line["spans"]).strip()
    return 0 < len(text) <= _LONGEST and " " not in text and line["dir"] == _UPRIGHT


def _write_scripts(spans: list[Span], words: LayerWords) -> None:
    """Raised and lowered figures inside of a line. A run of them is one text, in however many fonts it is."""
    before = "".join(span["text"] for span in spans)
    text, changed = before, list[tuple[int, tuple[float, float]]]()
    for start, stop, rise in _script_runs(spans):
        first = sum(len(span["text"]) for span in spans[:start])
        after = first + sum(len(span["text"]) for span in spans[start:stop])
        own = text[first:after]
        written = _written(own, rise, text[first - 1 : first], text[after : after + 1])
        if written != own:
            text = text[:first] + written + text[after:]
            x0, y0, x1, y1 = spans[start]["bbox"]
            changed.append((first + len(own) - len(own.lstrip()), ((x0 + x1) / 2, (y0 + y1) / 2)))
    if not changed:
        return
    at = 0
    for place, span in enumerate(spans):
        end = at + len(span["text"])
        spans[place] = {**span, "text": text[at:end]}
        at = end
    words.correct_line(before, text, changed)


def _script_runs(spans: Sequence[Span]) -> list[tuple[int, int, float]]:
    """The runs of raised or lowered spans: the first of each, the one behind it, and how far the first is raised."""
    runs: list[tuple[int, int, float]] = []
    base: Span | None = None
    for place, span in enumerate(spans):
        if not span["text"].strip():
            continue
        rise = _rise(span, base) if base is not None else None
        if rise is None:
            base = span
        elif runs and runs[-1][1] == place and (runs[-1][2] > 0) == (rise > 0):
            runs[-1] = (runs[-1][0], place + 1, runs[-1][2])
        else:
            runs.append((place, place + 1, rise))
    return runs


def _rise(span: Span, base: Span) -> float | None:
    """How far the small letters are above their line, in its size; None if they are not small, or level with it."""
    size = base["size"]
    if not _SMALL[0] * size <= span["size"] <= _SMALL[1] * size:
        return None
    rise: float = (base["origin"][1] - span["origin"][1]) / size
    return rise if _RAISED[0] <= rise <= _RAISED[1] or _LOWERED[0] <= rise <= _LOWERED[1] else None


def _written(text: str, rise: float, before: str, after: str) -> str:
    """How a raised or lowered text is written between these two characters."""
    if rise < 0:
        is_beside = before.isdigit() or after.isdigit()
        return text.translate(_LOWERED_FIGURES) if is_beside and text.strip().isdecimal() else text
    return raised_text(text, before, after)


def _put_back(content: dict[str, Any], short: Sequence[RawLine], words: LayerWords) -> None:
    """Letters that are lines of their own as parts of the lines that they belong to."""
    hosts = _hosts(content, min(line["spans"][0]["size"] for line in short) / _SMALL[1])
    if not hosts:
        return
    heights = [height for height, _, _ in hosts]
    largest = max(base["size"] for _, base, _ in hosts)
    gone: set[int] = set()
    for line in sorted(short, key=lambda line: line["bbox"][0]):
        span, left = line["spans"][0], line["bbox"][0]
        if span["size"] > _SMALL[1] * largest:
            continue
        y, reach = span["origin"][1], _RAISED[1] * min(largest, span["size"] / _SMALL[0])
        for _, base, host in hosts[bisect_left(heights, y - reach) : bisect_right(heights, y + reach)]:
            rise = _rise(span, base) if host["bbox"][0] < left else None
            if rise is not None and id(host) not in gone and _joins(line, host, base, rise, words):
                gone.add(id(line))
                break
    if gone:
        for block in content["blocks"]:
            if "lines" in block:
                block["lines"] = [line for line in block["lines"] if id(line) not in gone]


def _hosts(content: dict[str, Any], least: float) -> list[tuple[float, Span, RawLine]]:
    """The lines that small letters may belong to, with their heights and first spans, from top to bottom."""
    found: list[tuple[float, Span, RawLine]] = []
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            base = line["spans"][0]
            if not base["text"].strip():
                base = next((span for span in line["spans"] if span["text"].strip()), base)
            if base["size"] >= least and line["dir"] == _UPRIGHT:
                found.append((base["origin"][1], base, line))
    found.sort(key=lambda one: one[0])
    return found


def _joins(line: RawLine, host: RawLine, base: Span, rise: float, words: LayerWords) -> bool:
    """Puts the line's letters behind a word of the host; False where they are not directly behind one."""
    span, em, (x0, _, x1, _) = line["spans"][0], base["size"], line["bbox"]
    if x0 > host["bbox"][2] + _BEHIND_EM[1] * em:
        return False
    top, bottom = host["bbox"][1], host["bbox"][3]
    tall = span["bbox"][3] - span["bbox"][1] + 1
    near = [w for w in words.found() if top < (w[1] + w[3]) / 2 < bottom and w[3] - w[1] > tall]
    ended = [w for w in near if _BEHIND_EM[0] * em <= x0 - w[2] <= _BEHIND_EM[1] * em and w[0] < x0]
    own = [w for w in words.found() if _is_at(w, line["bbox"])] if ended else []
    if not own:
        return False
    word = max(ended, key=lambda w: w[2])
    following = [w for w in near if w[0] > word[2] and w[0] - x1 < _NO_SPACE_EM * em]
    text = "".join(one["text"] for one in line["spans"]).strip()
    if rise > 0 and word[4][-1:].isdigit() and text.isalpha():
        return False  # the mark of a note is no part of a number
    after = following[0] if following else None
    written = _written(text, rise, word[4][-1:], after[4][:1] if after else "")
    if not _insert(host, word, after, {**span, "text": written}):
        return False
    words.merge([word, *own, *following[:1]], f"{word[4]}{written}{after[4] if after else ''}")
    left, y0, right, y1 = host["bbox"]
    host["bbox"] = (left, y0, max(right, x1), y1)
    return True


def _is_at(word: Word, box: Sequence[float]) -> bool:
    x, y = (word[0] + word[2]) / 2, (word[1] + word[3]) / 2
    return bool(box[0] <= x <= box[2] and box[1] <= y <= box[3] and word[3] - word[1] <= box[3] - box[1] + 1)


def _insert(host: RawLine, word: Word, after: Word | None, script: Span) -> bool:
    """Puts the span behind the word, without the space that MuPDF has put there if `after` is close behind it."""
    for place, span in enumerate(host["spans"]):
        left, top, right, bottom = span["bbox"]
        if not left - 1 <= word[0] <= right:
            continue
        text: str = span["text"]
        at = _end_of(word[4], text, (word[0] - left) / max(1.0, right - left) * len(text))
        if at is None:
            continue
        head = {**span, "text": text[:at], "bbox": (left, top, word[2], bottom)}
        tail = {**span, "text": text[at:], "bbox": (word[2], top, right, bottom)}
        rest = [tail, *host["spans"][place + 1 :]]
        if after is not None:
            rest = _without_space(rest)
        host["spans"] = [*host["spans"][:place], head, script, *rest]
        return True
    return False


def _end_of(word: str, text: str, place: float) -> int | None:
    """Where the word ends in the text, the occurrence nearest to `place`."""
    found = list(re.finditer(rf"(?<!\S){re.escape(word)}(?!\S)", text))
    return min(found, key=lambda match: abs(match.start() - place)).end() if found else None


def _without_space(spans: Sequence[Span]) -> list[Span]:
    """The spans without the white space that they begin with."""
    for place, span in enumerate(spans):
        if span["text"].strip():
            return [{**span, "text": span["text"].lstrip()}, *spans[place + 1 :]]
    return list(spans)
