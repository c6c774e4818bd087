"""`quire repair` on a stopped data directory: a torn queue, a damaged catalog, lost jobs."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from quire.catalog.database.file_repair import problems_of, rewrite
from quire.cli import main
from tests.support.marked_documents import marked_pdf
from tests.support.running import convert, quire


def repair(folder: Path, *more: str) -> int:
    return main(["repair", "--data-dir", str(folder / "data"), *more])


async def made(folder: Path) -> Path:
    """A data directory with one finished job; answers the log of its queue."""
    async with quire(folder) as one:
        await convert(one, marked_pdf(folder / "a.pdf", 1).read_bytes())
    (log,) = (folder / "data" / "coordination" / "appendonlydir").glob("*.incr.aof")
    return log


def test_damage_is_shown_first_and_mended_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = asyncio.run(made(tmp_path))
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(4096))
    assert repair(tmp_path, "--dry-run") == 1
    assert "would cut 4096 damaged bytes" in capsys.readouterr().out
    assert log.read_bytes() == whole + bytes(4096)
    assert repair(tmp_path) == 0
    assert "4096 damaged bytes were cut" in capsys.readouterr().out
    assert repair(tmp_path, "--dry-run") == 0
    assert "none missing" in capsys.readouterr().out


def test_catalog_is_written_anew_when_an_index_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (a TEXT)")
        database.execute("CREATE INDEX i ON t (a)")
        database.executemany("INSERT INTO t VALUES (?)", [(f"row {n}",) for n in range(2000)])
        database.commit()
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'i'").fetchone()
    database.close()
    assert problems_of(path) == []
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 + 100 : root * 4096] = bytes(3996)
    path.write_bytes(data)
    assert problems_of(path)
    kept = rewrite(path)
    assert kept is not None
    assert problems_of(path) == []
    assert kept.read_bytes() != path.read_bytes()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM t").fetchone() == (2000,)
    database.close()


def test_nothing_is_changed_when_the_catalog_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_bytes(b"nonsense" * 1000)
    assert problems_of(path)
    assert rewrite(path) is None
    assert path.read_bytes() == b"nonsense" * 1000
