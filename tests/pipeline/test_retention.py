"""What is to be deleted is deleted: the objects are looked for where they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from quire.bootstrap import Runtime
from quire.domain.delivery import Delivery, Destination
from quire.domain.job import JobSecrets, JobStatus, MainJob
from quire.errors import MissingError, StateConflictError
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.stages.export_stage import local_result
from quire.pipeline.upkeep.retention import apply_retention
from tests.support.clocks import ShiftedClock
from tests.support.link_servers import serving
from tests.support.marked_documents import marked_pdf, marker
from tests.support.running import (
    TEAM,
    at_rest,
    convert,
    job_of,
    markdown,
    over,
    page_texts,
    pages,
    quire,
    upload,
)
from tests.support.s3_fixtures import S3
from tests.support.stored_files import bytes_below
from tests.support.waiting import until

HOUR_S = 3600.0


async def stored(one: Runtime, job: MainJob) -> list[str]:
    """The objects of a job, by the first word of their names; its journal is kept as long as the job."""
    prefix = f"jobs/{job.id}/"
    names = [key.removeprefix(prefix) for key in await one.parts.objects.keys(prefix)]
    return sorted(name.partition("-")[0] for name in names if name not in ("accepted.json", "finished.json"))


async def are(one: Runtime, job: MainJob, *expected: str) -> None:
    async def so() -> bool:
        return await stored(one, job) == sorted(expected)

    await until(so, f"only {expected} are left")


async def test_the_original_is_deleted_at_once_when_it_is_not_to_be_kept(tmp_path: Path) -> None:
    async with quire(tmp_path, RETAIN_ORIGINALS="0") as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 3))
        await are(one, job, "elements", "pages", "result")
        assert b"%PDF" not in bytes_below(tmp_path / "data/objects")

        async def written_down() -> bool:
            return (await job_of(one, job.id)).original_deleted

        await until(written_down, "the job says that its original is gone")
        job = await job_of(one, job.id)
        assert len(await page_texts(one, job)) == 3
        searchable = anext(one.engine.searchable(job).pieces(await one.engine.elements(job)))
        for asked in (one.engine.original(job), one.engine.image(job, 1), searchable):
            with pytest.raises(MissingError, match="RETAIN_ORIGINALS"):
                await asked
        with pytest.raises(StateConflictError, match="RETAIN_ORIGINALS"):
            await one.engine.retry(job, f"{job.id}-p2")
        again = await upload(one, tmp_path / "a.pdf")
        assert (again.job_id, again.deduplicated) == (job.id, True), "its result still answers"


async def test_the_result_is_deleted_when_its_time_is_up(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, clock=clock, RETAIN_RESULTS="2h") as one:
        document = marked_pdf(tmp_path / "a.pdf", 2)
        job = await convert(one, document)
        await at_rest(one)
        clock.shift_s += 1.9 * HOUR_S
        await apply_retention(one.parts, await one.parts.jobs.retained.due())
        assert await stored(one, job) == ["elements", "original", "pages", "result"]
        clock.shift_s += 0.2 * HOUR_S
        await are(one, job, "original", "pages")
        assert marker(1, 1).encode() not in bytes_below(tmp_path / "data/objects")

        async def written_down() -> bool:
            return (await job_of(one, job.id)).result_deleted

        await until(written_down, "the job says that its result is gone")
        gone = await job_of(one, job.id)
        assert gone.status is JobStatus.COMPLETED
        assert sorted(await pages(one, gone)) == [1, 2], "how the pages were read is still known"
        for asked in (one.engine.result(gone), one.engine.page_result(gone, 1)):
            with pytest.raises(MissingError, match="RETAIN_RESULTS"):
                await asked
        fresh = await convert(one, document)
        assert fresh.id != job.id, "a job without a result answers for nobody"
        assert await one.engine.retry(gone, gone.id) == "started", "and can be done again from its original"
        redone = await over(one, job.id)
        assert len(await page_texts(one, redone)) == 2


async def test_everything_stays_as_long_as_the_job_when_nothing_else_is_said(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with quire(tmp_path, clock=clock, JOB_TTL="5d") as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 1))
        await at_rest(one)
        clock.shift_s += 4.9 * 24 * HOUR_S
        await apply_retention(one.parts, await one.parts.jobs.retained.due())
        assert await stored(one, job) == ["elements", "original", "pages", "result"]
        assert await one.parts.jobs.retained.due() == []
        clock.shift_s += 5 * HOUR_S
        await are(one, job)


async def test_a_linked_document_is_fetched_again_when_it_is_read_again(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=make_pdf(f"fetched {len(asked)} times"))

    async with (
        serving(handler) as port,
        quire(tmp_path, RETAIN_ORIGINALS="0", ALLOW_PRIVATE_URLS="true") as one,
    ):
        source = JobSecrets(source_url=f"http://127.0.0.1:{port}/a.pdf")
        accepted = await one.engine.intake.accept_source(Submission(TEAM, secrets=source))
        job = await over(one, accepted.job_id)
        assert await markdown(one, job) == "fetched 1 times"

        async def written_down() -> bool:
            return (await job_of(one, job.id)).original_deleted

        await until(written_down, "its original is deleted")
        assert await one.engine.retry(await job_of(one, job.id), f"{job.id}-p1") == "started"
        again = await over(one, job.id)
        assert await markdown(one, again) == "fetched 2 times"

        async def deleted_again() -> bool:
            return "original" not in await stored(one, again)

        await until(deleted_again, "the second copy is deleted as well")


async def test_a_file_of_the_user_stays_when_it_was_read_where_it_lies(tmp_path: Path) -> None:
    document = marked_pdf(tmp_path / "a.pdf", 1)
    async with quire(tmp_path, RETAIN_ORIGINALS="0", RETAIN_RESULTS="0") as one:
        accepted = await one.engine.intake.accept_path(Submission(TEAM), document)
        job = await over(one, accepted.job_id)
        await are(one, job, "pages")
        assert document.exists()
        assert not (await job_of(one, job.id)).original_deleted


async def test_the_record_is_mended_when_a_round_died_after_deleting(tmp_path: Path) -> None:
    """And what nobody finished writing is found as well."""
    clock = ShiftedClock()
    async with quire(tmp_path, clock=clock, RETAIN_ORIGINALS="2h") as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 1))
        await at_rest(one)
        await one.parts.objects.put(f"jobs/{job.id}/original-dead", b"of an attempt that died")
        await one.parts.objects.delete(job.content_ref or "")
        clock.shift_s += 2.1 * HOUR_S

        async def written_down() -> bool:
            return (await job_of(one, job.id)).original_deleted

        await until(written_down, "the job says that its original is gone")
        assert await stored(one, job) == ["elements", "pages", "result"]

        async def forgotten() -> bool:
            return not await one.connection.command("ZCARD", "jobs:retained")

        await until(forgotten, "nothing is left to look at")


async def test_a_delivered_result_is_there_when_ours_is_deleted_at_once(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    """A result that is still to be put somewhere is not deleted before it is; a local one goes as well."""
    async with quire(tmp_path, RETAIN_RESULTS="0") as one:
        delivery = Delivery(Destination.LOCAL, "a.pdf")
        asked = Submission(team=TEAM, filename="a.pdf", delivery=delivery)
        place = await one.engine.intake.begin_upload(asked)
        async with place.writer as out:
            await out.write(make_pdf("for a while"))
        job = await over(one, (await one.engine.intake.accept_upload(asked, place)).job_id)

        async def exported() -> bool:
            return "text_len" in ((await job_of(one, job.id)).exported or {})

        await until(exported, "the result was put where its caller looks for it")
        await are(one, job, "original", "pages")
        await until(lambda: not local_result(one.parts, job.id).exists(), "the local result is gone")


@pytest.mark.parametrize(
    ("settings", "kept_s"),
    [
        ({}, 7 * 24 * HOUR_S),
        ({"RETAIN_RESULTS": "2h"}, 2 * HOUR_S),
        ({"RETAIN_RESULTS": "0"}, 0),
        ({"RETAIN_RESULTS": "2h", "AI_CACHE_TTL": "1h"}, HOUR_S),
    ],
)
async def test_answers_of_ai_go_with_results_when_those_go_early(
    tmp_path: Path, settings: dict[str, str], kept_s: float
) -> None:
    provider = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    async with quire(tmp_path, kinds=None, **provider, **settings) as one:
        assert one.parts.ai is not None
        assert one.parts.ai.dispatcher._cache.ttl_s == kept_s


@pytest.mark.parametrize("bucket_of", ["seaweedfs", "moto"])
async def test_objects_are_gone_from_the_bucket_when_they_are_not_to_be_kept(
    request: pytest.FixtureRequest, tmp_path: Path, bucket_of: str
) -> None:
    s3: S3 = request.getfixturevalue(bucket_of)
    name = "retention-of-the-tests"
    s3.client().create_bucket(Bucket=name)
    clock = ShiftedClock()
    settings = {**s3.settings, "OBJECT_STORE": f"s3://{name}/quire", "JOB_TTL": "2h"}
    async with quire(tmp_path, clock=clock, RETAIN_ORIGINALS="0", RETAIN_RESULTS="1h", **settings) as one:
        job = await convert(one, marked_pdf(tmp_path / "a.pdf", 2))
        await are(one, job, "elements", "pages", "result")
        clock.shift_s += 1.1 * HOUR_S
        await are(one, job, "pages")
        clock.shift_s += 2 * HOUR_S
        await are(one, job)
    assert s3.keys(name) == []
