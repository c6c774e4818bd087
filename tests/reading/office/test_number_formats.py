"""Numbers of workbooks as their formats show them. The texts are what LibreOffice shows for the same formats."""

from __future__ import annotations

import pytest

from quire.reading.office.number_formats import format_of, read_format
from tests.reading.office.conftest import ReadMarkdown
from tests.support.office_files import xlsx


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ('"€"\\ #,##0.00', ["€ 1,234.50", "-€ 1,234.57", "€ 0.00", "€ 0.13", "€ 1,234,567.89"]),
        (
            "#,##0.00\\ [$€-407];[Red]\\-#,##0.00\\ [$€-407]",
            ["1,234.50 €", "-1,234.57 €", "0.00 €", "0.13 €", "1,234,567.89 €"],
        ),
        ("#,##0_);(#,##0)", ["1,235", "(1,235)", "0", "0", "1,234,568"]),
        (
            '_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)',
            ["1,234.50", "(1,234.57)", "-", "0.13", None],
        ),
        ("0.0%", ["123450.0%", "-123456.7%", "0.0%", "12.5%", "123456789.1%"]),
        ("0 %", ["123450 %", "-123457 %", "0 %", "13 %", "123456789 %"]),
        ('0.0,,"M"', ["0.0M", "0.0M", "0.0M", "0.0M", "1.2M"]),
        ('#,##0" pcs"', ["1,235 pcs", "-1,235 pcs", "0 pcs", "0 pcs", "1,234,568 pcs"]),
        ("000-00-0000", ["000-00-1235", "-000-00-1235", "000-00-0000", "000-00-0000", "001-23-4568"]),
        ("#.##", ["1234.5", "-1234.57", "", ".13", "1234567.89"]),
        ("00000", ["01235", "-01235", "00000", "00000", "1234568"]),
        ('General" kg"', ["1234.5 kg", "-1234.567 kg", "0 kg", "0.125 kg", "1234567.891 kg"]),
        ("+0.0;-0.0;0.0", ["+1234.5", "-1234.6", "0.0", "+0.1", "+1234567.9"]),
        ('0.00;(0.00);"zero"', ["1234.50", "(1234.57)", "zero", "0.13", "1234567.89"]),
        ("\\(0\\)", ["(1235)", "-(1235)", "(0)", "(0)", "(1234568)"]),
        ("0,000", ["1,235", "-1,235", "0,000", "0,000", "1,234,568"]),
        ('0 "x" 0', ["123 x 5", "-123 x 5", "0 x 0", "0 x 0", "123456 x 8"]),
    ],
)
def test_a_number_is_shown_as_its_format_says(code: str, shown: list[str | None]) -> None:
    found = read_format(code)
    assert found is not None
    for number, text in zip((1234.5, -1234.567, 0, 0.125, 1234567.891), shown, strict=True):
        assert text is None or found.shown(number) == text


def test_halves_are_rounded_away_from_zero_as_decimals() -> None:
    found = read_format("0.00")
    assert found is not None
    assert [found.shown(one) for one in (1.005, -1.005, 2.675, 1e14, 5e-324)] == [
        *("1.01", "-1.01", "2.68", "100000000000000.00", "0.00"),
    ]


@pytest.mark.parametrize(
    "code",
    [
        *(
            "# ?/?",
            "0.00E+00",
            "[>=100]0.0;0.00",
            "[DBNum1]0",
            "0.0.0",
            "0.00 EUR",
            "0;0;0;0;0",
            "General",
            "@",
        ),
        *(
            "0.0x0",
            '0.0"x"0',
            "%" * 9 + "0",
            "0" + "," * 9,
            "0." + "0" * 31,
            "0" * 256,
            '"',
            "0\\",
            "#,##0-000",
            "[0",
        ),
    ],
)
def test_a_format_that_is_not_understood_changes_no_number(code: str) -> None:
    assert read_format(code) is None


def test_what_a_format_hides_is_kept_but_for_zero() -> None:
    hides_all, hides_zero = read_format(";;;"), read_format("0;-0;;@")
    assert hides_all is not None
    assert hides_zero is not None
    assert [hides_all.shown(one) for one in (5, -5.5, 0)] == ["5", "-5.5", ""]
    assert [hides_zero.shown(one) for one in (5, -5.5, 0)] == ["5", "-6", ""]


def test_numbers_that_have_more_figures_than_are_stored_stay_as_they_are() -> None:
    found = read_format("#,##0.00")
    assert found is not None
    assert [found.shown(one) for one in (1e15, -1e300, float("inf"), float("nan"))] == [
        *("1e+15", "-1e+300", "inf", "nan"),
    ]


def test_money_without_a_code_has_no_currency_for_it_is_that_of_the_reader() -> None:
    found = [format_of(number, None) for number in (4, 44, 12, 200)]
    assert [one.shown(-1234.5) if one else None for one in found] == ["-1,234.50", "(1,234.50)", None, None]


def test_words_of_a_format_are_around_texts_and_no_markup(markdown: ReadMarkdown) -> None:
    row = (
        '<row><c s="1"><v>1234.5</v></c><c s="2" t="inlineStr"><is><t>Ida</t></is></c>'
        '<c s="3"><v>-2</v></c><c s="4"><v>45000.5</v></c></row>'
    )
    head = "<row>" + "".join(f'<c t="inlineStr"><is><t>{one}</t></is></c>' for one in "ABCD") + "</row>"
    formats = ['"<b>"#,##0.0', '0;0;0;"*boat* "@', '0;"[x](y)"0', "yyyy-mm-dd hh:mm"]
    found = markdown(xlsx({"S": head + row}, formats=formats))
    assert found.endswith(
        "| A | B | C | D |\n|---|---|---|---|\n"
        "| &lt;b>1,234.5 | \\*boat\\* Ida | \\[x](y)2 | 2023-03-15 12:00:00 |"
    )
