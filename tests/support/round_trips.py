"""Checks that what is written from elements leads back to them: Markdown, HTML, DoclingDocuments, chunks, citations.

Used on the samples by tests, and on the whole corpus by `bench/round_trips.py`.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pymupdf
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from quire.domain.element import Box, Element, ElementKind, PageElements
from quire.domain.element_codec import decode
from quire.domain.text_chunk import ChunkOptions
from quire.extraction.citation_check import QuoteMatch, ValueClaim, check_claim
from quire.extraction.field_schema import SchemaLeaf
from quire.extraction.page_words import PageWords, words_of
from quire.reading.files.document_source import inspect
from quire.reading.files.page_chunks import read_chunk
from quire.reading.pdf.page_reader import ReadOptions
from quire.rendering.docling_json import docling_dict
from quire.rendering.document_chunks import Chunker
from quire.rendering.document_html import DOCUMENT_END, document_start, page_section
from quire.rendering.page_markdown import render_markdown
from quire.rendering.word_boxes import line_words

_CHUNK_PAGES = 16
_BLOCKS = {
    ElementKind.TITLE: "heading",
    ElementKind.HEADING: "heading",
    ElementKind.CODE: "fence",
    ElementKind.QUOTE: "blockquote",
    ElementKind.TABLE: "table",
    ElementKind.LIST_ITEM: "list",
}
_QUOTE_WORDS = 5
_FOUND_SHARE = 0.95
_MARGIN_PT = 3.0
_TEXT = SchemaLeaf(("string",), {"type": "string"})
_MARKUP = re.compile(r"[*_`#|<>\\-]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class RoundTrips:
    """What was checked, and what did not lead back."""

    checked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    word_errors: list[float] = field(default_factory=list)
    """Of the left and right edges of words, as shares of the height of their lines."""

    def add(self, name: str, problem: str = "") -> None:
        self.checked[name] += 1
        if problem:
            self.failed[name] += 1
            self.examples.append(f"{name}: {problem[:300]}")


def read_elements(path: Path, most_pages: int) -> list[PageElements]:
    """The elements of the first pages of a document, read in this process without OCR."""
    count = min(most_pages, inspect(str(path), None, 1_000_000).page_count)
    found: list[PageElements] = []
    for first in range(1, count + 1, _CHUNK_PAGES):
        numbers = tuple(range(first, min(first + _CHUNK_PAGES, count + 1)))
        chunk = read_chunk(str(path), None, numbers, ReadOptions(), False)
        for one in chunk.pages:
            raw = chunk.block[one.elements_offset : one.elements_offset + one.elements_length]
            found.append(decode(raw) if raw else PageElements(one.number))
    return found


def check_document(path: Path, trips: RoundTrips, most_pages: int = 50) -> None:
    """Checks all forms of a document's first pages; places are checked for PDFs."""
    pages = read_elements(path, most_pages)
    for page in pages:
        _check_markdown(page, trips, path.name)
    _check_html(pages, trips, path.name)
    _check_docling(pages, trips, path.name)
    if b"%PDF" in path.read_bytes()[:1024]:
        document = pymupdf.open(path, filetype="pdf")
        try:
            words = {page.number: _page_words(document[page.number - 1], page) for page in pages}
        finally:
            document.close()
        _check_chunks(pages, words, trips, path.name)
        for page in pages:
            _check_citations(page, words[page.number], trips, path.name)
            trips.word_errors += _word_errors(page, words[page.number])


def _nodes(markdown: str) -> list[str]:
    """The top-level blocks; lists that follow each other are one, as items of two kinds make two of them."""
    parser = MarkdownIt("commonmark").enable("table")
    types = [node.type for node in SyntaxTreeNode(parser.parse(markdown)).children]
    return _joined_lists("list" if one.endswith("_list") else one for one in types)


def _joined_lists(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        if not (name == "list" and found[-1:] == ["list"]):
            found.append(name)
    return found


def _check_markdown(page: PageElements, trips: RoundTrips, name: str) -> None:
    shown = [one for one in page.elements if not one.repeated]
    holders = {one.parent for one in shown} - {None}
    for one in shown:
        text = render_markdown([one])
        if one.id in holders or one.parent or not text or one.kind is ElementKind.FIGURE:
            continue
        expected = [_BLOCKS.get(one.kind, "paragraph")]
        found = _nodes(text)
        problem = "" if found == expected else f"{name} p{page.number} {expected} became {found}: {text!r}"
        trips.add("markdown blocks", problem)
    if not holders:
        alone = [node for one in shown for node in _nodes(render_markdown([one]))]
        joined = _joined_lists(alone)
        whole = _nodes(render_markdown(shown))
        trips.add("markdown pages", "" if whole == joined else f"{name} p{page.number}: {joined} != {whole}")


def _check_html(pages: Sequence[PageElements], trips: RoundTrips, name: str) -> None:
    written = document_start(name) + "".join(page_section(page) for page in pages) + DOCUMENT_END
    problem = ""
    try:
        root = ElementTree.fromstring(_NOT_IN_XML.sub("", written))
    except ElementTree.ParseError as error:
        problem = f"{name}: {error}"
    else:
        ids = [one.get("id") for one in root.iter() if one.get("id")]
        problem = "" if len(ids) == len(set(ids)) else f"{name}: an id is used twice"
    trips.add("html documents", problem)


@cache
def _docling_validator() -> Draft202012Validator:
    schema = Path(__file__).parents[1] / "rendering" / "docling_document.schema.json"
    return Draft202012Validator(json.loads(schema.read_text()))


def _check_docling(pages: Sequence[PageElements], trips: RoundTrips, name: str) -> None:
    document: dict[str, Any] = docling_dict(name, None, [(page, "") for page in pages])
    error = next(_docling_validator().iter_errors(document), None)
    trips.add("docling documents", "" if error is None else f"{name}: {error.message}")


PlacedWord = tuple[float, float, float, float, str]


def _page_words(page: Any, elements: PageElements) -> list[PlacedWord]:
    """The words of the page with their boxes, by MuPDF, turned as the page is turned to be read."""
    words: list[PlacedWord] = [(*word[:4], word[4]) for word in page.get_text("words")]
    boxes = [(one.box, one.plain_text) for one in elements.elements if one.box is not None]
    size = page.rect if page.rotation in (0, 180) else pymupdf.Rect(0, 0, page.rect.height, page.rect.width)

    def fitting(turned: list[PlacedWord]) -> int:
        return sum(any(_is_in(one, box) and one[4] in text for box, text in boxes) for one in turned)

    if page.rotation == 0 and 2 * fitting(words) >= len(words):
        return words
    wide, high = size.width, size.height
    turns = (
        [(high - y1, x0, high - y0, x1, word) for x0, y0, x1, y1, word in words],
        [(wide - x1, high - y1, wide - x0, high - y0, word) for x0, y0, x1, y1, word in words],
        [(y0, wide - x1, y1, wide - x0, word) for x0, y0, x1, y1, word in words],
    )
    return max((words, *turns), key=fitting)


def _share_at(text: str, boxes: Sequence[Box], words: Sequence[PlacedWord]) -> float:
    """The share of the text's letters and digits that the page has in the boxes."""
    there: Counter[str] = Counter()
    for x0, y0, x1, y1, word in words:
        across, down = (x0 + x1) / 2, (y0 + y1) / 2
        if any(
            box[0] - _MARGIN_PT <= across <= box[2] + _MARGIN_PT
            and box[1] - _MARGIN_PT <= down <= box[3] + _MARGIN_PT
            for box in boxes
        ):
            there.update("".join(words_of(word)))
    wanted = Counter("".join(words_of(text)))
    total = wanted.total()
    return (wanted & there).total() / total if total else 1.0


def _check_chunks(
    pages: Sequence[PageElements],
    words: dict[int, list[PlacedWord]],
    trips: RoundTrips,
    name: str,
) -> None:
    chunker = Chunker(ChunkOptions(max_tokens=256))
    chunks = [*itertools.chain.from_iterable(map(chunker.add, pages)), *chunker.end()]
    for chunk in chunks:
        boxes = [place.box for place in chunk.places]
        if not boxes or None in boxes or not any(words[place.page] for place in chunk.places):
            continue
        by_page = {
            place.page: [one.box for one in chunk.places if one.page == place.page] for place in chunk.places
        }
        joined = [
            (*(value + 10_000 * page if at % 2 == 0 else value for at, value in enumerate(box or ())),)
            for page, listed in by_page.items()
            for box in listed
        ]
        placed = [
            (x0 + 10_000 * page, y0, x1 + 10_000 * page, y1, word)
            for page in by_page
            for x0, y0, x1, y1, word in words[page]
        ]
        share = _share_at(_MARKUP.sub(" ", html.unescape(chunk.text)), joined, placed)  # type: ignore[arg-type]
        problem = "" if share >= _FOUND_SHARE else f"{name} chunk {chunk.index}: {share:.2f}: {chunk.text!r}"
        trips.add("chunks at their boxes", problem)


def _quotes(page: PageWords) -> Iterator[str]:
    """Words that follow each other in an element, of some elements of the page that have a box."""
    placed = [one for one in page.elements if one.box is not None]
    for element in placed[:: max(1, len(placed) // 5)]:
        words = (element.text if element.table is None else "").split()
        if len(words) >= _QUOTE_WORDS:
            start = (len(words) - _QUOTE_WORDS) // 2
            yield " ".join(words[start : start + _QUOTE_WORDS])


def _check_citations(page: PageElements, words: Sequence[PlacedWord], trips: RoundTrips, name: str) -> None:
    said = PageWords(page)
    for quote in _quotes(said):
        if not words or not words_of(quote):
            continue
        ground = check_claim(_TEXT, ValueClaim(quote, quote, page.number), {page.number: said})
        boxes = [place.box for span in ground.spans for place in said.places(span) if place.box is not None]
        share = _share_at(quote, boxes, words)
        lost = ground.match is QuoteMatch.NONE or share < _FOUND_SHARE
        trips.add(
            "citations at their boxes", f"{name} p{page.number}: {share:.2f}: {quote!r}" if lost else ""
        )


def _word_errors(page: PageElements, words: Sequence[PlacedWord]) -> list[float]:
    found: list[float] = []
    for element in page.elements:
        found += _element_word_errors(element, words)
    return found


def _element_word_errors(element: Element, words: Sequence[PlacedWord]) -> Iterator[float]:
    """Only of words that their line has once, so that it is known which one is meant."""
    by_line: dict[Box, list[PlacedWord]] = {}
    for word in line_words(element) if element.lines else ():
        text = element.text[word.start : word.end]
        line = next(one.box for one in reversed(element.lines) if one.start <= word.start)
        there = by_line.setdefault(line, [one for one in words if _is_in(one, line)])
        same = [one for one in there if one[4] == text]
        height = line[3] - line[1]
        if len(same) == 1 and height > 0:
            yield abs(word.box[0] - same[0][0]) / height
            yield abs(word.box[2] - same[0][2]) / height


def _is_in(word: PlacedWord, box: Box) -> bool:
    across, down = (word[0] + word[2]) / 2, (word[1] + word[3]) / 2
    return box[0] - 1 <= across <= box[2] + 1 and box[1] <= down <= box[3]
