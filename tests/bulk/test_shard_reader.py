"""Shards from a bucket that misbehaves, and shards of hostile files: every document ends in rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from quire.bulk.bulk_run import BulkRun, ShardShare, part_stats
from quire.bulk.plan_options import PlanOptions
from quire.bulk.shard_plan import PlannedDocument, Plans, Shard, part_name
from quire.bulk.shard_reader import ShardOptions, ShardReader
from quire.clock import SystemClock
from quire.errors import ObjectsError
from quire.objects.bulk_locations import BulkLocation
from quire.objects.cloud_clients import Clouds
from quire.reading.document_reading import DocumentOptions
from quire.reading.local_reader import LocalLimits, LocalOptions
from tests.bulk.flaky_store import flaky
from tests.bulk.rows import check_complete, make_lake, rows_in
from tests.hostile.corpus import corpus
from tests.support.s3_fixtures import S3

_LIMITS = LocalLimits(page_timeout_s=1.0, document_budget_s=4.0)
OPTIONS = ShardOptions(
    DocumentOptions(LocalOptions(limits=_LIMITS), ocr=False, max_pages=500), memory_bytes=256 << 20
)


@pytest.fixture
async def bucket(moto: S3, request: pytest.FixtureRequest) -> str:
    name = f"bulk-{abs(hash(request.node.nodeid)) % 10**12}"
    moto.client().create_bucket(Bucket=name)
    return name


async def test_all_rows_are_there_when_the_store_throttles_and_tears_uploads(
    moto: S3, bucket: str, tmp_path: Path
) -> None:
    expected = make_lake(tmp_path / "lake", 6)
    client = moto.client()
    for path in (tmp_path / "lake").iterdir():
        client.upload_file(str(path), bucket, f"in/{path.name}")
    with flaky(moto.endpoint) as server:
        clouds = Clouds(
            s3={
                "endpoint": server.endpoint,
                "access_key_id": moto.key,
                "secret_access_key": moto.secret,
                "region": "us-east-1",
            }
        )
        source = BulkLocation.open(f"s3://{bucket}/in", clouds)
        target = BulkLocation.open(f"s3://{bucket}/out", clouds)
        bulk = BulkRun(source, target, PlanOptions(shard_pages=5))
        plans, added = await bulk.plan(SystemClock())
        assert added is not None
        assert (added.documents, added.shards) == (8, 2)
        async with ShardReader.open(source, target, OPTIONS) as reader:
            for number in range(plans.shard_count):
                await reader.write_part(await plans.shard(number))
        assert server.refused > 5
        assert server.torn == 1
        queue, done = await bulk.waiting(plans, ShardShare())
        assert (queue.total, sorted(done)) == (0, [0, 1])
        assert (await bulk.plan(SystemClock()))[1] is None, "nothing is new"
        stats = await part_stats(target, part_name(0), done[0])
        assert stats is not None
        assert stats.documents == 5
    rows = [row for number in range(2) for row in rows_in(moto.read(bucket, f"out/{part_name(number)}"))]
    check_complete(rows, expected)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_version_that_was_replaced_and_a_key_that_is_gone_are_error_rows(
    lake: Path, shard_reader: ShardReader
) -> None:
    gone = PlannedDocument("gone.pdf", 10, "1-a")
    outside = PlannedDocument("../secret.pdf", 10)
    (lake / "changed.txt").write_text("new words")
    changed = PlannedDocument("changed.txt", 3, "older")
    rows = await shard_reader.rows(Shard(0, 1, [gone, outside, changed]))
    assert [row.error_code for row in rows] == ["not_found", "not_found", "conflict"]


@pytest.mark.asyncio(loop_scope="module")
async def test_hostile_files_are_rows(lake: Path, shard_reader: ShardReader) -> None:
    quick = [
        case for case in corpus() if case.refused or case.name.startswith(("PDF whose forms", "TIFF whose"))
    ]
    cases = {f"{place:03}": case for place, case in enumerate(quick) if not case.name.startswith("deep")}
    for name, case in cases.items():
        (lake / name).write_bytes(case.make())
    rows = await shard_reader.rows(Shard(0, 1, [PlannedDocument(name) for name in cases]))
    assert {row.key for row in rows} == set(cases)
    for name, case in cases.items():
        mine = [row for row in rows if row.key == name]
        assert len({row.page for row in mine}) == len(mine)
        assert all((row.kind == "error") == bool(row.error_code) for row in mine)
        if case.refused:
            assert any(row.error for row in mine), case.name


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shard_reader(lake: Path) -> AsyncIterator[ShardReader]:
    source = BulkLocation.open(str(lake))
    async with ShardReader.open(source, BulkLocation.open(str(lake / "out")), OPTIONS) as reader:
        yield reader


async def test_a_store_that_stays_away_is_an_error_in_the_end(moto: S3) -> None:
    clouds = Clouds(s3={"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "b"})
    target = BulkLocation.open("s3://nothing/out", clouds, patience_s=0)
    with pytest.raises(ObjectsError, match="can't be used"):
        await Plans.load(target)
