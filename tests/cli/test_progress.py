"""Lines about progress where standard error is no terminal."""

from __future__ import annotations

import pytest

from quire.cli.progress import Lines
from tests.support.clocks import MovableClock


def test_progress_is_said_every_two_seconds_when_a_document_takes_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = MovableClock()
    lines = Lines(1, clock)
    for done in range(0, 11):
        lines.update(0, "long.pdf", done, 10)
        clock.time += 0.5
    lines.finish(0, "long.pdf: 10 pages")
    assert capsys.readouterr().err.splitlines() == [
        "long.pdf: 4/10 pages",
        "long.pdf: 8/10 pages",
        "long.pdf: 10 pages",
    ]


def test_documents_are_counted_when_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    clock = MovableClock()
    lines = Lines(2, clock)
    lines.finish(0, "a.pdf: 1 page")
    clock.time += 3
    lines.update(1, "b.pdf", 1, 3)
    lines.finish(1, "quire: b.pdf: no good", failed=True)
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] a.pdf: 1 page",
        "[1/2] b.pdf: 1/3 pages",
        "quire: b.pdf: no good",
    ]
