"""Code of an attacker inside a reader process: each way out fails, and reading still works."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.errors import DamagedError, PageCrashedError
from quire.reading.files.page_chunks import read_chunk
from quire.reading.ocr.ocr_options import OcrOptions
from quire.reading.ocr.page_ocr import recognise_page
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_render import RenderOptions, render_page
from quire.reading.pool import cage, child_folders
from quire.reading.pool.cage import CageOptions, CageState, call_filter
from quire.reading.pool.child_folders import ChildFolders, RefusedFileError
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from tests.reading.pool import pool_tasks
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "samples"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="there is no Landlock and no seccomp on this system"
)


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[ChildPool]:
    # The attacker's code is imported before the cage closes: tests are no part of an installation.
    options = PoolOptions(
        processes=1,
        memory_bytes=1 << 30,
        preload=("quire.reading.pool.warm_imports", "tests.reading.pool.pool_tasks"),
        cage=CageOptions(str(tmp_path / "readers")),
    )
    made = ChildPool(options)
    if await made.cage() != CageState.FILES | CageState.CALLS:
        await made.close()
        pytest.skip("this kernel has no Landlock or no seccomp")
    yield made
    await made.close()


ATTACKS = (
    *("read_a_secret", "list_a_folder", "write_a_file", "delete_a_file", "change_a_mode", "change_a_time"),
    *("open_a_socket", "open_a_unix_socket", "start_a_shell", "start_python", "make_a_namespace"),
    *("read_the_parents_environment", "read_the_parents_memory", "signal_the_parent", "attach_to_the_parent"),
    *("overwrite_our_code", "write_beside_the_temporary_folder", "list_the_folders_of_readers"),
    "raise_a_limit",
)


async def test_each_way_out_fails(pool: ChildPool, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    before = secret.stat()
    outcomes = {one: await pool.run(pool_tasks.attack, one, str(secret), timeout_s=120) for one in ATTACKS}
    assert {one: found for one, found in outcomes.items() if not found.startswith("refused")} == {}
    assert secret.read_text() == "hunter2"
    assert (secret.stat().st_mode, secret.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


async def test_reader_sees_its_own_document_and_no_other(pool: ChildPool, tmp_path: Path) -> None:
    """The documents of other teams are in the same folder of the object store."""
    mine, other = tmp_path / "objects" / "mine.pdf", tmp_path / "objects" / "other.pdf"
    mine.parent.mkdir()
    mine.write_text("mine")
    other.write_text("other")
    seen = await pool.run(pool_tasks.look_around, str(mine), str(other), timeout_s=120)
    assert seen.own == "mine"
    assert seen.files == [f"{seen.name}"]
    assert seen.other.startswith("refused")
    assert seen.overwritten.startswith("refused"), "the link is the document itself"
    assert seen.moved.startswith("refused"), "a document in the writable folder could be changed"
    assert mine.read_text() == "mine"
    # The next task of the same child has another document, and the first is gone.
    seen = await pool.run(pool_tasks.look_around, str(other), str(mine), timeout_s=120)
    assert (seen.own, seen.other[:7], len(seen.files)) == ("other", "refused", 1)
    assert await pool.run(pool_tasks.files_at_hand, timeout_s=120) == []


def folder_of(path: Path) -> list[Path]:
    return list(path.iterdir())


def _device(path: Path) -> int:
    return path.stat().st_dev


async def test_document_is_copied_when_it_cannot_be_linked(pool: ChildPool, tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".txt") as elsewhere:
        if os.fstat(elsewhere.fileno()).st_dev == _device(tmp_path):
            pytest.skip("there is one file system only")
        elsewhere.write(b"elsewhere")
        elsewhere.flush()
        for _ in range(2):
            seen = await pool.run(pool_tasks.look_around, elsewhere.name, str(SAMPLES), timeout_s=120)
            assert seen.own == "elsewhere"
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    seen = await pool.run(pool_tasks.look_around, str(mine), "/nowhere", timeout_s=120)
    assert (seen.own, len(seen.files)) == ("mine", 1), "the copy is gone"


async def test_document_that_is_gone_is_not_found(pool: ChildPool, tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no longer there"):
        await pool.run(
            *(read_chunk, str(tmp_path / "gone.pdf"), None, (1,), ReadOptions(), False), timeout_s=120
        )


async def test_result_of_another_reader_is_out_of_reach(pool: ChildPool, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    await pool.run(pool_tasks.write_result, "file", "mine", str(target), timeout_s=120)
    assert target.read_text() == "mine"
    assert await pool.run(pool_tasks.files_at_hand, timeout_s=120) == [], "the next task finds no result"
    theirs = ChildFolders(tmp_path / "readers").make().path / "temporary" / "result"
    theirs.write_text("theirs")  # as of a reader that has just answered
    for attack in ("read_a_secret", "delete_a_file", "write_a_file", "list_a_folder"):
        outcome = await pool.run(pool_tasks.attack, attack, str(theirs), timeout_s=120)
        assert outcome.startswith("refused"), (attack, outcome)
    # It can make a link to it, which its parent does not follow.
    with pytest.raises(PageCrashedError, match="left no file"):
        await pool.run(pool_tasks.write_result, "link", str(theirs), str(target), timeout_s=120)
    assert target.read_text() == "mine"


async def test_result_is_refused_when_it_is_no_plain_file(pool: ChildPool, tmp_path: Path) -> None:
    secret, target = tmp_path / "secret.txt", tmp_path / "target"
    secret.write_text("hunter2")
    target.touch()
    refusals = {
        "link": "left no file",
        "nothing": "left no file",
        "pipe": "not a plain file",
        "folder": "not a plain file",
        "huge": "larger than the 1024 MB",
    }
    for kind, text in refusals.items():
        before = await pool.run(pool_tasks.pid, timeout_s=120)
        with pytest.raises(PageCrashedError, match=text) as refused:
            await pool.run(pool_tasks.write_result, kind, str(secret), str(target), timeout_s=120)
        assert not refused.value.retryable
        assert target.stat().st_size == 0
        assert await pool.run(pool_tasks.pid, timeout_s=120) != before, f"{kind}: the reader is replaced"


def test_result_is_refused_when_it_is_too_large_or_grows_while_it_is_copied(tmp_path: Path) -> None:
    folder = ChildFolders(tmp_path / "readers").make()
    target = tmp_path / "target"
    target.write_bytes(b"what was there before" * 200_000)
    Path(folder.result).write_bytes(b"x" * 3_000_000)
    with pytest.raises(RefusedFileError):
        folder.deliver(str(target), 2_999_999)
    folder.deliver(str(target), 3_000_000)
    assert target.stat().st_size == 3_000_000
    copied = io.BytesIO()
    with pytest.raises(RefusedFileError), Path(folder.result).open("rb") as written:
        child_folders._copy(_Growing(written.raw), copied, 4_000_000)
    assert len(copied.getvalue()) <= 4_000_000


class _Growing(io.BufferedReader):
    """A file that a child still writes: there is always more of it."""

    def read(self, size: int | None = -1, /) -> bytes:
        return b"x" * (size or 1)


async def test_reader_is_replaced_when_it_leaves_files(pool: ChildPool, tmp_path: Path) -> None:
    """Folders that are nested too deeply for a recursive removal, which would stop the parent and each later start."""
    pid = await pool.run(pool_tasks.fill_folder, 1500, timeout_s=120)
    assert await pool.run(pool_tasks.pid, timeout_s=120) != pid
    (server,) = folder_of(tmp_path / "readers")
    await until(lambda: len(folder_of(server)) == 1, "the folder of the first reader is gone")


async def test_folders_of_readers_are_removed_with_them_and_after_a_kill(tmp_path: Path) -> None:
    folders = ChildFolders(tmp_path)
    document = tmp_path / "a.txt"
    document.write_text("words")
    left = folders.make()
    await left.show(str(document))
    os.close(folders._lock)  # as the kernel does for a process that was killed
    second = ChildFolders(tmp_path)
    assert not left.path.exists()
    third = ChildFolders(tmp_path)
    assert second.make().path.exists(), "a living process keeps its folders"
    closed = third.make()
    second.close()
    third.close()
    assert not closed.hide(), "a task may end while the pool is closed"
    assert sorted(one.name for one in folder_of(tmp_path)) == ["a.txt"]


async def test_attacks_succeed_without_the_cage_so_that_the_test_above_can_fail(tmp_path: Path) -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=("tests.reading.pool.pool_tasks",)))
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    try:
        assert await pool.cage() == CageState.NONE
        for attack in (
            *("read_a_secret", "list_a_folder", "open_a_socket", "start_a_shell", "write_a_file"),
            *("change_a_mode", "change_a_time"),
        ):
            outcome = await pool.run(pool_tasks.attack, attack, str(secret), timeout_s=120)
            assert outcome.startswith("done"), (attack, outcome)
    finally:
        await pool.close()


async def test_documents_are_read_in_the_cage(pool: ChildPool) -> None:
    chunk = await pool.run(
        read_chunk, str(SAMPLES / "tables.pdf"), None, (1,), ReadOptions(), False, timeout_s=120
    )
    assert chunk.block.startswith(b"# ")
    assert chunk.pages[0].words > 20


async def test_pictures_and_both_ocr_readers_work_in_the_cage(pool: ChildPool) -> None:
    scan = str(SAMPLES / "scan.pdf")
    assert await pool.run(render_page, scan, None, 1, RenderOptions(), timeout_s=120)
    for mode in ("quick", "careful"):
        chunk = await pool.run(recognise_page, scan, None, 1, OcrOptions(mode=mode), timeout_s=300)
        assert chunk.pages[0].words > 20, mode


def test_filter_is_known_for_the_machines_that_wheels_are_built_for() -> None:
    for machine in ("x86_64", "aarch64"):
        program = call_filter(machine, 1)
        assert program[-1][3] == 0x7FFF0000
        assert len(program) < 256  # jumps are counted in bytes
    assert call_filter("riscv64", 1) == ()


def test_packages_outside_the_installation_are_readable_and_other_import_paths_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/home/user/.local/lib/python3.11/site-packages", "/srv/work"])
    allowed = cage._programs()
    assert "/home/user/.local/lib/python3.11/site-packages" in allowed
    assert "/srv/work" not in allowed
    assert "/srv/work/quire" in allowed
