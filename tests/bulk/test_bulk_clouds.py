"""Bulk runs from and to `gs://` and `az://`, against servers that speak their protocols."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.bulk.bulk_run import BulkRun, ShardShare
from quire.bulk.plan_options import PlanOptions
from quire.bulk.shard_plan import part_name
from quire.bulk.worker_messages import clouds_of
from quire.clock import SystemClock
from quire.errors import MissingError, StateConflictError
from quire.objects.bulk_locations import BulkLocation
from quire.settings import load
from tests.support.cloud_servers import ACCOUNT, KEY, Azure, Cloud
from tests.support.link_servers import serving
from tests.support.waiting import DEADLINE_S

_DOCUMENTS = {f"{number}.pdf": b"%%PDF %d" % number * (number + 1) for number in range(5)}


class Lake:
    """A bucket with a folder `in` of documents, and one for the rows."""

    def __init__(self, cloud: Cloud, url: str, settings: dict[str, str]) -> None:
        self.cloud = cloud
        clouds = clouds_of(load(settings))
        self.source = BulkLocation.open(f"{url}/in", clouds, patience_s=DEADLINE_S)
        self.target = BulkLocation.open(f"{url}/out", clouds, patience_s=DEADLINE_S)


@pytest.fixture(params=["gs", "az"])
async def lake(request: pytest.FixtureRequest) -> AsyncIterator[Lake]:
    cloud = Azure() if request.param == "az" else Cloud()
    cloud.objects |= {f"/lake/in/{key}": content for key, content in _DOCUMENTS.items()}
    async with serving(cloud.serve) as port:
        endpoint = f"http://127.0.0.1:{port}"
        key = {"gcs_base_url": endpoint, "disable_oauth": True}
        key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        settings = {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key), "GCS_ENDPOINT_URL": endpoint}
        if request.param == "az":
            settings = {
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_ENDPOINT": endpoint,
            }
        yield Lake(cloud, f"{request.param}://lake", settings)
    assert cloud.wrong == []


async def test_a_run_is_planned_once_and_resumed_by_its_parts(lake: Lake) -> None:
    bulk = BulkRun(lake.source, lake.target, PlanOptions(shard_pages=2))
    plans, added = await bulk.plan(SystemClock())
    assert added is not None
    assert (added.documents, added.shards) == (5, 3)
    keys = [one.key for number in range(3) for one in (await plans.shard(number)).documents]
    assert keys == sorted(_DOCUMENTS)
    await lake.target.put(part_name(1), b"rows" * 100)
    queue, done = await bulk.waiting(await bulk.plans(), ShardShare())
    assert (queue.total, done) == (2, {1: 400})
    lake.cloud.objects["/lake/in/new.pdf"] = b"%PDF new"
    del lake.cloud.objects["/lake/in/0.pdf"]
    _, again = await bulk.plan(SystemClock())
    assert again is not None
    assert (again.run, again.documents, again.deleted) == (2, 1, 1)


async def test_objects_are_written_once_and_read_in_the_version_that_was_listed(
    lake: Lake, tmp_path: Path
) -> None:
    target = lake.target
    assert await target.create("plan", b"first")
    assert not await target.create("plan", b"second")
    assert await target.create("plan", b"first"), "a request that is repeated finds its own object"
    assert await target.read_range("plan", 1, 3) == b"ir"
    await target.delete("plan")
    await target.delete("plan")
    with pytest.raises(MissingError):
        await target.get("plan")
    [listed] = [one async for batch in lake.source.listed() for one in batch if one.key == "3.pdf"]
    found = await lake.source.fetch("3.pdf", listed.etag, tmp_path / "copy")
    assert found.read_bytes() == _DOCUMENTS["3.pdf"]
    lake.cloud.objects["/lake/in/3.pdf"] = b"replaced"
    with pytest.raises(StateConflictError):
        await lake.source.fetch("3.pdf", listed.etag, tmp_path / "copy")
