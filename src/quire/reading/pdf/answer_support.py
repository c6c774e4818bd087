"""Which of an answer's elements the words of a page support: where these words are, and which of them are not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from quire.domain.element import Box, Element, ElementKind, hull
from quire.reading.pdf.answer_words import (
    AnswerWord,
    Comparison,
    PageNumbers,
    in_any_order,
    signs_apart,
    words_in_row,
    words_of,
)
from quire.reading.pdf.block_matching import compact
from quire.reading.pdf.shown_page import ShownPage, bare_address

_ENOUGH = 0.6
_SLACK = 6
_MOST_PLACES = 24
_STEP = 3
_PIECE = 40
_LONG = 6
_TOGETHER = 0.4
"""Of the words of a longer text at least this share is followed by the word that follows it on the page."""
_VERBATIM = 0.7
"""A table of which less than this share is on the page in its order has another order there."""
_LEAST_MOVED = 3
_LEAST_AGAIN = 8
_AGAIN = 0.8
_LEAST_SENTENCE = 5
_SENTENCE_END = (".", "!", "?", "。")


class ElementSupport(NamedTuple):
    """An element with its box and its mark, how many of its words have a number that the page has not there, and how
    many of the others are not on the page at that place."""

    element: Element
    unknown_numbers: int = 0
    altered: int = 0


class PageIndex:
    """Where each word of the page is, and which numbers the page has."""

    def __init__(self, shown: ShownPage) -> None:
        texts = [word.text for word in shown.words]
        self._boxes = [word.box for word in shown.words]
        self._links = shown.links
        self._words = words_in_row(texts)
        self._is_cut = [text.endswith(("-", "\u00ad")) for text in texts]
        self._numbers = PageNumbers(texts)
        self._prose = Comparison(shown.is_exact, signs_apart=signs_apart(texts))
        self._cells = replace(self._prose, is_table=True)
        self._places: dict[str, list[int]] = {}
        self._taken: set[int] = set()
        for place, word in enumerate(self._words):
            if word.key:
                self._places.setdefault(word.key, []).append(place)
            if joined := self._with_next(place):
                self._places.setdefault(joined, []).append(place)

    def _with_next(self, place: int) -> str:
        """The word that a line's end or the space between thousands has cut in two; empty if there is none."""
        if place + 1 == len(self._words):
            return ""
        word, following = self._words[place], self._words[place + 1].key
        is_grouped = word.key.isdigit() and len(word.key) <= 3 and len(following) == 3 and following.isdigit()
        return word.key + following if following and (self._is_cut[place] or is_grouped) else ""

    def ground(self, element: Element) -> ElementSupport:
        own = words_of(element.plain_text)
        if not own:
            return ElementSupport(replace(element, grounded=None))
        is_table = element.kind is ElementKind.TABLE
        places, wrong = self._in_order_of(own, is_table=is_table)
        if is_table and wrong is None:
            by_columns = words_of(_by_columns(element))
            again, wrong = self._in_order_of(by_columns, is_table=True)
            own, places = (own, self._anywhere(own)) if wrong is None else (by_columns, again)
        supported = len(places) >= _ENOUGH * len(own)
        lost = {i for i, word in enumerate(own) if word.has_digits and not self._numbers.has_all_of(word)}
        if supported and wrong is not None:
            lost |= {i for i in wrong if own[i].has_digits}
            altered = len(set(wrong) - lost)
            supported = not _has_invented_sentence(own, wrong)
        else:
            altered = in_any_order(own, (word.key for word in self._words)) if supported or is_table else 0
        is_again = supported and not is_table and self._says_again(own, places)
        share = round(len(places) / len(own), 3)
        box = self._box(places) if supported else None
        mark = supported and not lost and not is_again
        return ElementSupport(replace(element, box=box, confidence=share, grounded=mark), len(lost), altered)

    def lacking(self, texts: Iterable[str]) -> tuple[int, int]:
        """How many numbers and how many other words of these texts the page has nowhere."""
        said = [word for text in texts for word in words_of(text)]
        lost = sum(word.has_digits and not self._numbers.has_all_of(word) for word in said)
        return lost, sum(not word.has_digits and word.key not in self._places for word in said)

    def unknown_addresses(self, addresses: Iterable[str]) -> int:
        """How many of the addresses are neither those of the page's links nor printed on it."""
        others = {bare_address(one) for one in addresses} - self._links
        printed = "".join(word.key for word in self._words) if others else ""
        return sum(not (key := compact(other)) or key not in printed for other in others)

    def left_out(self, elements: Sequence[Element]) -> int:
        """How many words of the page are in none of the elements, however they are cut."""
        said = Counter(word.key for element in elements for word in words_of(element.plain_text))
        missing, place = 0, 0
        while place < len(self._words):
            key, joined = self._words[place].key, self._with_next(place)
            if joined and not said[key] and said[joined]:
                said[joined] -= 1
                place += 1
            elif said[key]:
                said[key] -= 1
            else:
                missing += any(map(str.isalnum, key))
            place += 1
        return missing

    def _in_order_of(
        self, own: Sequence[AnswerWord], *, is_table: bool
    ) -> tuple[list[int], list[int] | None]:
        """Places close together, and which words the page has not there; None if too few are in its order."""
        least = _VERBATIM if is_table else _ENOUGH
        places = self._nearest([word.key for word in own])
        comparison = self._cells if is_table else self._prose
        if not places:
            found = self._wrong_of_pieces(own, least, comparison) if is_table and len(own) > _PIECE else None
            return (places, None) if found is None else (self._anywhere(own), found)
        # Words that the page has several times may share a place, so the text may reach farther than its places.
        reach = _reach(len(own))
        start = max(0, min(places[0], places[-1] - reach))
        wrong = comparison.differing(own, self._words[start : max(places[-1], places[0] + reach) + 1])
        if wrong is None:
            return places, self._wrong_of_pieces(own, least, comparison)
        return places, self._unless_elsewhere(own, wrong, least)

    def _wrong_of_pieces(
        self, own: Sequence[AnswerWord], least: float, comparison: Comparison
    ) -> list[int] | None:
        """The same for a text with too many equal words to compare it as a whole: some words of it at a time."""
        wrong: list[int] = []
        for start in range(0, len(own), _PIECE):
            piece = own[start : start + _PIECE]
            # Words that the page has very often tell nothing of the place.
            rare = [word.key for word in piece if 0 < len(self._places.get(word.key, ())) <= _MOST_PLACES]
            places = [place for place, _ in self._window(rare)]
            first, end = (max(0, places[0] - len(piece)), places[-1] + len(piece)) if places else (0, 0)
            found = comparison.differing(piece, self._words[first:end])
            wrong += [start + i for i in (range(len(piece)) if found is None else found)]
        return self._unless_elsewhere(own, wrong, least)

    def _unless_elsewhere(
        self, own: Sequence[AnswerWord], wrong: Sequence[int], least: float
    ) -> list[int] | None:
        found = [i for run in _runs(wrong) if not self._is_elsewhere(own[run[0] : run[-1] + 1]) for i in run]
        return found if len(found) <= (1 - least) * len(own) else None

    def _is_elsewhere(self, run: Sequence[AnswerWord]) -> bool:
        """Whether the page has these words, one behind the other, at another place: it has another order there."""
        if len(run) < _LEAST_MOVED:
            return False
        for place in self._places.get(run[0].key, ())[:_MOST_PLACES]:
            if self._prose.differing(run, self._words[place : place + len(run)]) == []:
                return True
        return False

    def _says_again(self, own: Sequence[AnswerWord], places: Sequence[int]) -> bool:
        """Whether an earlier element has these words of the page, and the page itself has them once."""
        again = sum(place in self._taken for place in places)
        self._taken.update(places)
        if len(own) < _LEAST_AGAIN or again < _AGAIN * len(places):
            return False
        return min(len(self._places.get(word.key, ())) for word in own if word.key in self._places) < 2

    def _anywhere(self, own: Sequence[AnswerWord]) -> list[int]:
        """A place for each of the words, each place once."""
        used: Counter[str] = Counter()
        found: list[int] = []
        for word in own:
            places = self._places.get(word.key, ())
            if used[word.key] < len(places):
                found.append(places[used[word.key]])
                used[word.key] += 1
        return sorted(found)

    def _nearest(self, keys: Sequence[str]) -> list[int]:
        """One place for each of the keys, all of them close together in the order of the page, as many as possible."""
        return self._in_order(self._window(keys))

    def _window(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        """The places that are close together and have most of the keys, each with the number of its key."""
        marks = sorted(
            (place, i) for i, key in enumerate(keys) for place in self._places.get(key, ())[:_MOST_PLACES]
        )
        reach = _reach(len(keys))
        best: tuple[int, int, int] = (0, 0, 0)
        counts: dict[int, int] = {}
        start = 0
        for end, (place, i) in enumerate(marks):
            counts[i] = counts.get(i, 0) + 1
            while place - marks[start][0] > reach:
                gone = marks[start][1]
                counts[gone] -= 1
                if not counts[gone]:
                    del counts[gone]
                start += 1
            if len(counts) > best[0]:
                best = (len(counts), start, end)
        return marks[best[1] : best[2] + 1] if best[0] else []

    def _in_order(self, window: Sequence[tuple[int, int]]) -> list[int]:
        """For each word of the element the place that fits the order best; none where the order is all different."""
        if not window:
            return []
        offsets = sorted(place - i for place, i in window)
        middle = offsets[len(offsets) // 2]
        taken: dict[int, int] = {}
        for place, i in window:
            if i not in taken or abs(place - i - middle) < abs(taken[i] - i - middle):
                taken[i] = place
        together = sum(0 < taken[i + 1] - taken[i] <= _STEP for i in taken if i + 1 in taken)
        if len(taken) >= _LONG and together < _TOGETHER * len(taken):
            return []
        return sorted(taken.values())

    def _box(self, places: Sequence[int]) -> Box:
        return hull([self._boxes[place] for place in places])


def _reach(count: int) -> int:
    """Over how many words of the page so many words of an answer may extend."""
    return count + count // 2 + _SLACK


def _runs(places: Sequence[int]) -> list[list[int]]:
    """Numbers that follow each other together."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][-1] + 1:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _by_columns(element: Element) -> str:
    rows = element.table.rows if element.table is not None else ()
    return "\n".join("\t".join(column) for column in zip(*rows, strict=True))


def _has_invented_sentence(own: Sequence[AnswerWord], wrong: Sequence[int]) -> bool:
    """Whether the page lacks more than it has of a sentence."""
    odd, start = set(wrong), 0
    for end, word in enumerate(own, 1):
        if end == len(own) or word.text.rstrip("\"'”’)*_").endswith(_SENTENCE_END):
            lacking = sum(i in odd for i in range(start, end))
            if end - start >= _LEAST_SENTENCE and lacking > (1 - _ENOUGH) * (end - start):
                return True
            start = end
    return False
