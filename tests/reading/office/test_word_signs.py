"""Signs of symbol fonts and values of form fields in Word documents say what the page shows."""

from __future__ import annotations

import pytest

from quire.reading.office.symbol_fonts import symbol
from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import docx, p, run


def _sign(font: str, code: str) -> str:
    return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'


def _field(data: str, result: str = "") -> str:
    begin = f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
    middle = f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{result}'
    return f'{begin}<w:r><w:instrText> FORM </w:instrText></w:r>{middle}<w:r><w:fldChar w:fldCharType="end"/></w:r>'


@pytest.mark.parametrize(
    ("font", "code", "sign"),
    [
        ("Wingdings", "F0A8", "☐"),
        ("Wingdings", "F06F", "☐"),
        ("Wingdings", "F0FE", "☑"),
        ("Wingdings", "F0FD", "☒"),
        ("Wingdings", "F078", "☒"),
        ("Wingdings", "F0FC", "✓"),
        ("Wingdings", "F0FB", "✗"),
        ("Wingdings", "00E0", "→"),
        ("Symbol", "F061", "α"),
        ("Symbol", "F057", "Ω"),
        ("Symbol", "F0B3", "≥"),
        ("Symbol", "F0E5", "∑"),
        ("Symbol", "F0AE", "→"),
        ("Symbol", "F0DE", "⇒"),
        ("Wingdings 2", "F052", "☑"),
        ("Times New Roman", "03B1", "α"),
        ("Wingdings", "nonsense", ""),
    ],
)
def test_sign_is_the_one_that_its_font_shows(font: str, code: str, sign: str) -> None:
    assert symbol(font, code, begins_line=False) == sign


def test_unknown_sign_is_a_bullet_only_when_it_begins_the_line(markdown: ReadMarkdown) -> None:
    unknown = _sign("Webdings", "F0AB")
    assert markdown(docx(p(runs=unknown + run(" an item ") + unknown))) == "• an item ◇"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("<w:checkBox><w:checked/></w:checkBox>", "☒"),
        ('<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>', "☐"),
        ('<w:checkBox><w:default w:val="1"/></w:checkBox>', "☒"),
        ("<w:checkBox><w:sizeAuto/></w:checkBox>", "☐"),
        ('<w:ddList><w:result w:val="1"/><w:listEntry w:val="One"/><w:listEntry w:val="Two"/></w:ddList>', "Two"),
        ('<w:ddList><w:listEntry w:val="One"/><w:listEntry w:val="Two"/></w:ddList>', "One"),
        ("<w:textInput/>", ""),
    ],
)  # fmt: skip
def test_form_field_shows_its_value_when_the_file_has_no_text_for_it(
    markdown: ReadMarkdown, data: str, shown: str
) -> None:
    assert markdown(docx(p(runs=run("a ") + _field(data) + run(" b")))) == " ".join(f"a {shown} b".split())


def test_form_field_shows_its_text_once_when_the_file_has_it(markdown: ReadMarkdown) -> None:
    field = _field("<w:checkBox><w:checked/></w:checkBox>", run("☑"))
    assert markdown(docx(p(runs=field + run(" yes")))) == "☑ yes"
