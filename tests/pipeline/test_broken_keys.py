"""Keys of another type, and scripts that fail: the document ends at once and says that an internal error happened."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from quire.bootstrap import Runtime
from quire.coordination.keys import JobKeys
from quire.domain.job import JobStatus, UnitKind
from tests.support.marked_documents import marked_pdf
from tests.support.running import at_rest, convert, job_of, over, quire, upload


async def _spoil(one: Runtime, key: str) -> None:
    await one.connection.command("DEL", key)
    await one.connection.command("SET", key, "a text, where a hash, a set or a stream belongs")


@pytest.mark.parametrize("which", ["pages", "work", "slow", "events"])
async def test_a_document_ends_with_an_internal_error_when_one_of_its_keys_has_another_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    caplog.set_level(logging.ERROR, "quire")
    async with quire(tmp_path, kinds=None) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 3))
        await _spoil(idle, getattr(JobKeys.of(accepted.job_id), which))
    async with quire(tmp_path) as one:
        job = await over(one, accepted.job_id)
        assert job.status is JobStatus.FAILED
        assert job.error is not None
        assert (job.error["code"], job.error["retryable"]) == ("internal_error", False)
        assert "WRONGTYPE" in job.error["error"]
        await at_rest(one)
        # The worker has survived, and the next document is read.
        assert (await convert(one, marked_pdf(tmp_path / "b.pdf", 2, seed=2))).status is JobStatus.COMPLETED
    [cause] = [
        record for record in caplog.records if record.message == "internal error in the coordination plane"
    ][:1]
    assert cause.exc_info is not None
    assert "WRONGTYPE" in str(cause.exc_info[1].__cause__)  # type: ignore[union-attr]


async def test_others_are_swept_when_the_record_of_a_job_can_not_be_read(tmp_path: Path) -> None:
    async with quire(tmp_path) as one:
        await one.connection.command("SET", JobKeys.of("broken").job, "text")
        await one.connection.command("ZADD", "jobs:active", 0, "broken")
        await one.parts.queues.put_units("broken", 1, ["split"], "")
        assert (await convert(one, marked_pdf(tmp_path / "b.pdf", 2))).status is JobStatus.COMPLETED
        await one.connection.command("ZREM", "jobs:active", "broken")
        await at_rest(one)


async def test_a_dead_letter_names_the_cause_when_a_script_fails(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as idle:
        accepted = await upload(idle, marked_pdf(tmp_path / "a.pdf", 3))
        await _spoil(idle, JobKeys.of(accepted.job_id).work)
    async with quire(tmp_path) as one:
        await over(one, accepted.job_id)
        await at_rest(one)
        letters = await one.parts.queues.dead_letters(UnitKind.SPLIT)
        assert [(letter.job_id, "WRONGTYPE" in letter.reason) for letter in letters] == [
            (accepted.job_id, True)
        ]
        assert (await job_of(one, accepted.job_id)).children
