"""Captions of office files are elements with their table or figure as parent."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from quire.domain.element import CellSpan, Element, ElementKind
from quire.domain.element_codec import decode
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.grounding import pack_described_page
from quire.reading.pdf.page_reader import read_pages
from quire.rendering.page_markdown import render_markdown
from tests.reading.office.conftest import ReadReading
from tests.support.office_files import W, docx, drawing, p, relations, run, word_table

TABLE = "<tr><th>Berth<th>Fee<tr><td>A<td>12"
_CAPTION_STYLE = (
    f'<w:styles {W}><w:style w:type="paragraph" w:styleId="Bildunterschrift"><w:name w:val="caption"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:basedOn w:val="Bildunterschrift"/></w:style></w:styles>'
)


def _captions(elements: tuple[Element, ...]) -> dict[str, str]:
    """The text of each caption with what it is about."""
    kinds = {
        one.id: f"{one.kind.value} {one.plain_text.split()[0] if one.plain_text else ''}" for one in elements
    }
    found = [one for one in elements if one.kind is ElementKind.CAPTION]
    return {one.text: kinds[one.parent].strip() if one.parent else "" for one in found}


@pytest.mark.parametrize(
    ("page", "captions"),
    [
        (
            f"<p>Text<table><caption>Fees of <b>May</b></caption>{TABLE}</table>",
            {"Fees of May": "table Berth"},
        ),
        (f"<table><caption>Fees{TABLE}</table><p>after", {"Fees": "table Berth"}),
        (
            "<figure><img src=a alt=Mole><figcaption>The mole</figcaption></figure>",
            {"The mole": "figure Mole"},
        ),
        (
            "<figure><figcaption>The mole</figcaption><img src=a alt=Mole></figure>",
            {"The mole": "figure Mole"},
        ),
        (
            "<figure><img src=a alt=One> <img src=b alt=Two><figcaption>Both</figure><p>x",
            {"Both": "figure One"},
        ),
        (f"<figure><table>{TABLE}</table><figcaption>Fees</figcaption></figure>", {"Fees": "table Berth"}),
        ("<figure><pre>x = 1</pre><figcaption>Listing</figcaption></figure>", {"Listing": "code x"}),
        ("<p>Before<figure><figcaption>Alone</figcaption></figure><p>After", {"Alone": ""}),
        (
            "<img src=a alt=Zero><figure><img src=a alt=One><figcaption>1</figcaption></figure>"
            "<figure><img src=a alt=Two><figcaption>2</figcaption></figure>",
            {"1": "figure One", "2": "figure Two"},
        ),
    ],
)
def test_caption_of_a_web_page_belongs_to_its_table_or_figure(
    page: str, captions: dict[str, str], reading: ReadReading
) -> None:
    found = reading(f"<!doctype html><html><body>{page}</body></html>", "a.html")
    assert _captions(found.elements) == captions
    assert render_markdown(found.elements) == found.markdown


def _styled(body: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(docx(body))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["word/styles.xml"] = _CAPTION_STYLE.encode()
    rows = [("s", "styles", "styles.xml"), ("pic", "image", "media/a.png")]
    parts["word/_rels/document.xml.rels"] = relations(*rows).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_caption_of_word_belongs_to_its_neighbour_of_the_kind_that_it_names(reading: ReadReading) -> None:
    table = word_table([["Berth", "Fee"], ["A", "12"]])
    picture = p(runs=drawing("pic", "Mole"))
    body = (
        picture + p("Figure 1 The mole", "Bildunterschrift") + p("Table 1 Fees", "Own") + table + p("Table")
    )
    assert _captions(reading(_styled(body)).elements) == {
        "Figure 1 The mole": "figure Mole",
        "Table 1 Fees": "table Berth",
    }


def test_picture_in_its_caption_is_a_figure_of_its_own(reading: ReadReading) -> None:
    runs = drawing("pic", "Mole") + run("Figure 1 The mole")
    found = reading(_styled(p("Text") + p(runs=runs, style="Own")))
    assert found.markdown == "Text\n\n[Picture: Mole]\n\nFigure 1 The mole"
    assert _captions(found.elements) == {"Figure 1 The mole": "figure Mole"}


def test_caption_of_a_figure_is_not_that_of_a_table_behind_another_caption(reading: ReadReading) -> None:
    table = word_table([["Berth", "Fee"], ["A", "12"]])
    body = p("Text") + p("Figure 1", "Own") + p("Table 1", "Own") + table
    assert _captions(reading(_styled(body)).elements) == {"Figure 1": "", "Table 1": "table Berth"}


def test_paragraph_in_the_style_of_captions_has_no_parent_when_nothing_is_beside_it(
    reading: ReadReading,
) -> None:
    found = reading(_styled(p("Text") + p("Figure 1", "Own") + p("Text")))
    assert _captions(found.elements) == {"Figure 1": ""}


def test_caption_of_an_article_belongs_to_its_table_or_figure(reading: ReadReading) -> None:
    table = "<table><tr><th>Berth</th><th>Fee</th></tr><tr><td>A</td><td>12</td></tr></table>"
    floats = (
        f"<table-wrap><label>Table 1</label><caption><p>Fees</p></caption>{table}</table-wrap>"
        "<fig><label>Fig 1</label><caption><p>The mole</p></caption><graphic/></fig>"
    )
    front = "<front><article-meta><title-group><article-title>T</article-title></title-group></article-meta></front>"
    doctype = '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "a.dtd">'
    found = reading(f"<?xml version='1.0'?>{doctype}<article>{front}<body>{floats}</body></article>", "a.xml")
    assert _captions(found.elements) == {"Table 1 Fees": "table Berth", "Fig 1 The mole": "figure"}


def test_described_page_keeps_its_captions_and_spans(tmp_path: Path) -> None:
    rows = "<tr><th colspan=2>Fees</th></tr><tr><td>A</td><td>12</td></tr>"
    figure = "<figure><img src=a alt=Mole><figcaption>The mole</figcaption></figure>"
    path = tmp_path / "a.html"
    path.write_text(f"<!doctype html><html><body>{figure}<table>{rows}</table></body></html>")
    markdown = read_pages(str(path), None, [1])[0].markdown.replace("Mole]", "A mole of stone in the sea]")
    packed = pack_described_page(str(path), None, 1, OfficeLimits(), markdown)
    elements = decode(packed.elements).elements
    assert _captions(elements) == {"The mole": "figure A"}
    assert [one.table.spans for one in elements if one.table] == [(CellSpan(0, 0, 1, 2),)]
