"""The metadata of a result names the pages that a reader should look at, and the command line says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from quire.cli.terminal_text import warning_lines
from quire.domain.job import JobStatus, PageRecord
from quire.domain.page import PageSource
from quire.pipeline.stages.merge_stage import summary
from quire.reading.grading.page_grade import TEXT_LEFT_OUT


def test_pages_that_lack_words_are_named() -> None:
    records = [
        PageRecord(1, JobStatus.COMPLETED, source=PageSource.LOCAL, words=9),
        PageRecord(2, JobStatus.COMPLETED, source=PageSource.LOCAL, words=9, words_missing=3),
        PageRecord(3, JobStatus.COMPLETED, source=PageSource.AI, words=9, words_missing=1),
        PageRecord(
            4, JobStatus.COMPLETED, source=PageSource.AI, words=9, words_missing=40, reasons=(TEXT_LEFT_OUT,)
        ),
    ]
    job: Any = SimpleNamespace(timed_out=False, info={}, filename="a.pdf", mime="application/pdf")
    found = summary(job, records)
    assert (found["words_missing"], found["words_missing_pages"]) == (44, [2, 4])
    assert warning_lines("a.pdf", found) == [
        "a.pdf: words of pages 2, 4 are missing; compare with the original"
    ]
