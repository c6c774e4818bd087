"""The move of a data directory to planes of their own: objects to a bucket, the catalog to PostgreSQL, queues to Redis.

The data directory is only read. A killed run is repeated: objects that were written are kept, the catalog is written
in one transaction, and keys are written anew. Each target is marked until the whole copy was compared, so a repeated
run knows its own targets and refuses others that are not empty.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from quire.clock import SystemClock
from quire.coordination.connection import RedisConnection
from quire.coordination.data_format import check_format
from quire.coordination.embedded_copy import copy_embedded
from quire.coordination.embedded_server import EmbeddedServer, take_ownership
from quire.coordination.keyspace_copy import KeyspaceCopy
from quire.coordination.server_address import ServerAccess
from quire.errors import SettingsError, StateConflictError
from quire.objects.object_store import ObjectStore
from quire.objects.store_copy import StoreCopy
from quire.pipeline.stages.download_stage import clouds_of
from quire.settings import Settings

if TYPE_CHECKING:
    from quire.catalog.catalog_copy import CatalogCopy

_JOURNAL = "migration.json"
_WORK = "migration"


@dataclass(slots=True)
class MigrationReport:
    """What the source has, plane by plane; a plane without a target is missing."""

    planes: dict[str, str] = field(default_factory=dict)
    was_done: bool = False
    """Whether an earlier run has copied and compared everything; this one did nothing."""
    needs_key_file: bool = False
    """Whether secrets of running jobs can only be opened with the data directory's key file."""


@dataclass(frozen=True, slots=True)
class _Copies:
    """The copies that were asked for, in the order in which they are made."""

    objects: StoreCopy | None
    catalog: CatalogCopy | None
    keys: KeyspaceCopy | None


async def migrate_planes(
    settings: Settings, *, dry_run: bool, progress: Callable[[str], None]
) -> MigrationReport:
    """Copies the data directory to the targets that REDIS_URL, OBJECT_STORE and DATABASE_URL name.

    Raises SettingsError if none is named, DataDirInUseError if a process uses the data directory, StateConflictError if
    a target is not empty or the copy is not equal, and the error of a plane that fails.
    """
    data_dir = settings.general.data_dir.absolute()
    _check(settings, data_dir)
    held = take_ownership(data_dir, "quire migrate")
    try:
        journal = _Journal(data_dir, settings)
        if journal.is_done or (journal.is_compared and dry_run):
            return MigrationReport(was_done=True)
        async with _opened(settings, journal.migration) as copies:
            if journal.is_compared:  # the run that compared everything ended before it removed the marks
                await _unmark(copies)
                journal.end()
                return MigrationReport(was_done=True)
            await _check_targets(copies, journal.migration)
            report = await _counted(copies)
            report.needs_key_file = not settings.auth.secret_key and (data_dir / "secret.key").exists()
            if not dry_run:
                journal.begin()
                await _copy(copies, journal.migration, progress)
                await _compare(copies, progress)
                journal.compared()
                await _unmark(copies)
                journal.end()
            return report
    finally:
        os.close(held)


class _Journal:
    """The file in the data directory that has the id of the migration and what it copies where."""

    def __init__(self, data_dir: Path, settings: Settings) -> None:
        self._path = data_dir / _JOURNAL
        self._state = _state_of(data_dir)
        targets = (settings.coordination.redis_url, settings.objects.store, settings.catalog.database_url)
        # Hashed: the addresses may contain passwords.
        self._targets = hashlib.sha256(json.dumps(targets).encode()).hexdigest()
        found = json.loads(self._path.read_text()) if self._path.exists() else {}
        if found.get("targets") != self._targets:
            found = {}
        elif found["state"] != self._state:
            raise StateConflictError(
                f"The data directory {data_dir} has changed since its copy began. "
                f"Empty the targets, delete {self._path}, and run the command again."
            )
        self.migration: str = found.get("migration") or secrets.token_hex(8)
        self.is_done: bool = found.get("done", False)
        self.is_compared: bool = found.get("compared", False)

    def begin(self) -> None:
        self._write()

    def compared(self) -> None:
        """Everything is copied and compared; only the marks of the targets are left to remove."""
        self._write(compared=True)

    def end(self) -> None:
        self._write(compared=True, done=True)

    def _write(self, **reached: bool) -> None:
        content = {"migration": self.migration, "targets": self._targets, "state": self._state, **reached}
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(content))
        part.chmod(0o600)
        part.replace(self._path)


def _state_of(data_dir: Path) -> str:
    """A hash by which a change of the queues or the catalog is detected: names, sizes and times of their files."""
    queues = sorted((data_dir / "coordination" / "appendonlydir").glob("*"))
    # After a kill, the catalog's last changes are only in its write-ahead log. An empty log has none.
    files = [*queues, data_dir / "catalog.db", data_dir / "catalog.db-wal"]
    seen = [(one.name, one.stat()) for one in files if one.exists()]
    found = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in seen if stat.st_size]
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def _check(settings: Settings, data_dir: Path) -> None:
    if not data_dir.is_dir():
        raise SettingsError(f"There is no data directory {data_dir}.")
    if not (settings.coordination.redis_url or settings.objects.store or settings.catalog.database_url):
        raise SettingsError(
            "No target is set. Set REDIS_URL, OBJECT_STORE and DATABASE_URL to the new planes; "
            "a plane that is not set stays in the data directory."
        )


@asynccontextmanager
async def _opened(settings: Settings, migration: str) -> AsyncIterator[_Copies]:
    """The copies, connected. The source's files are copied to a folder of their own and opened there."""
    data_dir = settings.general.data_dir.absolute()
    work = data_dir / _WORK
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        work.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        objects = await _objects(settings, data_dir, migration, stack) if settings.objects.store else None
        catalog = await _catalog(settings, work, migration, stack) if settings.catalog.database_url else None
        keys = await _keys(settings, data_dir, work, stack) if settings.coordination.redis_url else None
        yield _Copies(objects, catalog, keys)


async def _objects(settings: Settings, data_dir: Path, migration: str, stack: AsyncExitStack) -> StoreCopy:
    source = ObjectStore.open(str(data_dir / "objects"), data_dir / "scratch")
    target = ObjectStore.open(settings.objects.store, data_dir / "scratch", clouds=clouds_of(settings))
    stack.push_async_callback(target.close)
    return StoreCopy(source, target, migration)


async def _catalog(settings: Settings, work: Path, migration: str, stack: AsyncExitStack) -> CatalogCopy:
    from quire.catalog.catalog_copy import CatalogCopy

    copy = CatalogCopy(settings.catalog_file, settings.catalog.database_url, work, migration)
    stack.push_async_callback(copy.close)
    await copy.prepare()
    return copy


async def _keys(settings: Settings, data_dir: Path, work: Path, stack: AsyncExitStack) -> KeyspaceCopy:
    await copy_embedded(data_dir, work)
    server = EmbeddedServer(work, owner="quire migrate")
    stack.push_async_callback(server.stop)
    url = await server.start()
    if server.repair is not None or (data_dir / "coordination" / "recovery-due").exists():
        raise StateConflictError(
            f"The queue's file in {data_dir} is damaged. Run `quire repair --data-dir {data_dir}` first."
        )
    connection = RedisConnection.open(url)
    try:
        await check_format(connection)
    finally:
        await connection.close()
    access = ServerAccess.of(settings.coordination)
    copy = KeyspaceCopy(url, settings.coordination.redis_url, access)
    stack.push_async_callback(copy.close)
    return copy


async def _check_targets(copies: _Copies, migration: str) -> None:
    if copies.objects is not None:
        await copies.objects.check_target()
    if copies.catalog is not None:
        await copies.catalog.is_copied()
    if copies.keys is not None:
        await copies.keys.check_target(migration)


async def _counted(copies: _Copies) -> MigrationReport:
    report = MigrationReport()
    if copies.objects is not None:
        found = await copies.objects.count()
        report.planes["objects"] = f"{found.objects} objects, {found.size_bytes} bytes"
    if copies.catalog is not None:
        rows = await copies.catalog.count()
        report.planes["catalog"] = f"{sum(rows.values())} rows, {rows['documents']} of them documents"
    if copies.keys is not None:
        report.planes["queues"] = f"{await copies.keys.count()} keys"
    return report


async def _copy(copies: _Copies, migration: str, progress: Callable[[str], None]) -> None:
    # The queues come last: a service that was started too early finds no work before its documents are there.
    if copies.objects is not None:
        progress("copying objects")
        await copies.objects.mark_target()
        await copies.objects.copy()
    if copies.catalog is not None and not await copies.catalog.is_copied():
        progress("copying the catalog")
        await copies.catalog.copy(SystemClock().now())
    if copies.keys is not None:
        progress("copying queues")
        await copies.keys.mark_target(migration)
        await copies.keys.copy()


async def _compare(copies: _Copies, progress: Callable[[str], None]) -> None:
    found: list[str] = []
    for name, copy in (("objects", copies.objects), ("the catalog", copies.catalog), ("queues", copies.keys)):
        if copy is not None:
            progress(f"comparing {name}")
            found += await copy.differences()
    if found:
        raise StateConflictError(
            f"The copy is not equal to the data directory: {'; '.join(found[:5])}. "
            "Nothing in the data directory was changed. Empty the targets and run the command again."
        )


async def _unmark(copies: _Copies) -> None:
    if copies.objects is not None:
        await copies.objects.unmark_target()
    if copies.keys is not None:
        await copies.keys.unmark_target()
