"""Formulas of web pages, articles and OpenDocument texts, and what forms of web pages are filled in with."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest

from quire.domain.element import ElementKind
from quire.reading.office.mathml_markup import mathml_latex
from tests.reading.office.conftest import ReadMarkdown, ReadReading
from tests.support.office_files import odf

_SQUARE = "<msup><mi>x</mi><mn>2</mn></msup>"


@pytest.mark.parametrize(
    ("inner", "latex"),
    [
        (f"{_SQUARE}<mo>=</mo><mn>4</mn>", "x^{2}=4"),
        ("<msub><mi>a</mi><mrow><mi>i</mi><mo>+</mo><mn>1</mn></mrow></msub>", "a_{i+1}"),
        ("<msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup>", "a_{1}^{2}"),
        ("<mfrac><mi>a</mi><mi>b</mi></mfrac>", r"\frac{a}{b}"),
        ('<mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac>', r"{n \atop k}"),
        ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", r"\sqrt{a+b}"),
        ("<mroot><mi>a</mi><mn>3</mn></mroot>", r"\sqrt[3]{a}"),
        ("<mi>sin</mi><mi>α</mi>", r"\sin \alpha"),
        ("<mi>cost</mi><mo>≤</mo><mn>5</mn>", r"\mathrm{cost}\leq 5"),
        ("<mtext>if x</mtext>", r"\text{if x}"),
        ("<munderover><mo>∑</mo><mrow><mi>i</mi></mrow><mi>n</mi></munderover><mi>i</mi>", r"\sum_{i}^{n} i"),
        ("<mover><mi>x</mi><mo>^</mo></mover>", r"\hat{x}"),
        ("<munder><mi>x</mi><mi>k</mi></munder>", r"\underset{k}{x}"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
        (
            "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd></mtr></mtable>",
            r"\begin{matrix} 1 & 2 \\ 3 \end{matrix}",
        ),
        (
            '<semantics><mi>y</mi><annotation encoding="application/x-tex">y^2 |z|</annotation></semantics>',
            r"y^2 \vert z\vert",
        ),
        ('<semantics><mi>y</mi><annotation encoding="StarMath 5.0">y over 2</annotation></semantics>', "y"),
    ],
)
def test_formula_is_written_as_latex(inner: str, latex: str) -> None:
    assert mathml_latex(fromstring(f"<math>{inner}</math>")) == latex


@pytest.mark.parametrize(
    ("spoken", "latex"),
    [(r"{\displaystyle y^{2}}", "y^{2}"), (r"\textstyle y^{2}", "y^{2}"), ("x squared", "x^{2}"), ("$y^2", "y^2")],
)  # fmt: skip
def test_alternative_text_is_taken_when_it_is_tex(spoken: str, latex: str) -> None:
    assert mathml_latex(fromstring(f'<math alttext="{spoken}">{_SQUARE}</math>')) == latex


def test_formula_is_in_its_place_when_a_web_page_has_it(reading: ReadReading) -> None:
    page = f"<html><p>Equation <math>{_SQUARE}<mspace/></math> holds.<p><math display=block>{_SQUARE}</math>"
    found = reading(page)
    assert found.markdown == "Equation $x^{2}$ holds.\n\n$$\nx^{2}\n$$"
    assert found.elements[1].kind is ElementKind.FORMULA


def test_text_goes_on_when_a_formula_is_nested_without_end(markdown: ReadMarkdown) -> None:
    page = f"<html><p>a <math>{'<mrow>' * 3000}x</math> b"
    assert markdown(page) == "a $x$ b"


def test_formula_is_in_its_place_when_an_opendocument_text_has_it(markdown: ReadMarkdown) -> None:
    frame = '<draw:frame><draw:object xlink:href="./Object 1"/><draw:image xlink:href="x.png"/></draw:frame>'
    parts = {"Object 1/content.xml": f'<math xmlns="http://www.w3.org/1998/Math/MathML">{_SQUARE}</math>'}
    assert markdown(odf("text", f"<text:p>So {frame} is.</text:p>", parts=parts)) == "So $x^{2}$ is."
    parts = {"Object 1/content.xml": "<broken"}
    assert markdown(odf("text", f"<text:p>So {frame} is.</text:p>", parts=parts)) == "So [Picture] is."


def test_formula_is_latex_when_an_article_has_no_tex(markdown: ReadMarkdown) -> None:
    doctype = '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "a.dtd">'
    math = f'<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML">{_SQUARE}</mml:math>'
    math = math.replace("<m", "<mml:m").replace("</m", "</mml:m").replace("mml:mml:", "mml:")
    body = f"<p>As <inline-formula>{math}</inline-formula>.</p><disp-formula>{math}</disp-formula>"
    found = markdown(f'<?xml version="1.0"?>{doctype}<article><body>{body}</body></article>')
    assert "As $x^{2}$." in found
    assert "$$\nx^{2}\n$$" in found


def test_form_shows_what_it_is_filled_in_with(markdown: ReadMarkdown) -> None:
    page = (
        "<html><p><input type=checkbox checked>Yes <input type=checkbox>No <input type=radio checked>Red "
        "<input type=radio>Blue <input value='a *typed* word'> <input type=hidden value=h><input type=password value=p>"
        "<select><option>one<option selected>two<option selected>three</select> end"
    )
    assert markdown(page) == "☒ Yes ☐ No ◉ Red ○ Blue a \\*typed\\* word two, three end"


def test_fence_names_the_language_when_a_web_page_does(reading: ReadReading) -> None:
    page = "<html><pre><code class='hljs language-c++'>int x;</code></pre><pre>plain</pre>"
    found = reading(page)
    assert found.markdown == "```c++\nint x;\n```\n\n```\nplain\n```"
    assert [one.language for one in found.elements] == ["c++", ""]
