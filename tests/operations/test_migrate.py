"""A data directory is copied into Redis, S3 and PostgreSQL; a fleet on the copies goes on with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quire.coordination.embedded_server import take_ownership
from quire.domain.job import JobStatus
from quire.errors import DataDirInUseError, SettingsError, StateConflictError
from quire.objects.object_store import ObjectStore
from quire.objects.store_copy import StoreCopy
from quire.pipeline.upkeep.plane_migration import MigrationReport, migrate_planes
from quire.settings import load
from tests.support import running, vault_running
from tests.support.coordination_servers import ask, plain_server, says
from tests.support.environment import clean_environment
from tests.support.postgres import PostgresServer
from tests.support.s3_fixtures import S3
from tests.support.waiting import DEADLINE_S

_BUCKET = "migrated"


@dataclass(frozen=True)
class Source:
    """A stopped data directory: a vault document that is done, and a job that was accepted and not begun."""

    folder: Path
    document: str
    job: str
    waiting_job: str
    text: str

    @property
    def data(self) -> Path:
        return self.folder / "data"


async def _filled(folder: Path, pdf: bytes, other: bytes) -> Source:
    async with vault_running.vault_at(folder) as (found, vault):
        document = await vault_running.add(vault, pdf, name="invoice.pdf")
        row = await vault_running.settled(vault, document)
        assert row.job_id is not None
        text = await running.markdown(found, await found.engine.job(vault_running.TEAM, row.job_id))
    async with running.quire(folder, kinds=None) as found:
        waiting = await running.upload(found, other)
    return Source(folder, document, row.job_id, waiting.job_id, text)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, make_pdf: Callable[..., bytes]) -> Source:
    folder = tmp_path_factory.mktemp("migrated")
    pdf = make_pdf("Invoice of the zeppelin works\nfor ninety-nine balloons", "The second page")
    return asyncio.run(_filled(folder, pdf, make_pdf("Accepted and not begun")))


@dataclass(frozen=True)
class Fleet:
    settings: dict[str, str]
    redis_port: int
    s3: S3

    def stored(self) -> list[str]:
        return self.s3.keys(_BUCKET)


@pytest.fixture(scope="module")
def fleet(moto: S3, postgres: PostgresServer) -> Iterator[Fleet]:
    moto.client().create_bucket(Bucket=_BUCKET)
    with plain_server() as (url, port):
        targets = {
            "REDIS_URL": url,
            "OBJECT_STORE": f"s3://{_BUCKET}",
            "DATABASE_URL": postgres.fresh_database(),
            **moto.settings,
        }
        yield Fleet(targets, port, moto)


def _start(source: Source, fleet: Fleet) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "quire", "migrate", "--data-dir", str(source.data)],
        env=clean_environment(**fleet.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _in_process(source: Source, fleet: Fleet, *, dry_run: bool = False) -> MigrationReport:
    settings = load({"DATA_DIR": str(source.data), **fleet.settings})
    return asyncio.run(migrate_planes(settings, dry_run=dry_run, progress=lambda step: None))


def test_fleet_serves_the_copy_when_the_first_run_was_killed_in_the_middle(
    source: Source, fleet: Fleet
) -> None:
    planned = _in_process(source, fleet, dry_run=True)
    assert set(planned.planes) == {"objects", "catalog", "queues"}
    assert "1 of them documents" in planned.planes["catalog"]
    assert fleet.stored() == []
    assert says(fleet.redis_port, b":0", "DBSIZE")

    # The server of the queues accepts no writes, so the first run stops after the objects and the catalog.
    ask(fleet.redis_port, "CLIENT", "PAUSE", "600000", "WRITE")
    first = _start(source, fleet)
    assert first.stderr is not None
    seen = [first.stderr.readline()]
    while "queues" not in seen[-1]:
        assert seen[-1], seen
        seen.append(first.stderr.readline())
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=DEADLINE_S)
    ask(fleet.redis_port, "CLIENT", "UNPAUSE")
    assert any(key.startswith("migrations/") for key in fleet.stored())
    # As if it had been killed earlier: an object is missing, another has the size but not the content.
    lost, other = [key for key in fleet.stored() if key.startswith(f"jobs/{source.job}/")][:2]
    client = fleet.s3.client()
    client.delete_object(Bucket=_BUCKET, Key=lost)
    client.put_object(Bucket=_BUCKET, Key=other, Body=b"x" * len(fleet.s3.read(_BUCKET, other)))

    second = _start(source, fleet)
    out, err = second.communicate(timeout=DEADLINE_S)
    assert second.returncode == 0, err
    assert out.count("copied and compared") == 3
    assert "secret.key" in out
    objects = source.data / "objects"
    ours = {str(one.relative_to(objects)): one.read_bytes() for one in objects.rglob("*") if one.is_file()}
    assert {key: fleet.s3.read(_BUCKET, key) for key in fleet.stored()} == ours
    assert not (source.data / "migration").exists()
    assert _in_process(source, fleet).was_done
    asyncio.run(_check_fleet(source, fleet))


async def _check_fleet(source: Source, fleet: Fleet) -> None:
    home = source.folder / "fleet"
    (home / "data").mkdir(parents=True)
    (home / "data" / "secret.key").write_bytes((source.data / "secret.key").read_bytes())
    async with vault_running.vault_at(home, **fleet.settings) as (found, vault):
        job = await found.engine.job(vault_running.TEAM, source.job)
        assert job.status is JobStatus.COMPLETED
        assert await running.markdown(found, job) == source.text
        catalog = await vault.catalog()
        hits = await catalog.search(vault_running.TEAM, "zeppelin balloons")
        assert [one.document.id for one in hits.hits] == [source.document]
        waiting = await running.over(found, source.waiting_job)
        assert waiting.status is JobStatus.COMPLETED
        assert "Accepted and not begun" in await running.markdown(found, waiting)
        # New rows continue the numbers of the copy.
        added = await vault_running.add(vault, b"# A document of the fleet\n")
        await vault_running.settled(vault, added)


def test_migrate_refuses_with_a_sentence_when_source_or_target_is_in_use(
    fleet: Fleet, tmp_path: Path
) -> None:
    other = Source(tmp_path, "", "", "", "")
    (other.data / "objects").mkdir(parents=True)
    with pytest.raises(SettingsError, match="No target is set"):
        _in_process(other, Fleet({}, 0, fleet.s3))
    with plain_server() as (url, port):
        alone = Fleet({"REDIS_URL": url}, port, fleet.s3)
        ask(port, "SET", "of-another-program", "1")
        with pytest.raises(StateConflictError, match="The Redis at REDIS_URL is not empty"):
            _in_process(other, alone)
        assert says(port, b":1", "DBSIZE")
        held = take_ownership(other.data, "quire serve")
        try:
            with pytest.raises(DataDirInUseError, match="is in use by quire serve"):
                _in_process(other, alone)
        finally:
            os.close(held)


async def test_marks_are_removed_when_the_run_that_compared_everything_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running.quire(tmp_path, kinds=None) as found:
        await running.upload(found, b"%PDF-1.4")
    target = tmp_path / "target"
    settings = load({"DATA_DIR": str(tmp_path / "data"), "OBJECT_STORE": str(target)})

    async def killed(_copy: StoreCopy) -> None:
        raise ConnectionAbortedError

    def marks() -> list[Path]:
        return [one for one in (target / "migrations").rglob("*") if one.is_file()]

    with monkeypatch.context() as patched:
        patched.setattr(StoreCopy, "unmark_target", killed)
        with pytest.raises(ConnectionAbortedError):
            await migrate_planes(settings, dry_run=False, progress=lambda _: None)
    assert marks()
    assert (await migrate_planes(settings, dry_run=False, progress=lambda _: None)).was_done
    assert not marks()


async def test_migrate_refuses_when_only_the_log_of_the_catalog_has_changed(tmp_path: Path) -> None:
    async with running.quire(tmp_path, kinds=None) as found:
        await running.upload(found, b"%PDF-1.4")
    settings = load({"DATA_DIR": str(tmp_path / "data"), "OBJECT_STORE": str(tmp_path / "target")})
    await migrate_planes(settings, dry_run=False, progress=lambda _: None)
    (tmp_path / "data" / "catalog.db-wal").write_bytes(b"rows of a process that was killed")
    with pytest.raises(StateConflictError, match="has changed since its copy began"):
        await migrate_planes(settings, dry_run=False, progress=lambda _: None)


async def test_objects_of_another_program_are_neither_overwritten_nor_deleted(tmp_path: Path) -> None:
    source = ObjectStore.open(str(tmp_path / "source"), tmp_path)
    target = ObjectStore.open(str(tmp_path / "target"), tmp_path)
    await source.put("jobs/a/original", b"a document")
    await target.put("jobs/a/original", b"of another")
    with pytest.raises(StateConflictError, match="OBJECT_STORE is not empty"):
        await StoreCopy(source, target, "m").check_target()
    assert await target.get("jobs/a/original") == b"of another"
