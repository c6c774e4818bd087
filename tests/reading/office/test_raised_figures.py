"""Raised figures stay apart from the number or the word that they are behind, in every office format."""

from __future__ import annotations

import struct

import pytest

from quire.reading.office.inline_markdown import RAISED
from quire.reading.office.word_binary import _character_look
from quire.reading.raised_figures import raised_text
from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import docx, odf, p, pptx, run, xlsx

_RAISED = '<w:vertAlign w:val="superscript"/>'


@pytest.mark.parametrize(
    ("text", "before", "after", "written"),
    [
        ("6", "10", " people", "⁶"),
        ("-3", "10", "", "⁻³"),
        ("2+", "Ca", "", "²⁺"),
        ("+", "Na", " ", "⁺"),
        ("+", "a", "b", "+"),
        ("1,2", "Union", "", "¹,²"),
        ("1", "end.", "", "¹"),
        ("1", "", " See the annex", "1"),
        ("th", "5", "", "th"),
        ("n+1", "a", "", "n+1"),
    ],
)
def test_only_figures_are_written_as_raised(text: str, before: str, after: str, written: str) -> None:
    assert raised_text(text, before, after) == written


def test_power_is_no_factor_when_a_word_document_raises_it(markdown: ReadMarkdown) -> None:
    split = run("5 in H") + run("2", '<w:vertAlign w:val="subscript"/>') + run("O, 1") + run("th", _RAISED)
    body = p(runs=run("10") + run("-", _RAISED) + run("6", f"<w:b/>{_RAISED}") + run(" and ") + split)
    assert markdown(docx(body)) == "10⁻⁶ and 5 in H2O, 1th"


def test_figure_of_a_footnote_is_as_before_when_its_mark_is_raised(markdown: ReadMarkdown) -> None:
    runs = run("5") + f'<w:r><w:rPr>{_RAISED}</w:rPr><w:footnoteReference w:id="2"/></w:r>'
    note = f'<w:footnote w:id="2">{p("See.")}</w:footnote>'
    assert markdown(docx(p(runs=runs), footnotes=note)) == "5[^2]\n\n[^2]: See."


def test_link_is_set_apart_as_before_when_a_web_page_raises_it(markdown: ReadMarkdown) -> None:
    page = "<html><p>10<sup>6</sup> m<sup>2</sup>, CO<sub>2</sub>, a note<sup><a href='#n'>1</a></sup>."
    assert markdown(page) == "10⁶ m², CO2, a note[1](#n)."


def test_power_is_no_factor_when_it_is_in_an_opendocument_text(markdown: ReadMarkdown) -> None:
    body = '<text:p>5<text:span text:style-name="Up">2</text:span></text:p>'
    style = (
        '<style:style style:name="Up"><style:text-properties style:text-position="33% 58%"/></style:style>'
    )
    assert markdown(odf("text", body, style)) == "5²"


def test_power_is_no_factor_when_it_is_in_rtf(markdown: ReadMarkdown) -> None:
    assert markdown(r"{\rtf1 10{\super 6} and 5\super 2\nosupersub 3, 1\super0 0\par}") == "10⁶ and 5²3, 10"


def test_raised_text_is_known_when_word_97_wrote_it() -> None:
    looks = [_character_look(struct.pack("<HB", 0x2A48, height)).look for height in (0, 1, 2)]
    assert looks == [0, RAISED, 0]


def test_power_is_no_factor_when_it_is_on_a_slide(markdown: ReadMarkdown) -> None:
    runs = '<a:r><a:t>5</a:t></a:r><a:r><a:rPr baseline="{}"/><a:t>2</a:t></a:r>'
    paragraphs = "".join(f"<a:p>{runs.format(height)}</a:p>" for height in ("30000", "-25000"))
    shown = f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"
    assert markdown(pptx([shown])).endswith("5²\n\n52")


def test_power_is_no_factor_when_it_is_in_a_cell(markdown: ReadMarkdown) -> None:
    runs = '<r><t>5</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>2</t></r><r><t> m</t></r>'
    assert markdown(xlsx({"S": f'<row><c t="inlineStr"><is>{runs}</is></c></row>'})) == "## S\n\n5² m"


def test_power_is_no_factor_when_it_is_in_an_article(markdown: ReadMarkdown) -> None:
    article = "<article><body><p>About 10<sup>6</sup> cells.</p></body></article>"
    doctype = '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving DTD v1.2//EN" "a.dtd">'
    assert "10⁶ cells" in markdown(f'<?xml version="1.0"?>{doctype}{article}')


def test_letters_that_are_moved_up_are_raised_in_every_word_format(markdown: ReadMarkdown) -> None:
    """As LibreOffice writes them, and authors by hand."""
    raised = [run("x") + run("2", f'<w:position w:val="{height}"/>') for height in ("8", "-8", "0", "x")]
    assert markdown(docx("".join(p(runs=one) for one in raised))) == "x²\n\nx2\n\nx2\n\nx2"
    assert markdown(r"{\rtf1 x{\up6 2} y{\dn6 2} z{\up0 2}\par}") == "x² y2 z2"
    looks = [_character_look(struct.pack("<Hh", 0x4845, height)).look for height in (6, 0, -6)]
    assert looks == [RAISED, 0, 0]
