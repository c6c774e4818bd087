"""When reader processes start: with the first document, or with the process (READER_IDLE_TIMEOUT)."""

from __future__ import annotations

import os
from pathlib import Path

from quire.pipeline.local_readers import reader_pool
from quire.settings import load
from tests.support.processes import descendants
from tests.support.waiting import until


async def test_readers_wait_for_the_first_document_unless_they_are_kept(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    settings = {"DATA_DIR": str(tmp_path), "READER_PROCESSES": "1"}
    waiting = reader_pool(load(settings), (), may_wait=True)
    assert descendants(os.getpid()) <= before
    await waiting.close()
    kept = reader_pool(load({**settings, "READER_IDLE_TIMEOUT": "0s"}), (), may_wait=True)
    try:
        await until(lambda: kept.counts()["started"] == 1, "the reader was started with the process")
    finally:
        await kept.close()
