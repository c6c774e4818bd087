"""Elements of the Markdown that the office readers write."""

from __future__ import annotations

import pytest

from quire.domain.element_tree import with_item_parents
from quire.reading.office.inline_markdown import BOLD, Run, block, plain, render
from quire.reading.office.office_elements import office_elements, plain_words
from quire.reading.office.office_pages import table_lines
from quire.rendering.page_markdown import render_markdown

PAGE = "\n\n".join(
    [
        "## 2.1 A *heading*",
        block(render([Run("# no heading, 3 * 4 < 5 & a_b_ "), Run("bold", BOLD), Run(" and more")])),
        "- one\n  - inner [link](http://e.example/a)\n2. two",
        "\n".join(table_lines([["Name", plain("a|b *c*")], ["", "2"]])),
        "```python\nx = 1\n\n# y\n```",
        "> said",
        "[Picture: a chart]",
        "[^1]: A note.\n[^2]: Another.",
    ]
)


def test_every_block_becomes_an_element_of_its_kind() -> None:
    elements = office_elements(PAGE, 3)
    assert [(one.kind.value, one.text, one.marker, one.depth) for one in elements] == [
        ("heading", "2.1 A heading", "", 0),
        ("paragraph", "# no heading, 3 * 4 < 5 & a_b_ bold and more", "", 0),
        ("list_item", "one", "-", 0),
        ("list_item", "inner link", "-", 1),
        ("list_item", "two", "2.", 0),
        ("table", "", "", 0),
        ("code", "x = 1\n\n# y", "", 0),
        ("quote", "said", "", 0),
        ("figure", "a chart", "", 0),
        ("footnote", "A note.", "1", 0),
        ("footnote", "Another.", "2", 0),
    ]
    table = elements[5].table
    assert table is not None
    assert table.rows == (("Name", "a|b *c*"), ("", "2"))


def test_elements_render_to_the_page_they_came_from() -> None:
    assert render_markdown(office_elements(PAGE, 3)) == PAGE.replace("note.\n[", "note.\n\n[")


@pytest.mark.parametrize(
    "text", ["plain", "a*b*c", "x_y_", "1 < 2 <b>", "&amp; \\ [a](b)", "~~no~~ `code`", "[^1] [Picture]"]
)
def test_escaped_text_is_the_same_without_its_markup(text: str) -> None:
    assert plain_words(plain(text)) == text


def test_further_paragraphs_of_an_item_are_held_by_it() -> None:
    items = "- one\n\n   more of one\n   - inner\n\n      more of inner\n\n   last of one\n- two"
    markdown = f"{items}\n\nbehind\n\n   indented"
    elements = office_elements(markdown, 1)
    assert [(one.kind.value, one.text, one.parent) for one in with_item_parents(elements)] == [
        ("list_item", "one", None),
        ("paragraph", "more of one", "p1-e1"),
        ("list_item", "inner", "p1-e1"),
        ("paragraph", "more of inner", "p1-e3"),
        ("paragraph", "last of one", "p1-e1"),
        ("list_item", "two", None),
        ("paragraph", "behind", None),
        ("paragraph", "   indented", None),
    ]


@pytest.mark.parametrize(
    ("line", "marker", "text"),
    [
        ("- a) inner", "a)", "inner"),
        ("- (ii) inner", "(ii)", "inner"),
        ("- b. inner", "b.", "inner"),
        ("- iv. inner", "iv.", "inner"),
        ("- A. Smith", "-", "A. Smith"),
        ("- cf. that", "-", "cf. that"),
        ("- a word", "-", "a word"),
        ("- 1.5 million", "-", "1.5 million"),
        ("1. first", "1.", "first"),
    ],
)
def test_the_letter_of_an_item_is_its_mark(line: str, marker: str, text: str) -> None:
    (item,) = office_elements(line, 1)
    assert (item.marker, item.text) == (marker, text)
    assert render_markdown([item]) == line
