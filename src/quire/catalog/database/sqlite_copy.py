"""A consistent copy of the SQLite catalog, made while others read and write it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from quire.errors import CatalogError

_PAGES_AT_ONCE = 2_000


def copy_catalog(file: Path, target: Path) -> None:
    """Copies the database by SQLite's own online backup. Raises CatalogError if it can't be read or written."""
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as source,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy, pages=_PAGES_AT_ONCE, sleep=0.01)
    except sqlite3.Error as error:
        raise CatalogError(f"The catalog {file} can't be copied to {target}.") from error
    target.chmod(0o600)
