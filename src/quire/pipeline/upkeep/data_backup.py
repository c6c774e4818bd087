"""A backup of the embedded planes: a second data directory that can be served.

Objects are copied first and last, the records between: whatever a record of a finished document names was copied
before the record or after it. A document that was being read is read on, or again, by the service on the copy.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from quire.coordination.embedded_copy import copy_embedded
from quire.errors import SettingsError, StateConflictError
from quire.objects.directory_copy import copy_objects
from quire.settings import Settings

_KEY_FILE = "secret.key"


@dataclass(frozen=True, slots=True)
class BackupReport:
    objects: int
    has_catalog: bool


async def back_up(settings: Settings, target: Path) -> BackupReport:
    """Copies the data directory to `target`.

    Raises SettingsError if a plane is not in the data directory, StateConflictError if the target is not empty, and
    CoordinationError, CatalogError or ObjectsError if a plane can't be copied.
    """
    data_dir = settings.general.data_dir.absolute()
    _check(settings, data_dir, target)
    root = await asyncio.to_thread(_prepare, settings, target)
    copied = await asyncio.to_thread(copy_objects, root, target / "objects")
    await copy_embedded(data_dir, target)
    has_catalog = settings.catalog_file.exists()
    if has_catalog:
        from quire.catalog.database.sqlite_copy import copy_catalog

        await asyncio.to_thread(copy_catalog, settings.catalog_file, target / settings.catalog_file.name)
    copied += await asyncio.to_thread(copy_objects, root, target / "objects")
    if (data_dir / _KEY_FILE).exists():
        shutil.copy2(data_dir / _KEY_FILE, target / _KEY_FILE)
    return BackupReport(copied, has_catalog)


def _prepare(settings: Settings, target: Path) -> Path:
    """Makes the target; returns the folder of the objects."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(settings.objects_location).absolute()


def _check(settings: Settings, data_dir: Path, target: Path) -> None:
    outside = {
        "REDIS_URL": settings.coordination.redis_url,
        "DATABASE_URL": settings.catalog.database_url,
        "OBJECT_STORE": settings.objects.store if "://" in settings.objects.store else "",
    }
    named = [name for name, value in outside.items() if value]
    if named:
        raise SettingsError(
            f"{', '.join(named)} is set: that plane is not in the data directory. "
            "Back it up with its own tools, in the order of docs/operations.md."
        )
    if not data_dir.is_dir():
        raise SettingsError(f"There is no data directory {data_dir}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StateConflictError(f"{target} is not an empty folder.")
