"""Comments of OpenDocument files: beside what they are about, never in it."""

from __future__ import annotations

from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import odf


def _comment(text: str) -> str:
    words = "".join(f"<text:p>{one}</text:p>" for one in text.split("\n"))
    return (
        f"<office:annotation><dc:creator>Ann</dc:creator><dc:date>2026</dc:date>{words}</office:annotation>"
    )


def _cell(text: str, more: str = "") -> str:
    return f"<table:table-cell>{more}<text:p>{text}</text:p></table:table-cell>"


def _note(text: str) -> str:
    return f"<text:note><text:note-body><text:p>{text}</text:p></text:note-body></text:note>"


def test_value_of_a_cell_stays_alone_when_the_cell_has_a_comment(markdown: ReadMarkdown) -> None:
    rows = f"<table:table-row>{_cell('Name')}{_cell('Sum')}</table:table-row>"
    rows += '<table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row>'
    commented = _cell("1,234.50", _comment("check\nthis 999"))
    rows += f"<table:table-row>{_cell('x')}{commented}</table:table-row>"
    sheet = f'<table:table table:name="S">{rows}</table:table>'
    assert markdown(odf("spreadsheet", sheet)) == (
        "## S\n\n| Name | Sum |\n|---|---|\n\n| x | 1,234.50 |\n|---|---|\n\n- **Note at B5 by Ann**: check this 999"
    )


def test_comment_is_a_note_when_a_text_has_it(markdown: ReadMarkdown) -> None:
    body = f"<text:p>Here{_comment('Why *so*?')}, and on.</text:p>"
    assert markdown(odf("text", body)) == "Here[^c1], and on.\n\n[^c1]: **Comment by Ann**: Why \\*so\\*?"


def test_notes_are_kept_when_they_are_in_cells_and_items(markdown: ReadMarkdown) -> None:
    row = f"<table:table-row>{_cell('a' + _note('first'))}{_cell('b' + _comment('second'))}</table:table-row>"
    item = f"<text:list><text:list-item><text:p>c{_note('third')}</text:p></text:list-item></text:list>"
    assert markdown(odf("text", f"<table:table>{row}</table:table>{item}")) == (
        "| a[^1] | b[^c1] |\n|---|---|\n\n- c[^2]\n\n"
        "[^1]: first\n[^c1]: **Comment by Ann**: second\n[^2]: third"
    )


def test_comment_is_an_item_below_the_slide_when_a_slide_has_it(markdown: ReadMarkdown) -> None:
    title = '<draw:frame presentation:class="title"><draw:text-box><text:p>T</text:p></draw:text-box></draw:frame>'
    page = f"<draw:page>{title}{_comment('Larger?')}</draw:page>"
    assert markdown(odf("presentation", page)) == "# T\n\n### Comments\n\n- **Comment by Ann**: Larger?"
