"""The classifier that needs no AI, on made invoices, letters, contracts and reports in English and German."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.classification.document_dates import document_date, find_dates
from quire.classification.local_classifier import (
    LocalClassification,
    LocalText,
    classify_locally,
    language_of,
)
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from tests.support.waiting import DEADLINE_S

TODAY = "2026-11-16"

INVOICE_DE = """# RECHNUNG

Muster GmbH | Hauptstraße 5 | 10115 Berlin

Herr Max Beispiel
Nebenweg 3
80331 München

Rechnungsnummer: RE-2026-0815
Rechnungsdatum: 14.03.2026
Leistungszeitraum: 01.02.2026 - 28.02.2026

| Pos | Bezeichnung | Menge | Preis |
|---|---|---|---|
| 1 | Beratung Datenbank | 2 | 800,00 € |
| 2 | Schulung Datenbank | 1 | 400,00 € |

Bitte überweisen Sie den Betrag bis zum 28.03.2026 auf unser Konto. Vielen Dank für Ihren Auftrag.
"""
INVOICE_EN = """Acme Widgets Ltd
12 High Street, London

INVOICE

Invoice No: INV-1042
Invoice date: March 3, 2026
Due date: April 2, 2026

Bill to: Jane Doe

Copper widgets 10 £120.00
Shipping 1 £8.00

Total due: £128.00
Please pay within 30 days to the account below.
"""
LETTER_DE = """Stadtwerke Nord AG
Postfach 100
24103 Kiel

Frau
Erika Mustermann
Lindenallee 7
24105 Kiel

Kiel, den 5. Januar 2026

Änderung Ihres Stromtarifs zum 1. März

Sehr geehrte Frau Mustermann,

hiermit informieren wir Sie, dass sich der Arbeitspreis Ihres Stromtarifs zum 1. März 2026 ändert. Der neue Preis
beträgt 31,5 Cent pro Kilowattstunde. Sie haben das Recht, den Vertrag bis zum 28. Februar 2026 zu kündigen.

Mit freundlichen Grüßen
Stadtwerke Nord AG
"""
LETTER_EN = """The Riverside Clinic
4 Park Road
Leeds

7th January 2026

Dear Mr Brown,

Re: Your appointment on 3 February 2026

We are pleased to confirm your appointment with Dr Smith on 3 February 2026 at 10:30. Please bring your insurance card
and a list of your medicines.

Yours sincerely,
Anna Green
"""
CONTRACT_DE = """Mietvertrag

zwischen Herrn Karl Vermieter, Bergstraße 1, 70173 Stuttgart (Vermieter)
und Frau Lisa Mieter, Talweg 2, 70174 Stuttgart (Mieter)

§ 1 Mieträume

Vermietet wird die Wohnung im zweiten Obergeschoss des Hauses Bergstraße 1. Die Wohnung hat drei Zimmer und Bad.

§ 2 Mietzeit

Das Mietverhältnis beginnt am 01.05.2026 und läuft auf unbestimmte Zeit.

Stuttgart, den 10.04.2026
"""
CONTRACT_EN = """# Service Agreement

This Service Agreement is entered into on 12 February 2026 between Northwind Traders Inc. (the "Client") and Contoso
Consulting LLC (the "Provider").

## 1. Services

The Provider shall deliver cloud migration services as described in Annex A. The Provider begins work on 1 April 2026.

## 2. Term

This agreement ends on 31 March 2027 unless terminated earlier.
"""
REPORT_DE = """# Prüfbericht zur Trinkwasserqualität

Datum: 3. Februar 2026

Die Untersuchung der Trinkwasserproben ergab keine Überschreitung der Grenzwerte. Die Trinkwasserproben wurden an drei
Stellen genommen. Das Labor empfiehlt eine Wiederholung im Herbst.
"""
REPORT_EN = """# Annual Sustainability Report 2025

Published: 2026-02-20

## Summary

Carbon emissions fell by 12 percent compared with the previous year. Renewable energy now covers 64 percent of the
demand.

## Carbon emissions

The carbon emissions of suppliers were measured for the first time.
"""

CASES = [
    (INVOICE_DE, "Rechnung RE-2026-0815 – Muster GmbH", "2026-03-14", "de", "rechnung", "überweisen"),
    (INVOICE_EN, "Invoice INV-1042 – Acme Widgets Ltd", "2026-03-03", "en", "invoice", "30 days"),
    (LETTER_DE, "Änderung Ihres Stromtarifs zum 1. März", "2026-01-05", "de", "brief", "Arbeitspreis"),
    (LETTER_EN, "Your appointment on 3 February 2026", "2026-01-07", "en", "letter", "insurance card"),
    (CONTRACT_DE, "Mietvertrag", "2026-04-10", "de", "mietvertrag", "Wohnung"),
    (CONTRACT_EN, "Service Agreement", "2026-02-12", "en", "contract", "cloud migration"),
    (REPORT_DE, "Prüfbericht zur Trinkwasserqualität", "2026-02-03", "de", "bericht", "Grenzwerte"),
    (REPORT_EN, "Annual Sustainability Report 2025", "2026-02-20", "en", "report", "Carbon emissions"),
]


def _classified(text: str, *known: str, filename: str = "scan.pdf", title: str = "") -> LocalClassification:
    return classify_locally(LocalText(text, filename, title, TODAY), known)


@pytest.mark.parametrize(
    ("text", "title", "date", "language", "tag", "said"), CASES, ids=[c[1][:20] for c in CASES]
)
def test_document_is_described_by_what_it_says_of_itself(
    text: str, title: str, date: str, language: str, tag: str, said: str
) -> None:
    found = _classified(text)

    assert found.title == title
    assert (found.date, found.language) == (date, language)
    assert tag in found.tags
    assert len(found.tags) <= 5
    assert said in found.summary
    assert len(found.summary) <= 600


def test_existing_tags_are_used_when_the_text_names_them() -> None:
    found = _classified(CONTRACT_EN, "Cloud Migration", "gardening")

    assert "Cloud Migration" in found.tags
    assert "gardening" not in found.tags


@pytest.mark.parametrize(
    "junk", ["Microsoft Word - x.docx", "untitled", "scan0001", "Page 1", "rechnung_final.pdf", "§§§"]
)
def test_title_in_the_metadata_is_passed_over_when_it_says_nothing(junk: str) -> None:
    assert _classified(REPORT_EN, title=junk).title == "Annual Sustainability Report 2025"


def test_title_in_the_metadata_is_taken_when_it_is_one() -> None:
    assert _classified(REPORT_EN, title="Sustainability at Contoso").title == "Sustainability at Contoso"


def test_name_and_date_come_from_the_file_when_there_is_no_text() -> None:
    found = _classified("", filename="IMG_2026-01-02_receipt.jpg")

    assert (found.title, found.date, found.language, found.tags) == (
        "IMG 2026 01 02 receipt",
        "2026-01-02",
        None,
        (),
    )


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Fait à Paris, le 14 mars 2026", "2026-03-14"),
        ("Madrid, 3 de febrero de 2026", "2026-02-03"),
        ("Roma, 1 ottobre 2025", "2025-10-01"),
        ("Amsterdam, 5 mei 2026", "2026-05-05"),
        ("Lisboa, 9 de março de 2026", "2026-03-09"),
        ("Kraków, 7 stycznia 2026", "2026-01-07"),
        ("Wien, am 12. Jänner 2026", "2026-01-12"),
        ("Datum: 31.12.25", "2025-12-31"),
        ("Dated 2026/04/05", "2026-04-05"),
        ("Issued on the 1st of May, 2026", "2026-05-01"),
        ("Date: 12/31/2025", "2025-12-31"),
        ("Due date: 2026-02-01\nInvoice date: 2026-01-02", "2026-01-02"),
        ("Zahlbar bis 01.09.2026, Rechnung vom 02.08.2026", "2026-08-02"),
        ("Version 3.14.2026.1 of the software", None),
        ("Call 030 12.13.2026 or come by", None),
        ("The 30.02.2026 does not exist", None),
    ],
)
def test_date_is_read_as_people_write_it(text: str, date: str | None) -> None:
    assert document_date(text, language_of(text), datetime.date.fromisoformat(TODAY)) == date


def test_days_come_first_unless_the_text_shows_otherwise() -> None:
    assert find_dates("03/04/2026", "en")[0].date == datetime.date(2026, 4, 3)
    assert find_dates("03/04/2026 to 03/28/2026", "en")[0].date == datetime.date(2026, 3, 4)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=2_000), st.text(max_size=60), st.text(max_size=60))
def test_any_text_gives_a_bounded_answer(text: str, filename: str, title: str) -> None:
    found = _classified(text, filename=filename, title=title)

    assert 0 < len(found.title) <= 120
    assert "\n" not in found.title
    assert len(found.summary) <= 600
    assert len(found.tags) <= 5


HOSTILE = (
    *("a." * 60_000, "# " * 40_000, "| " * 60_000, "1.1.2026 " * 12_000, "[" * 100_000, "<" * 100_000),
    *("x" * 120_000, "A B " * 30_000, "den " * 30_000 + "1. Mai 2026"),
    "\n".join(["Invoice No: " + "9" * 500] * 200),
)


async def test_hostile_text_is_classified_within_the_time_of_a_child() -> None:
    """The pool kills what takes longer; an expression that runs wild would take hours."""
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=1 << 30))
    try:
        for text in HOSTILE:
            given = LocalText(text[:64_000], "a.pdf", "", TODAY)
            found = await pool.run(classify_locally, given, ["invoice"], timeout_s=DEADLINE_S)
            assert found.title
    finally:
        await pool.close()
