"""The report of a run as people read it."""

from __future__ import annotations

import subprocess
import sys

from quire.bulk.bulk_report import html_report, report_of
from quire.bulk.bulk_run import RunOutcome
from quire.bulk.page_rows import PageRow, stats_of
from quire.bulk.shard_queue import FailedShard


def test_names_of_documents_are_shown_as_they_are_when_they_have_signs_of_html_or_underscores() -> None:
    rows = [
        PageRow("in_1/<b>_2.pdf", page=1, words=3, milliseconds=1_200, reader="mupdf", size=2_000_000),
        PageRow("bad_one.pdf", kind="error", error_code="damaged_document", error="It is damaged."),
    ]
    outcome = RunOutcome(
        2, 0, [FailedShard(7, "Its worker died <each> time.")], stats_of(rows), stats_of(rows), 2.0
    )
    shown = html_report(report_of(outcome, "s3://lake/in_1", "s3://lake/rows_2"))
    assert "<td>in_1/&lt;b&gt;_2.pdf</td><td>1.2 s</td>" in shown
    assert "<td>damaged_document</td><td>1</td>" in shown
    assert "s3://lake/rows_2/part-*.parquet" in shown
    assert "<td>size</td><td>2.0 MB</td>" in shown
    assert "no: run the same command again" in shown
    assert "Its worker died &lt;each&gt; time." in shown


def test_a_worker_ends_in_silence_when_its_driver_was_killed_before_it_said_anything() -> None:
    command = [sys.executable, "-P", "-m", "quire.bulk.worker_process"]
    for heard in (b"", b'{"source": "/in'):
        ended = subprocess.run(command, input=heard, capture_output=True, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
