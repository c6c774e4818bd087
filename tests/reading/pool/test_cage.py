"""Code of an attacker inside a reader process: each way out fails, and reading still works."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quire.reading.files.page_chunks import read_chunk
from quire.reading.ocr.ocr_stages import OcrOptions
from quire.reading.ocr.page_ocr import recognise_page
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_render import RenderOptions, render_page
from quire.reading.pool import cage
from quire.reading.pool.cage import CageOptions, CageState, call_filter
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from tests.reading.pool import pool_tasks

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
        cage=CageOptions((str(SAMPLES),), str(tmp_path / "readers")),
    )
    made = ChildPool(options)
    if await made.cage() != CageState.FILES | CageState.CALLS:
        await made.close()
        pytest.skip("this kernel has no Landlock or no seccomp")
    yield made
    await made.close()


@pytest.mark.parametrize(
    "attack",
    [
        "read_a_secret",
        "list_a_folder",
        "read_the_parents_environment",
        "write_a_file",
        "delete_a_file",
        "open_a_socket",
        "open_a_unix_socket",
        "start_a_shell",
        "start_python",
        "signal_the_parent",
        "attach_to_the_parent",
        "read_the_parents_memory",
        "make_a_namespace",
        "overwrite_our_code",
    ],
)
async def test_way_out_fails(pool: ChildPool, tmp_path: Path, attack: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    outcome = await pool.run(pool_tasks.attack, attack, str(secret), timeout_s=120)
    assert outcome.startswith("refused"), outcome
    assert secret.read_text() == "hunter2"


async def test_attacks_succeed_without_the_cage_so_that_the_test_above_can_fail(tmp_path: Path) -> None:
    pool = ChildPool(PoolOptions(processes=1, memory_bytes=0, preload=("tests.reading.pool.pool_tasks",)))
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    try:
        assert await pool.cage() == CageState.NONE
        for attack in ("read_a_secret", "list_a_folder", "open_a_socket", "start_a_shell", "write_a_file"):
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
