"""The object store is away for a while: documents wait for it, none fails and no attempt is counted."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from quire.api.operations.health_routes import Readiness
from quire.clock import SystemClock
from quire.coordination.job_records import Claim
from quire.domain.job import JobStatus, UnitKind
from quire.errors import ObjectsError
from quire.objects import disk_guard
from quire.objects.disk_guard import DiskGuard
from quire.pipeline import plane_outages
from quire.pipeline.parts import Parts
from quire.pipeline.plane_outages import outlast
from quire.pipeline.stages.split_stage import run_split
from quire.pipeline.worker import STAGES
from tests.support.clocks import MovableClock
from tests.support.marked_documents import marked_pdf, marker, markers_in
from tests.support.running import at_rest, job_of, markdown, over, quire, upload, worker
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


async def test_attempts_count_when_one_object_keeps_failing_and_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one bad object would be tried for ever; while the store is away, it is tried as long as that takes."""
    monkeypatch.setattr(plane_outages, "MOST_WAITS", 2)
    monkeypatch.setattr(plane_outages, "_FIRST_WAIT_S", 0.005)
    starts, is_away = 0, True

    async def failing(_claim: Claim, _parts: Parts) -> None:
        nonlocal starts
        starts += 1
        raise ObjectsError("This object can't be read.")

    async def check() -> None:
        if is_away:
            raise ObjectsError("The store is away.")

    async with quire(tmp_path, kinds=None, JOB_MAX_ATTEMPTS="2") as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 1))).job_id
        monkeypatch.setattr(one.parts.objects, "check", check)
        async with worker(one, {**STAGES, UnitKind.SPLIT: failing}):
            await until(lambda: starts >= 5, "more tries than MOST_WAITS")
            assert not (await job_of(one, job_id)).status.terminal
            is_away, before = False, starts
            job = await over(one, job_id)
            assert job.status is JobStatus.FAILED
            assert starts - before <= 3, "two attempts, and a start that had begun before"


async def test_a_full_disk_is_no_attempt_and_the_worker_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "quire")
    monkeypatch.setattr(disk_guard, "_REPORTED_S", 0.2)
    monkeypatch.setattr(disk_guard, "_READ_EVERY_S", 0.0)
    refused = 0

    async def split(claim: Claim, parts: Parts) -> None:
        nonlocal refused
        if not refused:
            refused += 1
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            except OSError as error:
                raise ObjectsError("The object store can't be used.", retryable=False) from error
        await run_split(claim, parts)

    async with quire(tmp_path, kinds=None, JOB_MAX_ATTEMPTS="1", MIN_FREE_DISK="0") as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 1))).job_id
        async with worker(one, {**STAGES, UnitKind.SPLIT: split}):
            assert (await over(one, job_id)).status is JobStatus.COMPLETED
    assert caplog.text.index("no new work is taken") < caplog.text.index("work is taken again")


async def test_a_worker_takes_no_units_and_reports_it_when_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 0
    usage = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(disk_guard, "shutil", usage)
    monkeypatch.setattr(disk_guard, "_READ_EVERY_S", 0.0)
    async with quire(tmp_path, kinds=None, WORKER_TTL="4s") as one:
        job_id = (await upload(one, marked_pdf(tmp_path / "a.pdf", 1))).job_id
        async with worker(one, STAGES) as stepping_back:

            async def is_reported() -> bool:
                return await one.parts.workers.with_full_disk() == [stepping_back.id]

            await until(is_reported, "the report of the full disk")

            async def is_in_health() -> bool:
                issues = (await Readiness(one, one.parts.clock).condition()).issues
                return any("take no work because their disks are full: 1" in text for text in issues)

            await until(is_in_health, "the issue in /health")
            assert (await job_of(one, job_id)).status is JobStatus.QUEUED
            free = shutil.disk_usage(tmp_path).total
            assert (await over(one, job_id)).status is JobStatus.COMPLETED

            async def is_over() -> bool:
                return not await one.parts.workers.with_full_disk()

            await until(is_over, "the report is withdrawn")


@pytest.mark.parametrize(
    ("free_mb", "is_full"), [((70,), False), ((60,), True), ((60, 100), True), ((60, 130), False)]
)
def test_a_worker_steps_back_below_a_sixteenth_and_comes_back_above_an_eighth(
    monkeypatch: pytest.MonkeyPatch, free_mb: tuple[int, ...], is_full: bool
) -> None:
    left = iter(free_mb)
    usage = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=next(left) << 20))
    monkeypatch.setattr(disk_guard, "shutil", usage)
    clock = MovableClock()
    guard = DiskGuard([Path("/")], 1 << 30, clock)
    for _ in free_mb:
        found = guard.is_full
        clock.time += 2
    assert found is is_full
