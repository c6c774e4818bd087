"""The object store is away for a while: documents wait for it, none fails and no attempt is counted."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from quire.clock import SystemClock
from quire.domain.job import JobStatus, UnitKind
from quire.errors import ObjectsError
from quire.pipeline.plane_outages import outlast
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, markdown, over, quire, upload
from tests.support.waiting import until


async def test_a_document_waits_when_the_object_store_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "quire")
    place, aside = tmp_path / "mounted" / "objects", tmp_path / "aside"
    options = {"OBJECT_STORE": str(place), "READER_CHUNK_PAGES": "2", "JOB_MAX_ATTEMPTS": "1"}
    async with quire(tmp_path, kinds=None, **options) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 6, seed=4))
    place.parent.rename(aside)
    place.parent.write_text("no folder is mounted here")
    async with quire(tmp_path, **options) as one:
        await until(lambda: caplog.text.count("unit waits for a plane") >= 4, "several tries")
        place.parent.unlink()
        aside.rename(place.parent)
        job = await over(one, accepted.job_id)
        assert (job.status, job.pages_completed, job.pages_failed) == (JobStatus.COMPLETED, 6, 0)
        assert [child.attempts for child in job.children.values()] == [1] * len(job.children)
        assert markers_in(await markdown(one, job)) == [marker(4, number) for number in range(1, 7)]
        assert not any([(await one.parts.queues.depth(kind))["dead"] for kind in UnitKind])
        await at_rest(one)


async def test_what_was_paid_for_is_stored_when_the_store_comes_back() -> None:
    tries = 0

    async def store() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ObjectsError("The store is away.")
        return "stored"

    assert await outlast(store, SystemClock(), None) == "stored"
    assert tries == 3


@pytest.mark.parametrize(("retryable", "deadline_at"), [(False, None), (True, 0.0)])
async def test_waiting_ends_when_it_can_not_help(retryable: bool, deadline_at: float | None) -> None:
    async def store() -> None:
        raise ObjectsError("The store is away.", retryable=retryable)

    with pytest.raises(ObjectsError):
        await outlast(store, SystemClock(), deadline_at)
