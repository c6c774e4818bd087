"""Markdown that others wrote, as elements, and elements as Markdown that parses to the same blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.domain.element import ElementKind
from quire.reading.files.file_kinds import MARKDOWN
from quire.reading.files.markdown_elements import markdown_elements
from quire.reading.files.text_source import text_elements
from quire.rendering.page_markdown import render_markdown

SAMPLE = """# Title *x*

Text with **bold**, a [link](http://e.example) and `code`.

- one
  - inner

    more
- two

  ```py
  x = 1
  ```

1. first
2. second

> said
>
> - inside

| a | **b** |
|---|---|
| 1 | 2 |

$$
x^2
$$

[^1]: A note.

![a chart](chart.png)
"""


def test_every_block_becomes_an_element_of_its_kind() -> None:
    found = [(one.kind.value, one.text, one.depth, one.marker) for one in markdown_elements(SAMPLE, 4)]
    assert found == [
        ("heading", "Title x", 0, ""),
        ("paragraph", "Text with bold, a link and code.", 0, ""),
        ("list_item", "one", 0, "-"),
        ("list_item", "inner", 1, "-"),
        ("paragraph", "more", 0, ""),
        ("list_item", "two", 0, "-"),
        ("code", "x = 1", 0, ""),
        ("list_item", "first", 0, "1."),
        ("list_item", "second", 0, "2."),
        ("quote", "said", 0, ""),
        ("list_item", "inside", 0, "-"),
        ("table", "", 0, ""),
        ("formula", "x^2", 0, ""),
        ("footnote", "A note.", 0, "1"),
        ("figure", "a chart", 0, ""),
    ]


def test_html_table_keeps_its_spans() -> None:
    html = (
        "<table><tr><th colspan='2'>Name</th><th rowspan='2'>Sum</th></tr>"
        "<tr><td>first</td><td>last &amp; co</td></tr></table>"
    )
    (table,) = markdown_elements(html, 1)
    assert table.kind is ElementKind.TABLE
    assert table.table is not None
    assert [tuple(cell)[:6] for cell in table.table.cells()] == [
        (0, 0, 1, 2, True, "Name"),
        (0, 2, 2, 1, True, "Sum"),
        (1, 0, 1, 1, False, "first"),
        (1, 1, 1, 1, False, "last & co"),
    ]


def shape(markdown: str) -> list[tuple[str, int, int]]:
    return [(one.kind.value, one.level, one.depth) for one in markdown_elements(markdown, 1)]


def test_rendered_markdown_parses_to_the_same_blocks() -> None:
    assert shape(render_markdown(markdown_elements(SAMPLE, 1))) == shape(SAMPLE)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab #*-_`~>|[]()!\\\n\t1.$<&^:"), max_size=80))
def test_no_markdown_breaks_the_parser(text: str) -> None:
    elements = markdown_elements(text, 1)
    assert [one.id for one in elements] == [f"p1-e{place}" for place in range(1, len(elements) + 1)]
    render_markdown(elements)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("<div>kept <!-- a <!-- b --> here</div>", "kept here"),
        ("<div>kept <!-- without an end</div>", "kept"),
        ("<div>from 1 --> 2 <!-- c --></div>", "from 1 --> 2"),
    ],
)
def test_comments_are_not_text_of_a_page(content: str, shown: str) -> None:
    assert " ".join(one.text for one in markdown_elements(content, 1)).startswith(shown)


def test_a_paragraph_that_names_the_table_or_figure_beside_it_is_its_caption() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    markdown = (
        f"**Table 1:** Fees\n\n{table}\n\n{table}\n\n*Table 2: Ships*\n\n[Figure: a chart]\n\nFigure 3. Fees\n\n"
        "Figure 4 shows more.\n\nTable 5: far from any"
    )
    found = markdown_elements(markdown, 1)
    assert [(one.kind.value, one.parent) for one in found] == [
        ("caption", "p1-e2"),
        ("table", None),
        ("table", None),
        ("caption", "p1-e3"),
        ("figure", None),
        ("caption", "p1-e5"),
        ("paragraph", None),
        ("paragraph", None),
    ]
    assert render_markdown(found) == markdown


@pytest.mark.parametrize(
    ("front", "language"),
    [
        ("---\ntitle: Rules\n# a comment\ntags:\n  - x\n---\n", "yaml"),
        ("---\n\n# first\ntitle: Rules\n...\n", "yaml"),
        ('+++\ntitle = "Rules"\n+++\n', "toml"),
    ],
)
def test_what_a_file_says_of_itself_is_no_heading(front: str, language: str) -> None:
    first, *rest = text_elements(f"{front}# Head\n\nText.", 1, MARKDOWN)
    assert (first.kind, first.language) == (ElementKind.CODE, language)
    assert "itle" in first.text
    assert not first.text.startswith(("---", "+++"))
    assert [(one.id, one.kind.value, one.text) for one in rest] == [
        ("p1-e2", "heading", "Head"),
        ("p1-e3", "paragraph", "Text."),
    ]
    assert text_elements(f"{front}# Head", 2, MARKDOWN)[0].language == ""


@pytest.mark.parametrize(
    "text", ["---\nNo name here.\n---\nText", "---\na: b\nText", "---\n---\na: b", "--- a: b"]
)
def test_a_rule_at_the_top_is_no_front_matter(text: str) -> None:
    assert all(one.kind is not ElementKind.CODE for one in text_elements(text, 1, MARKDOWN))
