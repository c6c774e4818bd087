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


def test_items_with_letters_have_them_as_a_browser_shows_them(reading: ReadReading) -> None:
    lists = "<ol type=a start=3><li>x<li>y</ol><ol style='list-style-type: upper-roman'><li value=4>z</ol>"
    found = reading(_page(lists), "a.html")
    assert found.markdown == "- c. x\n- d. y\n\n- IV. z"
    assert [one.marker for one in found.elements][:2] == ["c.", "d."]
    table = "<table><tr><th>K<td>v<ol type=a><li>x<li>y</ol></table>"
    assert "v a. x b. y" in reading(_page(table), "a.html").markdown


def test_lists_beside_each_other_are_two(markdown: ReadMarkdown) -> None:
    assert markdown(_page("<ol><li>a<li>b</ol><ol><li>c</ol>"), "a.html") == "1. a\n2. b\n\n1. c"
    inner = "<ul><li>a<ul><li>b</ul><ul><li>c</ul></ul>"
    assert markdown(_page(inner), "a.html") == "- a\n  - b\n  - c"


def test_text_of_an_item_behind_its_inner_list_is_its_own(reading: ReadReading) -> None:
    found = reading(_page("<ol><li>a<ul><li>b<ul><li>c<p>of c</ul>of b</ul>of a</ol>after"), "a.html")
    assert found.markdown == "1. a\n   - b\n     - c\n\n       of c\n\n     of b\n\n   of a\n\nafter"
    texts = {one.id: one.text for one in found.elements}
    held = {one.text: texts[one.parent] for one in found.elements if one.parent and not one.is_item}
    assert held == {"of c": "c", "of b": "b", "of a": "a"}


def test_all_paragraphs_of_a_definition_are_its_own(reading: ReadReading) -> None:
    found = reading(
        _page("<dl><dt>Berth<dd><p>A place<p>for a boat<dd>other<dt>Quay<dd><ul><li>w</ul></dl>end"), "a.html"
    )
    assert found.markdown == "Berth\n\n- A place\n\n  for a boat\n\n- other\n\nQuay\n\n- w\n\nend"
    assert [one.parent for one in found.elements if one.text == "for a boat"] == ["p1-e2"]


def test_table_that_is_there_for_its_look_is_paragraphs(markdown: ReadMarkdown) -> None:
    inner = "<table role=none><tr><td><ul><li>x<li>y</ul></table>"
    page = f"<table role=presentation><tr><td><h2>News</h2><p>One<td>Two{inner}</table><p>end"
    assert markdown(_page(page), "a.html") == "## News\n\nOne\n\nTwo\n\n- x\n- y\n\nend"
    table = "<table><tr><td>A<td>B<tr><td><table role=presentation><tr><td>in</table><td>C</table>"
    assert markdown(_page(table), "a.html") == "| A | B |\n|---|---|\n| in | C |"


def test_table_with_headings_or_tables_in_its_cells_is_layout_unless_it_has_a_head(
    markdown: ReadMarkdown,
) -> None:
    inner = "<table><tr><th>Berth<th>Fee<tr><td>A<td>12</table>"
    story = "<td><h2>{}</h2><p>Words {}."
    rows = (
        f"<tr><td>Logo<td>May<tr>{story.format('Left', 1)}{story.format('Right', 2)}<tr><td colspan=2>{inner}"
    )
    table = "| Berth | Fee |\n|---|---|\n| A | 12 |"
    shown = f"Logo\n\nMay\n\n## Left\n\nWords 1.\n\n## Right\n\nWords 2.\n\n{table}\n\nend"
    around = "<table><tr><td>{}</table><!--[if mso]><table><![endif]--><p>end"
    assert markdown(_page(around.format(f"<table border=0>{rows}</table>")), "a.html") == shown
    hidden = f"<div style='display:none'><table><tr><td><h1>x</h1></table></div><table>{rows}</table><p>end"
    assert markdown(_page(hidden), "a.html") == shown
    flat = "| Logo | May |\n|---|---|\n| Left Words 1. | Right Words 2. |\n| Berth, Fee; A, 12 |  |"
    assert markdown(_page(f"<table border=1>{rows}</table>"), "a.html") == flat
    assert "| Head |" in markdown(
        _page(f"<table><caption>C</caption><tr><td>Head<td>x{rows}</table>"), "a.html"
    )


def test_looks_of_tables_that_are_nested_without_end_cost_no_words(markdown: ReadMarkdown) -> None:
    page = "<table role=presentation><tr><td>" * 2_000 + "word" + "</table>" * 2_000 + "<p>end"
    assert markdown(_page(page), "a.html") == "word\n\nend"


def test_code_beside_the_numbers_of_its_lines_is_code(reading: ReadReading) -> None:
    numbers, code = "<td><pre>9\n10</pre>", "<td><pre><code class=language-c>int a;\n  int b;</code></pre>"
    found = reading(_page(f"<table><tr>{numbers}{code}</table>"), "a.html")
    assert found.markdown == "```c\nint a;\n  int b;\n```"
    alone = reading(_page(f"<table><tr>{numbers}<td>Text</table>"), "a.html")
    assert alone.markdown == "```\n9\n10\n```\n\nText"
    mixed = reading(_page("<table><tr><td>see <pre>a\nb</pre><td>Text</table>"), "a.html")
    assert mixed.markdown == "| see a b | Text |\n|---|---|"
    rows = reading(_page("<table><tr><td><pre>a\nb</pre><td>1<tr><td>2<td>3</table>"), "a.html")
    assert rows.markdown == "| a b | 1 |\n|---|---|\n| 2 | 3 |"


def test_language_of_code_is_what_the_highlighter_says(reading: ReadReading) -> None:
    page = (
        '<div class="highlight highlight-source-rust"><pre>a</pre></div><pre>b</pre>'
        '<div class="highlight-python notranslate"><div class="highlight"><pre>c</pre></div></div>'
        '<div class="language-go highlighter-rouge">text<pre>d</pre></div><pre data-lang="sql">e</pre>'
        '<pre><code class="hljs css">f</code></pre><pre class="brush: java; gutter: false">g</pre>'
        '<pre class="language-plaintext">h</pre><div class="highlight-box"><pre data-lang="a b">i</pre></div>'
    )
    found = reading(_page(page), "a.html").elements
    languages = {one.text: one.language for one in found if one.text != "text"}
    assert languages == dict(
        zip("abcdefghi", ("rust", "", "python", "", "sql", "css", "java", "", ""), strict=True)
    )


def test_what_a_browser_does_not_show_is_left_out_and_quotes_are_written(markdown: ReadMarkdown) -> None:
    page = "<p style='visibility: hidden'>secret<p>He said <q>no</q>."
    assert markdown(_page(page), "a.html") == "He said “no”."
