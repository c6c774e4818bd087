"""Which objects may be read, and which may not however they are spelt; big ones come and go in pieces."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.domain.delivery import Delivery, Destination
from quire.domain.job import JobStatus
from quire.errors import DownloadError, LinkRefusedError, ObjectsError, SettingsError, TooLargeError
from quire.objects.buckets import Address, Buckets
from quire.pipeline.intake.upload_intake import Submission
from quire.pipeline.stages.export_stage import local_result
from quire.pipeline.upkeep.housekeeper import Housekeeper
from quire.settings import load
from tests.api.ghost.conftest import Bucket
from tests.support.link_servers import Received
from tests.support.running import TEAM, quire
from tests.support.waiting import DEADLINE_S, until


@pytest.fixture
def buckets(bucket: Bucket, aws: dict[str, str]) -> Buckets:
    settings = load({**aws, "S3_ALLOWED_BUCKETS": "two/in, gs://three"})
    return Buckets(settings.aws.places, "s3://ghost-files/quire%20data", settings.aws.credentials())


@pytest.mark.parametrize("url", ["s3://ghost-files/a.pdf", "s3://two/in/x/y.pdf", "gs://three/a b#c?.pdf"])
def test_object_may_be_read_when_its_place_is_allowed(buckets: Buckets, url: str) -> None:
    assert str(buckets.check(url)) == url


@pytest.mark.parametrize(
    "url",
    [
        *("s3://two/a.pdf", "s3://two/inside/a.pdf", "s3://two/in", "s3://three/a.pdf", "az://three/a.pdf"),
        *("s3://ghost-files-of-others/a.pdf", "s3://ghost-files", "s3://ghost-files/", "s3:///a.pdf"),
        *("s3://two/in/../a.pdf", "s3://two/in//a.pdf", "s3://two/in/./a.pdf", "s3://two/in/a\nb.pdf"),
        *("s3://ghost-files/quire data/jobs/1/original", "s3://ghost-files/quire%20data/jobs/1/original"),
        f"s3://ghost-files/{'a' * 1025}",
    ],
)
def test_object_may_not_be_read_when_its_place_is_not_allowed(buckets: Buckets, url: str) -> None:
    with pytest.raises(LinkRefusedError):
        buckets.check(url)


@pytest.mark.parametrize("value", ["s4://bucket", "bad bucket", "s3://"])
def test_start_is_refused_when_an_allowed_bucket_is_malformed(value: str) -> None:
    with pytest.raises(SettingsError, match="S3_ALLOWED_BUCKETS"):
        load({"S3_ALLOWED_BUCKETS": value})


async def test_long_text_arrives_whole_when_put_in_parts(buckets: Buckets, bucket: Bucket) -> None:
    piece = b"0123456789abcdef" * 65_536

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(13):
            yield piece

    address = Address.parse("s3://ghost-files/long.txt")
    assert await buckets.put(address, pieces(), timeout_s=DEADLINE_S) == 13 * len(piece)
    assert bucket.get("long.txt") == piece * 13
    got = Received()
    await buckets.fetch(address, got, max_bytes=13 * len(piece), timeout_s=DEADLINE_S)
    assert got == piece * 13
    with pytest.raises(TooLargeError):
        await buckets.fetch(address, Received(), max_bytes=13 * len(piece) - 1, timeout_s=DEADLINE_S)


async def test_failure_is_told_in_our_words_when_the_bucket_is_away(
    buckets: Buckets, aws: dict[str, str]
) -> None:
    got = Received()

    async def nothing() -> AsyncIterator[bytes]:
        yield b"x"

    with pytest.raises(DownloadError) as missing:
        await buckets.fetch(Address.parse("s3://ghost-files/none"), got, max_bytes=9, timeout_s=DEADLINE_S)
    assert not missing.value.retryable
    with pytest.raises(ObjectsError) as gone:
        await buckets.put(Address.parse("s3://no-such-bucket/a"), nothing(), timeout_s=DEADLINE_S)
    assert not gone.value.retryable
    settings = load({**aws, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    away = Buckets(settings.aws.places, "", settings.aws.credentials())
    with pytest.raises(DownloadError) as late:
        await away.fetch(Address.parse("s3://ghost-files/a"), got, max_bytes=9, timeout_s=0.5)
    assert late.value.retryable
    assert got == b""
    for error in (missing, gone, late):
        assert "secret-of-the-bucket" not in str(error.value)


class _Later:
    """A clock that can be set ahead."""

    ahead_s = 0.0

    def now(self) -> float:
        return time.time() + self.ahead_s

    def monotonic(self) -> float:
        return time.monotonic()


async def test_local_result_goes_when_its_job_has_had_its_time(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    clock = _Later()
    async with quire(tmp_path, clock=clock) as one:
        delivery = Delivery(Destination.LOCAL, "a.pdf")
        asked = Submission(team=TEAM, filename="a.pdf", delivery=delivery)
        place = await one.engine.intake.begin_upload(asked)
        async with place.writer as out:
            await out.write(make_pdf("kept for a while"))
        job_id = (await one.engine.intake.accept_upload(asked, place)).job_id
        assert (await one.engine.wait(TEAM, job_id, 30)).status is JobStatus.COMPLETED
        path = local_result(one.parts, job_id)
        await until(path.exists)
        house = Housekeeper(one.parts, HousekeepingRecords(one.connection, clock), "test")
        await house._expire(job_id)
        assert path.exists()
        clock.ahead_s = 8 * 86_400
        await house._expire(job_id)
        assert not path.exists()
