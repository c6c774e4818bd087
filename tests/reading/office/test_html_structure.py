"""Tables and lists of web pages, as browsers read them."""

from __future__ import annotations

from tests.reading.office.conftest import ReadMarkdown, ReadReading


def _page(body: str) -> str:
    return f"<!doctype html><html><body>{body}</body></html>"


def test_cell_to_the_end_of_its_group_covers_all_its_rows(reading: ReadReading) -> None:
    rows = "<tbody><tr><td rowspan=0>r<td>1<tr><td>2<tr><td>3</tbody><tfoot><tr><td>f<td>4</tfoot>"
    found = reading(_page(f"<table><thead><tr><th>A<th>B</thead>{rows}</table>"), "a.html")
    assert found.markdown == "| A | B |\n|---|---|\n| r | 1 |\n|  | 2 |\n|  | 3 |\n| f | 4 |"
    assert found.elements[0].table is not None
    assert [tuple(one) for one in found.elements[0].table.spans] == [(1, 0, 3, 1)]


def test_cell_does_not_go_on_below_its_group(reading: ReadReading) -> None:
    table = "<table><thead><tr><th rowspan=5>A<th>B</thead><tbody><tr><td>1<td>2</tbody></table>"
    found = reading(_page(table), "a.html")
    assert found.markdown == "| A | B |\n|---|---|\n| 1 | 2 |"
    assert found.elements[0].table is not None
    assert found.elements[0].table.spans == ()


def test_items_have_the_numbers_that_they_are_given(markdown: ReadMarkdown) -> None:
    assert markdown(_page("<ol start=3><li>a<li value=7>b<li>c</ol>"), "a.html") == "3. a\n7. b\n8. c"


def test_paragraph_behind_a_list_is_no_item_when_the_last_item_has_no_words(markdown: ReadMarkdown) -> None:
    table = "<table><tr><td>1<td>2</table>"
    assert markdown(_page(f"<ul><li>a<li>{table}</ul><p>after"), "a.html").endswith("|---|---|\n\nafter")
    assert markdown(_page("<ul><li>a<li></li></ul><p>after"), "a.html") == "- a\n\nafter"
