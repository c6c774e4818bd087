"""`quire bulk` as a user runs it: rows, resuming after kill -9, exit codes, report, compaction."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from arro3.io import read_parquet

from quire.cli import main
from tests.bulk.rows import check_complete, make_lake, rows_of
from tests.support.environment import clean_environment
from tests.support.marked_documents import marked_pdf
from tests.support.waiting import DEADLINE_S, wait_until


def _run(*args: str) -> int:
    return main(["bulk", *args, "--quiet", "--ocr", "off"])


def _start(source: Path, target: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "quire", "bulk", str(source), str(target)),
            *("--quiet", "--ocr", "off", "--workers", "1", "--shard-pages", "4"),
        ],
        env=clean_environment(),
        start_new_session=True,
    )


def _kill_below(driver: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Kills a worker, its fork server or one of its reader processes."""
    below = psutil.Process(driver.pid).children(recursive=True)
    assert below, "the run has no workers"
    with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended by itself
        chance.choice(below).send_signal(signal.SIGKILL)


def _wait_for_parts(driver: subprocess.Popen[bytes], target: Path, count: int) -> None:
    def written() -> bool:
        assert driver.poll() is None, "the run was over before it could be killed"
        return len(list(target.glob("part-*.parquet"))) >= count

    wait_until(written, f"{count} parts")


def test_every_page_is_there_once_when_drivers_and_workers_are_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    expected = make_lake(tmp_path / "lake", 24)
    target = tmp_path / "out"
    driver = _start(tmp_path / "lake", target)
    try:
        _wait_for_parts(driver, target, 2)
        _kill_below(driver, chance)
        _wait_for_parts(driver, target, 5)
    finally:
        driver.kill()
        driver.wait(DEADLINE_S)
    assert _run(str(tmp_path / "lake"), str(target), "--shard-pages", "4", "--workers", "1") == 3
    check_complete(rows_of(target), expected)
    assert _leftovers(target) == []


def _leftovers(target: Path) -> list[Path]:
    return [path for path in target.rglob("*") if path.is_file() and path.parent.name == ".incoming"]


def test_a_second_run_reads_only_what_is_new_and_compaction_keeps_the_current_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, target = tmp_path / "lake", tmp_path / "out"
    lake.mkdir()
    marked_pdf(lake / "a.pdf", 2, seed=1)
    marked_pdf(lake / "old.pdf", 1, seed=2)
    (lake / "copy.pdf").write_bytes((lake / "a.pdf").read_bytes())
    assert _run(str(lake), str(target), "--formats", "text,elements,chunks,html") == 0
    first = {row["key"]: row for row in rows_of(target)}
    schema = read_parquet(next(target.glob("part-*.parquet"))).schema
    assert (
        schema.field("reasons").type.value_field.name == "element"
    )  # as the Parquet standard has it, for Iceberg
    assert first["copy.pdf"]["kind"] == "duplicate"
    assert first["copy.pdf"]["content"] == first["a.pdf"]["content"] != ""
    assert json.loads(first["a.pdf"]["elements"])["elements"]
    assert json.loads(first["old.pdf"]["chunks"])[0]["text"].strip()
    assert "<p" in first["a.pdf"]["html"]
    assert first["a.pdf"]["text"].strip()
    (lake / "old.pdf").unlink()
    marked_pdf(lake / "a.pdf", 1, seed=3)
    os.utime(lake / "a.pdf", (1_000_000, 1_000_000))
    capsys.readouterr()
    assert _run(str(lake), str(target), "--formats", "text,elements,chunks,html", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["this_run"]["pages"] == 1
    assert report["all_parts"]["pages"] == 4
    assert (target / "_quire" / "report.html").read_text().startswith("<!doctype html>")
    kinds = sorted((row["key"], row["kind"], row["run"]) for row in rows_of(target) if row["run"] == 2)
    assert kinds == [("a.pdf", "page", 2), ("old.pdf", "deleted", 2)]
    assert main(["bulk-compact", str(target), str(tmp_path / "small")]) == 0
    current = sorted((row["key"], row["kind"], row["run"]) for row in rows_of(tmp_path / "small"))
    # The old pages of a.pdf stay: copy.pdf still has their content.
    assert current == [
        ("a.pdf", "page", 1),
        ("a.pdf", "page", 1),
        ("a.pdf", "page", 2),
        ("copy.pdf", "duplicate", 1),
    ]


def test_a_dry_run_estimates_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake, target = tmp_path / "lake", tmp_path / "out"
    lake.mkdir()
    for number in range(3):
        marked_pdf(lake / f"{number}.pdf", 2, seed=number)
    assert _run(str(lake), str(target), "--dry-run", "--json", "--workers", "1") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], found["pages"], found["sampled"]) == (3, 6, 3)
    assert not target.exists()


def test_wrong_arguments_are_said_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    assert _run(str(tmp_path / "nothing"), str(tmp_path / "out")) == 2
    assert _run(str(lake), str(tmp_path / "out"), "--formats", "docx") == 2
    assert _run(str(lake), str(tmp_path / "out"), "--shard-index", "2", "--shard-count", "2") == 2
    assert _run(str(lake), str(tmp_path / "out"), "--keys", str(tmp_path / "none.txt")) == 2
    said = capsys.readouterr().err
    assert "is not a folder" in said
    assert "docx is unknown" in said
    assert not (tmp_path / "out").exists()
