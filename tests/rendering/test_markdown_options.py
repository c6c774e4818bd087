"""Markdown with options, and Markdown as a CommonMark parser sees it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from quire.domain.element import CellSpan, Element, ElementKind, TableGrid
from quire.domain.output_options import HeaderForm, OutputOptions, TableForm
from quire.rendering.markdown_options import figure_link, front_matter, page_markdown
from quire.rendering.page_markdown import render_markdown

SPANNED = TableGrid((("Name", ""), ("a|b", "<i>")), 1, (CellSpan(0, 0, 1, 2),))
PLAIN = TableGrid((("Name", "Sum"), ("a", "1")))
PAGE = (
    Element("e1", ElementKind.RUNNING_HEADER, "Report", repeated=True),
    Element("e2", ElementKind.TABLE, table=SPANNED),
    Element("e3", ElementKind.TABLE, table=PLAIN),
    Element("e4", ElementKind.FIGURE, "A [red] ship", markdown="A \\[red\\] ship"),
)


def test_tables_are_html_where_a_pipe_table_would_lose_their_spans() -> None:
    text = page_markdown(PAGE, OutputOptions(tables=TableForm.AUTO), {})
    assert '<th colspan="2">Name</th>' in text
    assert "<td>&lt;i&gt;</td>" in text
    assert "| Name | Sum |" in text
    assert "Report" not in text
    whole = page_markdown(PAGE, OutputOptions(tables=TableForm.HTML, headers=HeaderForm.KEEP), {})
    assert whole.startswith("Report\n\n<table>")
    assert whole.count("<table>") == 2
    assert page_markdown(PAGE, OutputOptions(), {}) == render_markdown(PAGE)


def test_figures_have_what_is_given_for_them_before_their_words() -> None:
    link = figure_link(PAGE[3], "figures/e4.png")
    assert link == "![A red ship](figures/e4.png)"
    assert page_markdown(PAGE[3:], OutputOptions(), {"e4": link}) == f"{link}\n\nA \\[red\\] ship"


def test_front_matter_is_yaml_whatever_a_title_has() -> None:
    title = 'A "title": with\n--- dashes #1'
    text = front_matter({"title": title, "pages": 3, "author": None})
    _, head, rest = text.split("---\n", 2)
    assert yaml.safe_load(head) == {"title": title, "pages": 3}
    assert rest == "\n"


WORDS = st.text("ab1 *_#->|`().:\\&<é~=+![]", min_size=1, max_size=24).filter(str.strip)
KINDS = {
    ElementKind.HEADING: "heading",
    ElementKind.PARAGRAPH: "paragraph",
    ElementKind.CODE: "fence",
    ElementKind.QUOTE: "blockquote",
    ElementKind.TABLE: "table",
    ElementKind.LIST_ITEM: "bullet_list",
}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Element, ...]:
    found: list[Element] = []
    for place, kind in enumerate(draw(st.lists(st.sampled_from(list(KINDS)), max_size=6))):
        if kind is ElementKind.LIST_ITEM and found and found[-1].kind is kind:
            continue  # neighbours are one list
        words = draw(WORDS)
        grid = TableGrid(((draw(WORDS), draw(WORDS)), (draw(WORDS), draw(WORDS))))
        found.append(
            Element(
                f"e{place}",
                kind,
                "" if kind is ElementKind.TABLE else words.strip(),
                level=draw(st.integers(1, 6)),
                marker="-" if kind is ElementKind.LIST_ITEM else "",
                table=grid if kind is ElementKind.TABLE else None,
            )
        )
    return tuple(found)


@settings(max_examples=150, derandomize=True)
@given(blocks())
@example((Element("e0", ElementKind.PARAGRAPH, "[1]: a source, named at the end of a paper"),))
@example((Element("e0", ElementKind.PARAGRAPH, "1. Press O"), Element("e1", ElementKind.PARAGRAPH, "____")))
@example((Element("e0", ElementKind.PARAGRAPH, "tan (5)\n=\n+\n1. one\n-"),))
def test_markdown_parses_back_to_the_same_blocks(page: tuple[Element, ...]) -> None:
    parser = MarkdownIt("commonmark").enable("table")
    tree = SyntaxTreeNode(parser.parse(render_markdown(page)))
    assert [node.type for node in tree.children] == [KINDS[element.kind] for element in page]
    for node, element in zip(tree.children, page, strict=True):
        if element.kind is ElementKind.HEADING:
            assert node.tag == f"h{element.level}"
        if element.kind is ElementKind.CODE:
            assert node.content.rstrip("\n") == element.text.rstrip("\n")
        if element.kind is ElementKind.TABLE:
            assert [len(row.children) for part in node.children for row in part.children] == [2, 2]


@pytest.mark.parametrize(
    "text",
    ["1.5 mm", "a\n2. b", "a\n1.", "-1 is less", "5 > 3", "===", "a\n    # b", "#1", "**", "1.\u00a0b"],
)
def test_text_that_begins_no_other_block_has_no_backslash(text: str) -> None:
    assert render_markdown([Element("e0", ElementKind.PARAGRAPH, text)]) == text
