"""Check and repair of the catalog's SQLite file: a damaged file is written anew, the old one is kept aside."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

_MOST_PROBLEMS = 10
_BESIDE = ("", "-wal", "-shm")


def problems_of(path: Path) -> list[str]:
    """Returns what SQLite finds wrong with the file; nothing for a sound file, or one that does not exist."""
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(path, timeout=10)) as database:
            rows = database.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [str(row[0]) for row in rows if row[0] != "ok"]


def rewrite(path: Path) -> Path | None:
    """Writes all readable rows into a new file and puts it in the place of the old one, which is kept.

    Returns where the old file is; None if the file can't be read at all, and nothing was changed. No process may use
    the file meanwhile.
    """
    made = path.with_name(f"{path.name}.repaired")
    copy = path.with_name(f"{path.name}.copied")
    try:
        made.unlink(missing_ok=True)
        _copy(path, copy)
        _write_tables(copy, made)
        if problems_of(made):
            raise sqlite3.DatabaseError
    except sqlite3.DatabaseError:
        made.unlink(missing_ok=True)
        return None
    finally:
        for ending in _BESIDE:
            copy.with_name(copy.name + ending).unlink(missing_ok=True)
    made.chmod(0o600)
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    path.rename(kept)
    for ending in _BESIDE[1:]:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    os.replace(made, path)  # noqa: PTH105 - as the line above it, in one step
    return kept


def _copy(path: Path, copy: Path) -> None:
    for ending in _BESIDE:
        given = path.with_name(path.name + ending)
        if given.exists():
            shutil.copyfile(given, copy.with_name(copy.name + ending))


def _write_tables(copy: Path, made: Path) -> None:
    """Writes the tables without their indexes, which may be what is damaged, then makes the indexes anew."""
    with closing(sqlite3.connect(copy, timeout=10, isolation_level=None)) as database:
        indexes = database.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        database.execute("PRAGMA writable_schema = ON")
        database.execute("DELETE FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        database.execute("PRAGMA writable_schema = RESET")
        database.execute("VACUUM INTO ?", (str(made),))
    with closing(sqlite3.connect(made, timeout=10, isolation_level=None)) as database:
        for (sql,) in indexes:
            database.execute(sql)
