"""Numbers and dates as documents write them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.extraction.normal_forms import date_of, dates, number_of, numbers


def meanings(text: str) -> set[object]:
    return {meaning for one in numbers(text) for meaning in one.meanings}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Total 1,234.50 EUR", "1234.50"),
        ("Summe 1.234,50 €", "1234.50"),
        ("1 234,50", "1234.50"),
        ("CHF 1'234.50", "1234.50"),
        ("1.234", "1234"),
        ("1.234", "1.234"),
        ("(1,234.00)", "-1234.00"),
        ("-17", "-17"),
        ("19 %", "0.19"),
        ("19 %", "19"),
        ("2.5 million", "2500000"),
        ("3 Mrd", "3000000000"),
        ("0,5", "0.5"),
    ],
)
def test_a_number_has_the_value_it_may_mean(text: str, value: str) -> None:
    assert Decimal(value) in meanings(text)


@pytest.mark.parametrize(
    ("text", "value"), [("12,480.55", "12480"), ("INV123", "123"), ("17", "-17"), ("1,234.50", "1.23450")]
)
def test_a_number_has_no_other_value(text: str, value: str) -> None:
    assert Decimal(value) not in meanings(text)


@given(st.decimals(0, 10**9, places=2))
def test_every_amount_is_read_back_in_both_notations(amount: Decimal) -> None:
    english = f"{amount:,.2f}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert amount in meanings(f"Total {english} EUR")
    assert amount in meanings(f"Summe {german} EUR")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-03-12",
            "12.03.2024",
            "12. 3. 2024",
            "12/3/24",
            "3/12/2024",
            "12 March 2024",
            "March 12, 2024",
        ),
        *("12. März 2024", "12 mars 2024", "12 de marzo de 2024", "Mar 12th, 2024", "12th of March 2024"),
    ],
)
def test_a_date_has_its_day(text: str) -> None:
    assert any(datetime.date(2024, 3, 12) in one.meanings for one in dates(f"on {text} in Oslo"))


def test_a_year_of_two_digits_is_of_either_century() -> None:
    (found,) = dates("born on 31.12.58")
    assert found.meanings == {datetime.date(1958, 12, 31), datetime.date(2058, 12, 31)}


def test_what_is_no_number_or_date_is_none() -> None:
    assert list(dates("31.02.2024 and 99/99/2024")) == []
    assert [number_of(one) for one in (True, None, "x", "nan", [1])] == [None] * 5
    assert date_of("2024-02-31") is None
    assert date_of("2024-02-03T10:00:00Z") == datetime.date(2024, 2, 3)
