"""Parts of Word documents that are easily lost: text boxes, notes with tables, ruby, diagrams, formulas."""

from __future__ import annotations

import io
import zipfile

import pytest

from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import NAMESPACES, docx, p, pptx, relations, run, word_table

_M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
_A14 = 'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main"'


def _box(inner: str) -> str:
    return f"<w:r><w:drawing><wp:inline><w:txbxContent>{inner}</w:txbxContent></wp:inline></w:drawing></w:r>"


def test_text_box_has_its_lists_tables_and_content_controls(markdown: ReadMarkdown) -> None:
    inner = (
        p("Words")
        + word_table([["a", "b"], ["c", "d"]])
        + f"<w:sdt><w:sdtContent>{p('more')}</w:sdtContent></w:sdt>"
    )
    found = markdown(docx(p(runs=run("Anchor") + _box(inner)) + p("After")))
    assert found == "Anchor\n\nWords\n\n| a | b |\n|---|---|\n| c | d |\n\nmore\n\nAfter"


def test_text_box_in_a_cell_is_part_of_its_line(markdown: ReadMarkdown) -> None:
    cell = p(runs=run("cell") + _box(p("Words") + word_table([["a", "b"]])))
    table = f"<w:tbl><w:tr><w:tc>{cell}</w:tc><w:tc>{p('z')}</w:tc></w:tr></w:tbl>"
    assert markdown(docx(table)) == "| cell Words a, b | z |\n|---|---|"


def test_text_boxes_in_each_other_are_read_once(markdown: ReadMarkdown) -> None:
    inner = p("innermost")
    for depth in range(25):  # each was read twice for each around it
        inner = p(runs=run(f"box {depth}") + _box(inner))
    found = markdown(docx(inner)).split("\n\n")
    assert found == [*(f"box {depth}" for depth in range(24, -1, -1)), "innermost"]


def test_ruby_is_behind_its_base(markdown: ReadMarkdown) -> None:
    ruby = f"<w:r><w:ruby><w:rt>{run('とう')}</w:rt><w:rubyBase>{run('東')}</w:rubyBase></w:ruby></w:r>"
    assert markdown(docx(p(runs=ruby + run("京")))) == "東(とう)京"


def _with_parts(body: str, parts: dict[str, str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(docx(body))) as archive:
        held: dict[str, bytes | str] = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**held, **parts}.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_table_in_a_footnote_is_part_of_it(markdown: ReadMarkdown) -> None:
    note = f'<w:footnote w:id="2">{p("See")}{word_table([["a", "b"]])}</w:footnote>'
    parts = {
        "word/footnotes.xml": f"<w:footnotes {NAMESPACES}>{note}</w:footnotes>",
        "word/_rels/document.xml.rels": relations(("n", "footnotes", "footnotes.xml")),
    }
    body = p(runs=run("Text") + '<w:r><w:footnoteReference w:id="2"/></w:r>')
    assert markdown(_with_parts(body, parts)) == "Text[^2]\n\n[^2]: See a, b"


def test_words_of_a_diagram_are_items(markdown: ReadMarkdown) -> None:
    names = 'xmlns:dgm="d" xmlns:a="a"'
    points = "".join(
        f"<dgm:pt><dgm:t><a:p><a:r><a:t>{one}</a:t></a:r></a:p></dgm:t></dgm:pt>" for one in ("Plan", "Do")
    )
    parts = {
        "word/diagrams/data1.xml": f"<dgm:dataModel {names}><dgm:ptLst>{points}</dgm:ptLst></dgm:dataModel>",
        "word/_rels/document.xml.rels": relations(("d", "diagramData", "diagrams/data1.xml")),
    }
    drawn = '<w:r><w:drawing><wp:inline><dgm:relIds xmlns:dgm="d" r:dm="d"/></wp:inline></w:drawing></w:r>'
    assert markdown(_with_parts(p("Steps") + p(runs=drawn), parts)) == "Steps\n\n- Plan\n- Do"


def _r(text: str, properties: str = "") -> str:
    return f"<m:r><m:rPr>{properties}</m:rPr><m:t>{text}</m:t></m:r>"


_FORMULAS = [
    (f"<m:func><m:fName>{_r('cos')}</m:fName><m:e>{_r('θ')}</m:e></m:func>{_r('x')}", r"\cos \theta x"),
    (f"<m:func><m:fName>{_r('erf')}</m:fName><m:e>{_r('x')}</m:e></m:func>", r"\operatorname{erf} x"),
    (
        f"<m:func><m:fName><m:sSub><m:e>{_r('log')}</m:e><m:sub>{_r('2')}</m:sub></m:sSub></m:fName>"
        f"<m:e>{_r('8')}</m:e></m:func>",
        r"\log_{2} 8",
    ),
    (_r("v", '<m:sty m:val="b"/>') + _r("R", '<m:scr m:val="double-struck"/>'), r"\mathbf{v}\mathbb{R}"),
    (_r("𝑥=𝐀𝛼ℝ𝟏"), r"x=\mathbf{A}\alpha \mathbb{R} \mathbf{1}"),
    (
        '<m:groupChr><m:groupChrPr><m:chr m:val="→"/><m:pos m:val="top"/></m:groupChrPr>'
        f"<m:e>{_r('AB')}</m:e></m:groupChr>",
        r"\overrightarrow{AB}",
    ),
    (
        f'<m:phant><m:phantPr><m:show m:val="0"/></m:phantPr><m:e>{_r("q")}</m:e></m:phant>{_r("y")}',
        r"\phantom{q}y",
    ),
    (f'<m:acc><m:accPr><m:chr m:val="\u20d6"/></m:accPr><m:e>{_r("x")}</m:e></m:acc>', r"\overleftarrow{x}"),
    (
        f'<m:acc><m:accPr><m:chr m:val="\u2022"/></m:accPr><m:e>{_r("x")}</m:e></m:acc>',
        "\\overset{\u2022}{x}",
    ),
    (f'<m:acc><m:accPr><m:chr m:val=""/></m:accPr><m:e>{_r("x")}</m:e></m:acc>', "x"),
    (
        f"<m:limLow><m:e>{_r('argmax')}</m:e><m:lim>{_r('x')}</m:lim></m:limLow>{_r('f')}",
        r"\operatorname{argmax}_{x}f",
    ),
    (
        f'<m:eqArr><m:eqArrPr><m:maxDist m:val="1"/></m:eqArrPr><m:e>{_r("a=b#(1)")}</m:e></m:eqArr>',
        r"a=b \qquad (1)",
    ),
    (_r("if ^ ~", "<m:nor/>"), r"\text{if \textasciicircum{} \textasciitilde{}}"),
    (_r("a&lt;b"), "a< b"),
    (f'{_r("a")}<w:del w:author="Ann">{_r("b")}</w:del><w:ins w:author="Ann">{_r("c")}</w:ins>', "ac"),
]


@pytest.mark.parametrize(("formula", "latex"), _FORMULAS)
def test_formula_of_word_is_latex(formula: str, latex: str, markdown: ReadMarkdown) -> None:
    assert markdown(docx(p(runs=run("It is ") + f"<m:oMath {_M}>{formula}</m:oMath>"))) == f"It is ${latex}$"


@pytest.mark.parametrize(("formula", "latex"), _FORMULAS[:-1])
def test_formula_of_a_slide_is_latex(formula: str, latex: str, markdown: ReadMarkdown) -> None:
    words = "<a:r><a:t>It is </a:t></a:r>"
    math = f"<a14:m {_A14}><m:oMathPara {_M}><m:oMath>{formula}</m:oMath></m:oMathPara></a14:m>"
    held = f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p>{words}{math}</a:p></p:txBody></p:sp>"
    assert markdown(pptx([held])) == f"It is ${latex}$"


def test_nothing_in_a_formula_is_active(markdown: ReadMarkdown) -> None:
    formula = _r("&lt;script&gt;") + _r("[x](javascript:y)") + _r("&lt;/b", "<m:nor/>")
    found = markdown(docx(p(runs=run("It is ") + f"<m:oMath {_M}>{formula}</m:oMath>")))
    assert found == r"It is $< script>[x] (javascript:y)\text{< /b}$"
    shown = markdown(docx(f"<w:p><m:oMath {_M}>{formula}</m:oMath></w:p>"))
    assert shown == "$$\n< script>[x] (javascript:y)\\text{< /b}\n$$"


_MONO = '<w:rFonts w:ascii="Consolas" w:hAnsi="Consolas"/>'


def test_code_keeps_its_lines_and_indents_when_it_is_in_type_of_one_width(markdown: ReadMarkdown) -> None:
    lines = ["def fees(n):", "    return 12 * n", "", "print(fees(2))"]
    body = p("Text") + "".join(p(runs=run(one, _MONO) if one else "") for one in lines) + p() + p("After")
    assert (
        markdown(docx(body)) == "Text\n\n```\ndef fees(n):\n    return 12 * n\n\nprint(fees(2))\n```\n\nAfter"
    )


def test_prose_in_type_of_one_width_stays_prose(markdown: ReadMarkdown) -> None:
    body = p(runs=run("A letter set as by hand.", _MONO)) + p(runs=run("It has * and _ signs.", _MONO))
    assert markdown(docx(body)) == "A letter set as by hand.\n\nIt has \\* and \\_ signs."


def test_word_in_type_of_one_width_parts_no_emphasis(markdown: ReadMarkdown) -> None:
    runs = run("Call ", "<w:b/>") + run("printf", f"<w:b/>{_MONO}") + run(" now", "<w:b/>")
    assert markdown(docx(p(runs=runs))) == "**Call printf now**"


def test_code_at_the_end_of_a_page_stays_on_it(markdown: ReadMarkdown) -> None:
    first = p(runs=run("x = f(1);", _MONO))
    assert markdown(docx(first + p(runs=run("y = f(2);", _MONO)))) == "```\nx = f(1);\ny = f(2);\n```"
