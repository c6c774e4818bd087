"""Elements as plain text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from quire.domain.element import CellMarkdown, CellSpan, Element, ElementKind, PageElements, TableGrid
from quire.rendering.document_html import DOCUMENT_END, document_start, page_section
from quire.rendering.page_html import render_html
from quire.rendering.page_text import render_text

GRID = TableGrid(
    (("Name", "", "Sum"), ("a<b", "c", "1")), 1, (CellSpan(0, 0, 1, 2),), (CellMarkdown(1, 2, "**1**"),)
)
PAGE = (
    Element("e1", ElementKind.HEADING, "A & B", level=2),
    Element("e2", ElementKind.LIST_ITEM, "one", marker="1."),
    Element("e3", ElementKind.LIST_ITEM, "inner", marker="-", depth=1),
    Element("e4", ElementKind.LIST_ITEM, "two", marker="2."),
    Element("e5", ElementKind.TABLE, table=GRID),
    Element("e6", ElementKind.QUOTE, "said"),
    Element("e7", ElementKind.PARAGRAPH, "inside", parent="e6"),
    Element("e8", ElementKind.RUNNING_HEADER, "Report", repeated=True),
    Element("e9", ElementKind.CODE, "x < 1", language="c"),
)


def test_text_has_the_words_without_markup() -> None:
    assert render_text(PAGE) == (
        "A & B\n\n1. one\n  - inner\n2. two\n\nName\t\tSum\na<b\tc\t1\n\nsaid\n\ninside\n\nx < 1"
    )
    assert "Report" in render_text(PAGE, keep_running=True)


def test_html_is_semantic_and_has_spans() -> None:
    assert render_html(PAGE) == (
        '<h2 id="e1">A &amp; B</h2>\n'
        '<ol><li id="e2">one<ul><li id="e3">inner</li></ul></li><li id="e4">two</li></ol>\n'
        '<table id="e5"><thead><tr><th colspan="2">Name</th><th>Sum</th></tr></thead>'
        "<tbody><tr><td>a&lt;b</td><td>c</td><td><strong>1</strong></td></tr></tbody></table>\n"
        '<blockquote id="e6"><p>said</p><p id="e7">inside</p></blockquote>\n'
        '<pre id="e9"><code class="language-c">x &lt; 1</code></pre>'
    )


def test_html_keeps_letters_and_numbers_of_items_that_counting_does_not_give() -> None:
    marks = ("1.", "2.", "5.", "6.", "a)", "(ii)", "\u2022")
    depths = (0, 0, 0, 0, 1, 1, 1)
    items = [
        Element(
            f"e{at}", ElementKind.LIST_ITEM, "x", marker=mark, depth=depth, parent="e4" if depth else None
        )
        for at, (mark, depth) in enumerate(zip(marks, depths, strict=True), 1)
    ]
    assert render_html(items) == (
        '<ol><li id="e1">x</li><li id="e2">x</li><li id="e3" value="5">x</li><li id="e4">x'
        '<ul><li id="e5">a) x</li><li id="e6">(ii) x</li><li id="e7">x</li></ul></li></ol>'
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "style")]
        self.addresses += [value or "" for name, value in attrs if name == "href"]


HOSTILE = st.sampled_from(
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "![a](http://e.example/x.png)",
        "<a href='java\tscript:x'>b</a>",
        '" onload="x',
        "**bold** `code` [ok](https://e.example)",
        "<!-- -->",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ElementKind), HOSTILE, HOSTILE)
def test_nothing_in_the_html_can_act(kind: ElementKind, text: str, markdown: str) -> None:
    grid = TableGrid(((text, "b"), ("c", "d")), marked=(CellMarkdown(1, 1, markdown),))
    made = (
        Element("e1", kind, text, markdown=markdown, language=text, marker=text[:3]),
        Element("e2", ElementKind.TABLE, table=grid),
    )
    tags = _Tags()
    tags.feed(render_html(made))
    assert not tags.seen & {"script", "img", "iframe", "style", "object"}
    assert set(tags.addresses) <= {"https://e.example", "http://e.example/x.png"}


def test_a_page_without_elements_says_why_in_the_html() -> None:
    section = page_section(PageElements(3), "*Page 3 could not be read: <b>crashed</b>*")
    assert section == (
        '<section id="page-3" data-page="3">\n<p class="note"><em>Page 3 could not be read: '
        "&lt;b&gt;crashed&lt;/b&gt;</em></p>\n</section>\n"
    )
    assert "<title>a &lt;b&gt;</title>" in document_start("a <b>")
    assert DOCUMENT_END.endswith("</html>\n")
