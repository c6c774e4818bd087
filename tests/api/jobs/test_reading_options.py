"""Options of a request that say how pages are read here: effort, languages of scans, OCR of pages with a text layer."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from quire.api.jobs.submission_fields import read_fields
from quire.domain.job import JobOptions, ReadingEffort
from quire.errors import RequestError
from quire.reading.ocr import page_ocr
from quire.reading.ocr.ocr_options import AUTO, CAREFUL, QUICK, OcrOptions
from tests.support.serving import Client


def test_options_are_kept_with_the_job_and_change_its_fingerprint_only_if_asked_for() -> None:
    asked = read_fields(
        {"reading_effort": "careful", "ocr_languages": "eng+deu", "force_ocr": "true"}
    ).options
    assert JobOptions.from_dict(asked.as_dict()) == asked
    assert (asked.reading_effort, asked.ocr_languages, asked.force_ocr) == (
        ReadingEffort.CAREFUL,
        "eng+deu",
        True,
    )
    assert set(asked.identity()) - set(JobOptions().identity()) == {
        "reading_effort",
        "ocr_languages",
        "force_ocr",
    }


@pytest.mark.parametrize(
    ("field", "value"), [("reading_effort", "hard"), ("ocr_languages", "eng;rm"), ("force_ocr", "perhaps")]
)
def test_option_is_refused_by_name_when_it_is_not_understood(field: str, value: str) -> None:
    with pytest.raises(RequestError, match=field):
        read_fields({field: value})


def test_effort_chooses_the_readers_unless_the_operator_has() -> None:
    assert OcrOptions().with_effort(ReadingEffort.FAST).mode == QUICK
    assert OcrOptions().with_effort(ReadingEffort.BALANCED).mode == AUTO
    assert OcrOptions().with_effort(ReadingEffort.CAREFUL).mode == CAREFUL
    assert OcrOptions(mode=QUICK).with_effort(ReadingEffort.CAREFUL).mode == QUICK
    # The quick reader has no model for it, so the careful one reads it at any effort.
    assert OcrOptions("chi_sim").with_effort(ReadingEffort.FAST).mode == AUTO


def test_languages_are_known_when_one_reader_reads_all_of_them() -> None:
    assert page_ocr.unknown_languages(OcrOptions("eng+deu")) == []
    assert page_ocr.unknown_languages(OcrOptions("eng+chi_sim")) == []
    assert page_ocr.unknown_languages(OcrOptions("eng+rus")) == ["rus"]


async def test_text_layer_is_read_by_ocr_when_that_is_asked_for(
    client: Client, make_pdf: Callable[..., bytes]
) -> None:
    data = make_pdf(f"Tide tables of {uuid.uuid4().hex[:4]}")
    refused = await client.upload(data, ocr_languages="tlh")
    assert refused.status == 400
    assert "no model for tlh" in refused.json["error"]
    answer = await client.upload(data, wait=240, force_ocr="true", reading_effort="fast", ocr_languages="deu")
    assert answer.status == 200, answer.body
    assert "Tide tables" in answer.json["result"]["markdown"]
    (page,) = (await client.get(f"/jobs/{answer.json['job_id']}/pages")).json["pages"]
    assert (page["source"], page["reader"]) == ("ocr", "tesseract")
