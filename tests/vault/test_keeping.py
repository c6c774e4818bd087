"""What the vault holds stays, whatever JOB_TTL says; what is deleted leaves no trace in any plane."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from quire.bootstrap import Runtime
from quire.domain.jobs import conversion_job_id
from quire.errors import NotFoundError
from quire.pipeline.documents import job_prefix
from quire.queue import keys
from quire.simulator.thread import RunningSimulator
from tests.pipeline.running import until
from tests.vault.conftest import ai_settings
from tests.vault.running import TEAM, add, row_of, settled, vault_at

MARKER = "quetzalcoatlus"
NOTE = f"# Report on the {MARKER}\n\nThe {MARKER} was seen over the coast on 2026-01-05 and photographed.\n".encode()
QUIET = {"LOCAL_CLASSIFIER": "0", "EMBEDDING_PROVIDER": "off", "VAULT_SWEEP_INTERVAL": "1d"}


async def _forget_jobs(one: Runtime) -> None:
    """Redis lets go of all finished jobs, as it does after JOB_TTL."""
    for key in await one.connection.command("KEYS", "job:*"):
        await one.connection.command("DEL", key)


async def test_job_pages_and_objects_stay_when_their_time_is_up(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        before = await one.engine.job(TEAM, job_id)
        await _forget_jobs(one)

        job = await one.engine.job(TEAM, job_id)
        pages = await one.engine.pages(job)
        with pytest.raises(NotFoundError):
            await one.engine.job("another", job_id)
        await one.connection.command("ZADD", keys.EXPIRY, 1, job_id)

        async def asked() -> bool:
            return float(await one.connection.command("ZSCORE", keys.EXPIRY, job_id)) > 1

        await until(asked, "the housekeeper's look")
        original = await vault.parts.objects.get(row.content_ref)
        again = await vault.reprocess(TEAM, document_id)
        mended = await settled(vault, document_id, 2)

    assert (job.status, job.result, job.total_pages) == (before.status, before.result, 1)
    assert [page.number for page in pages] == [1]
    assert original == NOTE
    assert again.outcome == "started"
    assert (mended.status, mended.result_ref) == ("completed", row.result_ref)


async def test_nothing_is_expired_by_a_process_without_the_vault(tmp_path: Path) -> None:
    from tests.pipeline.running import quire

    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        row = await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        await _forget_jobs(one)
        await one.connection.command("ZADD", keys.EXPIRY, 1, job_id)
    async with quire(tmp_path) as plain:

        async def asked() -> bool:
            return float(await plain.connection.command("ZSCORE", keys.EXPIRY, job_id)) > 1

        await until(asked, "the housekeeper's look")
        assert await plain.parts.objects.get(row.content_ref) == NOTE


async def test_delete_leaves_no_trace_in_any_plane(tmp_path: Path, sim: RunningSimulator) -> None:
    """With a model, so that there are kept answers too; one of its calls fails, so that there is a dead letter."""
    settings = ai_settings(sim) | QUIET
    async with vault_at(tmp_path, **settings) as (one, vault):
        kept = await add(vault, b"# Another document\n\nIt stays where it is, with all that belongs to it.\n")
        await settled(vault, kept)
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        sim.play({"rules": [{"fault": "server_error"}]})
        await vault.reprocess(TEAM, document_id)
        await settled(vault, document_id, 2)
        sim.play({})
        job_id = conversion_job_id(TEAM, document_id)
        traces = (MARKER, document_id, job_id)
        assert await _traces_in_redis(one, *traces)
        assert _traces_in_files(tmp_path / "data" / "objects", *traces)
        assert _traces_in_catalog(tmp_path / "data" / "catalog.db", *traces)

        await vault.delete(TEAM, document_id)

        async def gone() -> bool:  # entries of a job that was just ended are taken out a moment later
            return await _traces_in_redis(one, *traces) == []

        await until(gone, "no trace in Redis")
        assert _traces_in_files(tmp_path / "data" / "objects", *traces) == []
        assert _traces_in_catalog(tmp_path / "data" / "catalog.db", *traces) == []
        with pytest.raises(NotFoundError):
            await vault.delete(TEAM, document_id)
        assert (await row_of(vault, kept)).title == "Another document"
        assert await vault.parts.objects.size((await row_of(vault, kept)).result_ref or "")


async def test_rest_is_deleted_when_whoever_deletes_dies_half_way(tmp_path: Path) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        document_id = await add(vault, NOTE)
        await settled(vault, document_id)
        job_id = conversion_job_id(TEAM, document_id)
        # What `delete` has done when its process dies right after the row is gone.
        await vault.steps.mark_deleted(job_id)
        await vault.steps.expire_at(job_id, vault.parts.clock.now())
        await (await vault.catalog()).delete(TEAM, document_id)

        async def gone() -> bool:
            return not await vault.parts.objects.keys(job_prefix(job_id)) and not await _traces_in_redis(
                one, document_id, job_id
            )

        await until(gone, "the housekeeper's deletion")


async def test_document_that_is_deleted_while_it_is_read_stays_deleted(tmp_path: Path, make_pdf: Any) -> None:
    async with vault_at(tmp_path, **QUIET) as (one, vault):
        ids = [await add(vault, make_pdf(f"{MARKER} {n}", *["page"] * 5), name="a.pdf") for n in range(4)]
        for document_id in ids:
            await vault.delete(TEAM, document_id)

        async def at_rest() -> bool:
            depths = [await one.parts.queues.depth(kind) for kind in keys.QUEUES]
            return not any(depth["waiting"] or depth["delayed"] for depth in depths)

        await until(at_rest, "empty queues")
        catalog = await vault.catalog()
        assert [await catalog.find(TEAM, document_id) for document_id in ids] == [None] * 4
        assert _traces_in_catalog(tmp_path / "data" / "catalog.db", MARKER) == []


async def _traces_in_redis(one: Runtime, *traces: str) -> list[str]:
    """Keys whose name or value has one of the words. What is left out says only under which random name something lay:
    a worker that had the document in hand may still write an object, and somebody has to come back for it."""
    client = redis.asyncio.Redis.from_url(one.connection.url)  # some values are no text
    try:
        found = []
        for key in await client.keys("*"):
            if key == keys.EXPIRY.encode() or key.startswith(keys.vault_deleted("").encode()):
                continue
            dumped = key + b" " + await _value(client, key)
            if any(trace.encode() in dumped for trace in traces):
                found.append(key.decode())
        return found
    finally:
        await client.aclose()


async def _value(client: Any, key: bytes) -> bytes:
    kind = (await client.type(key)).decode()
    read: dict[str, tuple[Any, ...]] = {
        "string": ("GET", key),
        "hash": ("HGETALL", key),
        "set": ("SMEMBERS", key),
        "zset": ("ZRANGE", key, 0, -1),
        "list": ("LRANGE", key, 0, -1),
        "stream": ("XRANGE", key, "-", "+"),
    }
    return repr(await client.execute_command(*read[kind])).encode() if kind in read else b""


def _traces_in_files(folder: Path, *traces: str) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and (
            any(trace in str(path) for trace in traces)
            or any(trace.encode() in path.read_bytes() for trace in traces)
        ):
            found.append(str(path))
    return found


def _traces_in_catalog(file: Path, *traces: str) -> list[str]:
    """Rows of any table, those behind the full text included, that hold one of the words."""
    found = []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        tables = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        ]
        for table in tables:
            try:
                rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
            except sqlite3.OperationalError:  # a virtual table that can't be read as a whole
                continue
            for row in rows:
                text = " ".join(
                    one.decode("utf-8", "ignore") if isinstance(one, bytes) else str(one) for one in row
                )
                if any(trace in text for trace in traces):
                    found.append(table)
    return found
