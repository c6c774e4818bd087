"""Chunks by structure: what they never cut, what they repeat, and where they say they are."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.domain.element import CellSpan, Element, ElementKind, ElementLine, PageElements, TableGrid
from quire.domain.text_chunk import ChunkOptions, TextChunk, estimated_tokens
from quire.errors import RequestError
from quire.rendering.document_chunks import Chunker

HEADING, PARAGRAPH = ElementKind.HEADING, ElementKind.PARAGRAPH


def page(*elements: tuple[ElementKind, str], number: int = 1, level: int = 1) -> PageElements:
    made = tuple(
        Element(
            f"p{number}-e{place + 1}", kind, text, (10.0, place * 20.0, 90.0, place * 20.0 + 12), level=level
        )
        for place, (kind, text) in enumerate(elements)
    )
    return PageElements(number, made)


def chunks(*pages: PageElements, max_tokens: int = 64, overlap: int = 0) -> list[TextChunk]:
    chunker = Chunker(ChunkOptions(max_tokens, overlap))
    return [one for page in pages for one in chunker.add(page)] + chunker.end()


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_a_section_is_not_joined_with_the_next_one() -> None:
    first = page((HEADING, "Fees"), (PARAGRAPH, "They rise."), (HEADING, "Ships"), (PARAGRAPH, "They sail."))
    second = page((PARAGRAPH, "They sink."), number=2)
    found = chunks(first, second)
    assert [one.text for one in found] == ["# Fees\n\nThey rise.", "# Ships\n\nThey sail.\n\nThey sink."]
    assert [one.headings for one in found] == [("Fees",), ("Ships",)]
    assert found[1].as_dict()["pages"] == [1, 2]
    assert found[1].as_dict()["elements"] == ["p1-e3", "p1-e4", "p2-e1"]
    assert found[1].as_dict()["boxes"][2] == {"page": 2, "element": "p2-e1", "box": [10.0, 0.0, 90.0, 12.0]}


def test_the_path_has_the_headings_above_and_empty_ones_go_along() -> None:
    made = [("Book", 1), ("Part", 2), ("Chapter", 3)]
    elements = [Element(f"e{n}", HEADING, text, level=level) for n, (text, level) in enumerate(made)]
    body = Element("e8", PARAGRAPH, "Words.")
    other = [Element("e9", HEADING, "Next part", level=2), Element("e10", PARAGRAPH, "More.")]
    found = chunks(PageElements(1, (*elements, body, *other)))
    assert [one.headings for one in found] == [("Book", "Part", "Chapter"), ("Book", "Next part")]
    assert found[0].text == "# Book\n\n## Part\n\n### Chapter\n\nWords."


def test_a_long_table_is_cut_between_rows_and_repeats_its_head() -> None:
    rows = [("Port", "Fee"), *((f"Harbour {n}", f"{n}.50") for n in range(40))]
    grid = TableGrid(tuple(rows), 1, (CellSpan(5, 0, 12, 1),))
    found = chunks(PageElements(1, (Element("t", ElementKind.TABLE, table=grid, box=(1, 2, 3, 4)),)))
    assert len(found) > 3
    seen: list[str] = []
    for one in found:
        assert one.kind == "table"
        assert one.text.startswith("| Port | Fee |\n|---|---|\n| Harbour")
        assert [place.element for place in one.places] == ["t"]
        seen += one.text.split("\n")[2:]
    assert seen == [f"| {port} | {fee} |" for port, fee in rows[1:]]
    joined = next(one.text for one in found if "Harbour 4 " in one.text)
    assert "Harbour 15 " in joined, "rows that share a cell stay together, even if that is too long"


def test_a_wide_head_is_written_once() -> None:
    rows = [("head " * 40, "b"), *((f"cell {n} " * 5, "x") for n in range(30))]
    found = chunks(PageElements(1, (Element("t", ElementKind.TABLE, table=TableGrid(tuple(rows))),)))
    assert sum(one.text.count("head head") > 0 for one in found) == 1
    assert sum(one.text.count("cell 7 ") > 0 for one in found) == 1


def test_a_long_paragraph_is_cut_after_sentences_with_the_boxes_of_its_lines() -> None:
    sentences = [f"Sentence number {n} says a little about ships." for n in range(20)]
    text = " ".join(sentences)
    starts = [text.index(sentence) for sentence in sentences]
    lines = tuple(ElementLine(start, (0.0, 10.0 * n, 50.0, 10.0 * n + 8)) for n, start in enumerate(starts))
    whole = Element("p", PARAGRAPH, text, (0, 0, 50, 198), lines=lines)
    found = chunks(PageElements(1, (whole,)))
    assert all(one.text.endswith("ships.") for one in found)
    assert " ".join(one.text for one in found) == text
    numbers = [int(n) for n in re.findall(r"number (\d+)", found[1].text)]
    assert found[1].places[0].box == (0.0, 10.0 * numbers[0], 50.0, 10.0 * numbers[-1] + 8)


def test_overlap_repeats_the_end_within_a_section_only() -> None:
    body = [(PARAGRAPH, f"Paragraph {n} of the section, with some words.") for n in range(12)]
    found = chunks(page(*body, (HEADING, "New"), (PARAGRAPH, "Alone.")), overlap=16)
    assert found[-1].overlap_chars == 0
    assert len(found) > 3
    for before, after in pairwise(found[:-1]):
        repeated = after.text[: after.overlap_chars]
        assert repeated
        assert before.text.endswith(repeated)
        assert estimated_tokens(after.text) <= 64


def test_running_lines_are_left_out_and_doubt_is_kept() -> None:
    elements = (
        Element("a", ElementKind.RUNNING_HEADER, "Report"),
        Element("b", PARAGRAPH, "Sure.", confidence=0.9),
        Element("c", PARAGRAPH, "Made up.", confidence=0.4, grounded=False),
    )
    (found,) = chunks(PageElements(1, elements))
    assert (found.text, found.confidence, found.grounded) == ("Sure.\n\nMade up.", 0.4, False)


def test_the_hash_depends_on_the_text_alone() -> None:
    (one,) = chunks(page((PARAGRAPH, "The same words.")))
    (other,) = chunks(page((PARAGRAPH, "The same words."), number=7), max_tokens=512)
    assert one.hash == other.hash
    assert one.hash != chunks(page((PARAGRAPH, "Other words.")))[0].hash


@pytest.mark.parametrize(("max_tokens", "overlap"), [(31, 0), (8_193, 0), (64, 33), (64, -1)])
def test_sizes_are_refused_in_words_when_out_of_range(max_tokens: int, overlap: int) -> None:
    with pytest.raises(RequestError, match="expected a number"):
        ChunkOptions(max_tokens, overlap)


TEXTS = st.text(st.sampled_from("abc de. fgh! \n日本語。*_#|<é"), min_size=1, max_size=900)
ELEMENTS = st.tuples(
    st.sampled_from([HEADING, PARAGRAPH, ElementKind.LIST_ITEM, ElementKind.CODE, ElementKind.QUOTE]), TEXTS
)


def test_text_that_escapes_make_longer_still_fits() -> None:
    found = chunks(page((PARAGRAPH, "<a" * 800), (PARAGRAPH, "<b " * 300)))
    assert all(estimated_tokens(one.text) <= 64 for one in found)
    assert "".join(words("".join(one.text for one in found).replace("&lt;", ""))) == "a" * 800 + "b" * 300


@settings(max_examples=150, deadline=None)
@given(st.lists(ELEMENTS, max_size=12), st.integers(32, 200))
def test_no_word_is_lost_and_no_chunk_is_too_large(given: list[tuple[ElementKind, str]], most: int) -> None:
    found = chunks(page(*given), max_tokens=most)
    together = "".join("".join(words(one.text)) for one in found).replace("lt", "")
    assert together == "".join("".join(words(text)) for _, text in given)
    assert all(estimated_tokens(one.text) <= most for one in found)
    assert [one.index for one in found] == list(range(len(found)))
