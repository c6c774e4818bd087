"""OpenDocument files: pages, headers and footers, numbers, captions, changes, hidden parts, sheets, charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quire.domain.element import ElementKind
from quire.domain.page import PageReading
from quire.reading.document_details import document_details
from quire.reading.files.document_source import inspect
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.page_reader import read_pages
from tests.reading.office.conftest import ReadMarkdown, ReadReading
from tests.support.office_files import odf

_STYLES = (
    "<style:style style:name='New' style:family='paragraph' style:master-page-name='Annex'/>"
    "<style:style style:name='Break' style:family='paragraph'><style:paragraph-properties fo:break-before='page'/>"
    "</style:style><style:style style:name='Secret' style:family='text'><style:text-properties text:display='none'/>"
    "</style:style><style:style style:name='Secret' style:family='table'/>"
    "<style:style style:name='Table' style:family='paragraph' style:parent-style-name='Caption'/>"
    "<style:style style:name='P7' style:family='paragraph' style:parent-style-name='Table'/>"
    "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='1' "
    "style:num-suffix='.' text:start-value='3'/><text:list-level-style-number text:level='2' style:num-format='a' "
    "style:num-suffix=')'/><text:list-level-style-number text:level='3' style:num-format='1' text:display-levels='3'/>"
    "</text:list-style>"
)


def _master(name: str, inner: str, more: str = "") -> str:
    return f'<style:master-page style:name="{name}"{more}>{inner}</style:master-page>'


def _with_masters(body: str, *masters: str) -> bytes:
    names = "xmlns:office='urn:oasis:names:tc:opendocument:xmlns:office:1.0' "
    names += "xmlns:style='urn:oasis:names:tc:opendocument:xmlns:style:1.0' "
    names += "xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0'"
    held = f"<office:master-styles>{''.join(masters)}</office:master-styles>"
    outline = "<text:outline-style><text:outline-level-style text:level='1' style:num-format='I' style:num-suffix='.'/>"
    styles = f"<office:styles>{outline}</text:outline-style></office:styles>"
    part = f"<office:document-styles {names}>{styles}{held}</office:document-styles>"
    return odf("text", body, _STYLES, {"styles.xml": part})


def _pages(folder: Path, document: bytes) -> list[PageReading]:
    path = folder / "document"
    path.write_bytes(document)
    return read_pages(str(path), None, range(1, inspect(str(path), None, 100).page_count + 1))


def _details(folder: Path, document: bytes) -> dict[str, Any]:
    path = folder / "document"
    path.write_bytes(document)
    wanted = ("changes", "hidden_text")
    found: dict[str, Any] = json.loads(document_details(str(path), None, wanted, [1], OfficeLimits()))
    return found


def test_headers_come_once_for_each_master_page_when_they_differ(tmp_path: Path) -> None:
    lines = (
        "<style:header><text:p>Report</text:p></style:header>"
        "<style:header-left style:display='false'><text:p>Left</text:p></style:header-left>"
        "<style:footer><text:p>Page <text:page-number>1</text:page-number></text:p></style:footer>"
    )
    plain = _master("Standard", lines)
    annex = _master("Annex", "<style:header><text:p>Annex</text:p></style:header>")
    body = "<text:p>one</text:p><text:p text:style-name='Break'>two</text:p>"
    body += "<text:p text:style-name='New'>three</text:p>"
    pages = _pages(tmp_path, _with_masters(body, annex, plain))
    assert [one.markdown for one in pages] == ["one", "two", "three"]
    found = [[f"{e.kind.value}: {e.text}" for e in one.elements if e.repeated] for one in pages]
    assert found == [["running_header: Report", "running_footer: Page 1"], [], ["running_header: Annex"]]


def test_master_page_shows_those_that_follow_it_by_themselves(tmp_path: Path) -> None:
    first = _master(
        "Standard", "<style:header><text:p>Cover</text:p></style:header>", ' style:next-style-name="B"'
    )
    second = _master("B", "<style:header><text:p>Rest</text:p></style:header>", ' style:next-style-name="B"')
    (page,) = _pages(tmp_path, _with_masters("<text:p>one</text:p>", first, second))
    assert [one.text for one in page.elements if one.kind is ElementKind.RUNNING_HEADER] == ["Cover", "Rest"]


def test_lists_and_headings_have_the_numbers_that_are_shown(markdown: ReadMarkdown) -> None:
    def item(text: str, inner: str = "", more: str = "") -> str:
        return f"<text:list-item{more}><text:p>{text}</text:p>{inner}</text:list-item>"

    deep = f"<text:list><text:list-item><text:list>{item('x')}</text:list></text:list-item></text:list>"
    inner, nine = item("a") + item("b", deep), ' text:start-value="9"'
    body = (
        "<text:h text:outline-level='1'>Part</text:h>"
        f"<text:list text:style-name='L'>{item('three', f'<text:list>{inner}</text:list>')}"
        f"</text:list><text:p>between</text:p>"
        f"<text:list text:style-name='L' text:continue-numbering='true'>{item('four')}"
        f"{item('nine', more=nine)}</text:list><text:h text:outline-level='1'>Next</text:h>"
        f"<text:list text:style-name='L'>{item('anew')}</text:list>"
    )
    found = markdown(_with_masters(body))
    assert found.startswith("# I. Part\n\n3. three\n   - a) a\n   - b) b\n")
    assert "between\n\n4. four\n9. nine\n\n# II. Next\n\n3. anew" in found


@pytest.mark.parametrize("name", ["text:list><text:list-item", "text:section", "draw:frame><draw:text-box"])
def test_words_are_kept_however_deep_they_are(name: str, markdown: ReadMarkdown) -> None:
    ends = "".join(f"</{one}>" for one in reversed(name.split("><")))
    assert "deep words" in markdown(odf("text", f"<{name}>" * 30 + "<text:p>deep words</text:p>" + ends * 30))


def test_caption_belongs_to_its_table(reading: ReadReading) -> None:
    row = "<table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p>"
    table = f"<table:table>{row}</table:table-cell></table:table-row></table:table>"
    found = reading(
        odf("text", f"<text:p text:style-name='P7'>Table 1</text:p>{table}<text:p>x</text:p>", _STYLES)
    )
    kinds = [(one.kind.value, one.parent) for one in found.elements]
    assert kinds == [("caption", "p1-e2"), ("table", None), ("paragraph", None)]


def test_picture_in_its_caption_is_a_figure_of_its_own(reading: ReadReading) -> None:
    image = "<draw:frame><draw:image xlink:href='Pictures/1.png'/></draw:frame>"
    words = f"<text:p text:style-name='P7'>{image}Figure 1</text:p>"
    box = f"<draw:frame><draw:text-box>{words}</draw:text-box></draw:frame>"
    found = reading(odf("text", f"<text:p>Text{box}</text:p>", _STYLES))
    assert found.markdown == "Text\n\n[Picture]\n\nFigure 1"
    assert [one.kind.value for one in found.elements] == ["paragraph", "figure", "caption"]
    assert found.elements[2].parent == found.elements[1].id


def _region(name: str, kind: str, author: str, inner: str = "") -> str:
    about = f"<dc:creator>{author}</dc:creator><dc:date>2026-05-06T07:08:00</dc:date>"
    change = f"<text:{kind}><office:change-info>{about}</office:change-info>{inner}</text:{kind}>"
    return f"<text:changed-region text:id='{name}'>{change}</text:changed-region>"


def test_text_is_as_accepted_and_changes_are_listed(tmp_path: Path) -> None:
    regions = _region("a", "deletion", "Ann", "<text:p>nine</text:p>") + _region("b", "insertion", "Ben")
    body = (
        f"<text:tracked-changes>{regions}</text:tracked-changes><text:p>It is <text:change text:change-id='a'/>"
        "<text:change-start text:change-id='b'/>twelve</text:p><text:p>and<text:change-end text:change-id='b'/> so."
        "<text:span text:style-name='Secret'> Unseen</text:span></text:p>"
        "<text:section text:display='none'><text:p>Hidden part</text:p></text:section>"
    )
    document = odf("text", body, _STYLES)
    assert [one.markdown for one in _pages(tmp_path, document)] == ["It is twelve\n\nand so."]
    found = _details(tmp_path, document)
    date = "2026-05-06T07:08:00"
    assert [(one["kind"], one["text"], one["author"], one["date"]) for one in found["changes"]] == [
        ("deletion", "nine", "Ann", date),
        ("insertion", "twelve and", "Ben", date),
    ]
    assert [one["text"] for one in found["hidden_text"]] == ["Unseen", "Hidden part"]


def _cells(*texts: str) -> str:
    inner = "".join(
        f"<table:table-cell>{f'<text:p>{one}</text:p>' if one else ''}</table:table-cell>" for one in texts
    )
    return f"<table:table-row>{inner}</table:table-row>"


def test_tables_side_by_side_and_below_each_other_are_apart(markdown: ReadMarkdown) -> None:
    rows = (
        _cells("Berth", "Fee", "", "Boat", "Length")
        + _cells("A", "12", "", "Ida", "9")
        + _cells("B", "14", "", "Bo", "7")
    )
    gap = '<table:table-row table:number-rows-repeated="4"><table:table-cell table:number-columns-repeated="9"/>'
    more = (
        f"{gap}</table:table-row>"
        + _cells("", "", "", "", "", "", "Day", "Tide")
        + _cells(*[""] * 6, "May", "3")
    )
    assert markdown(odf("spreadsheet", f"<table:table table:name='S'>{rows}{more}</table:table>")) == (
        "## S\n\n| Berth | Fee |\n|---|---|\n| A | 12 |\n| B | 14 |\n\n| Boat | Length |\n|---|---|\n| Ida | 9 |\n"
        "| Bo | 7 |\n\n| Day | Tide |\n|---|---|\n| May | 3 |"
    )


def test_far_cell_costs_one_row_when_millions_of_empty_ones_precede_it(markdown: ReadMarkdown) -> None:
    empty = '<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>'
    wide = '<table:table-cell table:number-columns-repeated="16000"/>'
    last = (
        f"<table:table-row>{wide}<table:table-cell><text:p>far</text:p></table:table-cell></table:table-row>"
    )
    found = markdown(
        odf("spreadsheet", f"<table:table table:name='S'>{_cells('a', 'b')}{empty}{last}</table:table>")
    )
    assert found == "## S\n\n| a | b |\n|---|---|\n\nfar"


def test_chart_is_the_table_that_it_was_drawn_from(markdown: ReadMarkdown) -> None:
    names = "xmlns:office='o' xmlns:chart='c' xmlns:table='t' xmlns:text='x'"
    rows = _cells("", "Fee") + _cells("May", "12")
    inner = f"<chart:title><text:p>Fees</text:p></chart:title><table:table>{rows}</table:table>"
    inner = f"<chart:chart>{inner}</chart:chart>"
    chart = f"<r {names}><office:body><office:chart>{inner}</office:chart></office:body></r>"
    frame = "<draw:frame><draw:object xlink:href='./Object 1'/><draw:image xlink:href='x'/></draw:frame>"
    body = f"<text:p>Text</text:p>{frame}"
    found = markdown(odf("text", body, parts={"Object 1/content.xml": chart}))
    assert found == "Text\n\nFees\n\n|  | Fee |\n|---|---|\n| May | 12 |"


def test_running_lines_of_a_slide_are_beside_its_text(reading: ReadReading) -> None:
    def frame(kind: str, text: str) -> str:
        box = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
        return f"<draw:frame presentation:class='{kind}'>{box}</draw:frame>"

    page = f"<draw:page>{frame('title', 'Plan')}{frame('footer', 'Seaside')}{frame('page-number', '4')}</draw:page>"
    found = reading(odf("presentation", page))
    assert found.markdown == "# Plan"
    assert [(one.kind.value, one.text) for one in found.elements] == [
        ("heading", "Plan"),
        ("running_footer", "Seaside"),
        ("page_number", "4"),
    ]


def test_code_and_quotations_of_open_text_are_known_by_their_styles(reading: ReadReading) -> None:
    style = '<style:style style:name="P1" style:family="paragraph" style:parent-style-name="Preformatted_20_Text"/>'
    code = '<text:p text:style-name="{}">{}</text:p>'
    body = (
        code.format("Preformatted_20_Text", "if x:")
        + code.format("P1", '<text:s text:c="4"/>y = `1`<text:tab/>z')
        + code.format("P1", "")
        + code.format("P1", "end")
        + code.format("Quotations", "1. said<text:line-break/>so")
        + code.format("P1", "<text:note><text:note-body><text:p>n</text:p></text:note-body></text:note>noted")
        + "<text:p>a<text:s/>  b</text:p>"
    )
    found = reading(odf("text", body, style))
    assert found.markdown == (
        "```\nif x:\n    y = `1` z\n\nend\n```\n\n> 1\\. said\n> so\n\n[^1]noted\n\na b\n\n[^1]: n"
    )
    assert [one.kind.value for one in found.elements] == [
        "code",
        "quote",
        "paragraph",
        "paragraph",
        "footnote",
    ]
