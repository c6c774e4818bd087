"""Tables that go on over page breaks: joined in views of the document, and only where that is certain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quire.domain.element import Element, PageElements
from quire.domain.element_codec import decode
from quire.domain.output_options import OutputOptions
from quire.domain.text_chunk import ChunkOptions
from quire.pipeline.docling_file import docling_document
from quire.pipeline.document_formats import chunks_document, html_document
from quire.reading.document_reading import ReadPage
from quire.reading.sync_reader import SyncReader, shared_reader
from quire.rendering.joined_tables import joined_pages
from tests.support.long_tables import HEAD, LongTables, fees
from tests.support.running import convert, markdown, over, page_texts, quire

ROWS_OF_TWO, ROWS_OF_FIVE = 50, 150


def read(content: bytes) -> list[PageElements]:
    found: list[ReadPage] = shared_reader().read(content)
    return [decode(page.packed_elements) for page in found]


def tables(pages: list[PageElements]) -> list[Element]:
    return [one for page in pages for one in page.elements if one.table is not None]


def joins(content: bytes) -> list[str]:
    return [one.continues for one in tables(read(content))]


def words(element: Element) -> list[str]:
    return [text for row in (element.table.rows if element.table else ()) for text in row if text]


@pytest.mark.parametrize("rules", [True, False])
@pytest.mark.parametrize("repeats_head", [True, False])
@pytest.mark.parametrize(("running", "footnotes"), [(True, True), (False, False)])
@pytest.mark.parametrize("rows", [ROWS_OF_TWO, ROWS_OF_FIVE])
def test_a_table_is_one_when_it_goes_on(
    rows: int, running: bool, footnotes: bool, repeats_head: bool, rules: bool
) -> None:
    drawn = LongTables(rules=rules, repeats_head=repeats_head, running=running, footnotes=footnotes)
    drawn.text()
    drawn.table(HEAD, fees(rows))
    pages = read(drawn.pdf())
    parts = tables(pages)
    assert len(parts) == len(pages) >= (2 if rows == ROWS_OF_TWO else 5)
    assert [one.continues for one in parts] == ["", *(one.id for one in parts[:-1])]
    joined = tables(list(joined_pages(pages)))
    assert len(joined) == 1
    assert joined[0].table is not None
    assert joined[0].table.rows == (HEAD, *fees(rows))
    assert [(part.page, part.id, part.box) for part in joined[0].parts] == [
        (page.number, one.id, one.box) for page, one in zip(pages, parts, strict=True)
    ]
    heads = HEAD * (len(parts) - 1) if repeats_head else ()
    assert sorted([*words(joined[0]), *heads]) == sorted(text for one in parts for text in words(one))


def two_tables(
    between: str = "", *, head: tuple[str, ...] = HEAD, bold: bool = True, fills: bool = True
) -> bytes:
    drawn = LongTables(rules=True, running=True)
    drawn.table(HEAD, fees(32 if fills else 12))
    drawn.turn()
    if between:
        drawn.text(between, size=9 if between.startswith("Table") else 13, bold=bold)
    drawn.table(head, fees(20, 500))
    drawn.turn()
    drawn.text()
    return drawn.pdf()


def test_two_tables_of_equal_columns_are_two_when_the_second_has_its_own_caption_title_or_head() -> None:
    assert joins(two_tables("Table 2: Fees of the other harbour", bold=False)) == ["", ""]
    assert joins(two_tables("Fees of the other harbour")) == ["", ""]
    assert joins(two_tables(head=("Ship", "Port", "Berths", "Tax"))) == ["", ""]
    assert joins(two_tables(head=("Boat", "Harbour", "2019", "2020"))) == ["", ""]


def test_two_tables_are_two_when_the_first_left_room_for_more_rows() -> None:
    assert joins(two_tables(fills=False)) == ["", ""]


def test_two_tables_are_two_when_their_columns_differ() -> None:
    drawn = LongTables(rules=True, repeats_head=False)
    drawn.table(HEAD, fees(32))
    drawn.turn()
    drawn.table(HEAD[:3], [row[:3] for row in fees(20, 500)])
    assert joins(drawn.pdf()) == ["", ""]
    drawn = LongTables(rules=True, repeats_head=False)
    drawn.table(HEAD, fees(32))
    drawn.turn()
    drawn.lefts = (72.0, 130.0, 230.0, 330.0)
    drawn.table(HEAD, fees(20, 500))
    assert joins(drawn.pdf()) == ["", ""]


def test_a_table_is_one_when_its_next_part_is_called_continued() -> None:
    drawn = LongTables(rules=True, repeats_head=False, bold_head=False)
    drawn.text("Table 4: Fees of the harbour", size=9)
    drawn.table(("Boat", "Harbour", "Owner", "State"), names(60), note="Table 4 (continued)")
    pages = read(drawn.pdf())
    assert [one.continues for one in tables(pages)] == ["", *(one.id for one in tables(pages)[:-1])]
    wrong = LongTables(rules=True, repeats_head=False, bold_head=False)
    wrong.text("Table 4: Fees of the harbour", size=9)
    wrong.table(("Boat", "Harbour", "Owner", "State"), names(60), note="Table 5 (continued)")
    assert set(joins(wrong.pdf())) == {""}


def names(count: int) -> list[tuple[str, str, str, str]]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = [f"{one}{two}{one}" for one in letters for two in letters]
    return [(f"B{name}", f"H{name} quay", f"O{name} and sons", f"S{name}") for name in made[:count]]


def test_tables_of_texts_are_two_when_nothing_says_that_the_second_has_no_head() -> None:
    drawn = LongTables(rules=True, repeats_head=False, bold_head=False)
    drawn.table(("Boat", "Harbour", "Owner", "State"), names(60))
    assert set(joins(drawn.pdf())) == {""}


def test_a_table_of_texts_is_one_when_its_columns_have_the_same_values_again() -> None:
    drawn = LongTables(rules=True, repeats_head=False, bold_head=False)
    drawn.table(("Boat", "Harbour", "Owner", "Open"), [(*row[:3], "never") for row in names(60)])
    assert joins(drawn.pdf()) == ["", "p1-e1"]


async def test_views_of_the_document_have_the_table_once_when_it_goes_on(tmp_path: Path) -> None:
    drawn = LongTables(rules=True, running=True)
    drawn.text()
    drawn.table(HEAD, fees(ROWS_OF_TWO))
    drawn.text("What comes behind the table is still here.")
    async with quire(tmp_path) as one:
        job = await convert(one, drawn.pdf())
        elements = await one.engine.elements(job)

        async def whole(pieces: object) -> str:
            return b"".join([piece async for piece in pieces]).decode()  # type: ignore[attr-defined]

        html = await whole(html_document("fees", elements))
        docling = json.loads(await whole(docling_document(job, elements)))
        cut = json.loads(await whole(chunks_document({}, elements, ChunkOptions(max_tokens=400))))
        plain = await markdown(one, job)
        place = "/figures/{id}.png"
        options = OutputOptions(join_tables=True)
        joined = await whole(one.engine.markdown(job, options, place).pieces(elements))
        stored = await page_texts(one, job)
    numbers = range(1, ROWS_OF_TWO + 1)
    for text in (html, joined, plain, json.dumps(docling)):
        assert all(text.count(f"Quay of {number} ropes") == 1 for number in numbers)
    assert (html.count("<table"), html.count(">Harbour<"), plain.count("| Harbour |")) == (1, 1, 2)
    assert joined.count("| Harbour |") == 1
    assert joined.split("\n\n---\n\n")[1] == "What comes behind the table is still here."
    assert 'data-continues="p1-' in html
    assert "\n\n---\n\n".join(stored) == plain
    (table,) = docling["tables"]
    assert table["data"]["num_rows"] == ROWS_OF_TWO + 1
    assert [place["page_no"] for place in table["prov"]] == [1, 2]
    chunks = [chunk for chunk in cut["chunks"] if "Quay of" in chunk["text"]]
    rows = [line for chunk in chunks for line in chunk["text"].split("\n") if "Quay of" in line]
    assert len(rows) == len(set(rows)) == ROWS_OF_TWO
    assert {tuple(chunk["pages"]) for chunk in chunks} >= {(2,)}
    for chunk in chunks:
        there = {
            page
            for page in (1, 2)
            if any(row_page(line, stored) == page for line in chunk["text"].split("\n"))
        }
        assert set(chunk["pages"]) == there


def row_page(line: str, stored: list[str]) -> int:
    if "Quay of" not in line:
        return 0
    return 1 if line in stored[0] else 2


async def test_nothing_is_joined_any_more_when_the_page_before_is_read_otherwise(tmp_path: Path) -> None:
    drawn = LongTables(rules=True, running=True)
    drawn.table(HEAD, fees(ROWS_OF_TWO))
    async with quire(tmp_path) as one:
        job = await convert(one, drawn.pdf())
        before = (await one.engine.pages(job))[1]
        assert before.continues
        assert await one.engine.retry(job, f"{job.id}-p2") == "started"
        job = await over(one, job.id)
        after = (await one.engine.pages(job))[1]
        assert (after.continues, after.offset, after.elements_length) == (
            *(before.continues, before.offset, before.elements_length),
        )


def test_pages_that_do_not_follow_each_other_are_not_joined() -> None:
    drawn = LongTables(rules=True, repeats_head=False)
    drawn.table(HEAD, fees(ROWS_OF_FIVE))
    with SyncReader() as reader:
        found = reader.read(drawn.pdf(), pages="1,3-4")
    assert [bool(one.continues) for one in tables([decode(page.packed_elements) for page in found])] == [
        *(False, False, True)
    ]
