"""The hostile corpus, file by file, in a reader process with its limits: an error in words, or a safe result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from quire.errors import DocumentError, PageError, QuireError, TooLargeError, UnsupportedTypeError
from quire.reading.files.document_source import inspect
from quire.reading.files.page_chunks import Chunk, read_chunk
from quire.reading.office.zip_container import OfficeLimits
from quire.reading.pdf.page_reader import ReadOptions
from quire.reading.pdf.page_render import render_page
from quire.reading.pool.child_pool import ChildPool, PoolOptions
from tests.hostile.corpus import Hostile, corpus

LIMITS = OfficeLimits(max_archive_bytes=64 << 20, max_archive_members=5_000)
OPTIONS = ReadOptions(office=LIMITS)
MEMORY = 384 << 20
PATIENCE_S = 3.0
CASES = list(corpus())
SECRET = Path("/etc/passwd").read_text().splitlines()[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    found = ChildPool(PoolOptions(processes=1, memory_bytes=MEMORY))
    yield found
    await found.close()


async def outcome(pool: ChildPool, path: str) -> Chunk | QuireError:
    try:
        info = await pool.run(inspect, path, None, 1 << 30, LIMITS, timeout_s=PATIENCE_S)
        numbers = tuple(range(1, min(info.page_count, 3) + 1))
        found = await pool.run(read_chunk, path, None, numbers, OPTIONS, False, timeout_s=PATIENCE_S)
        if info.mime.startswith("image/"):
            await pool.run(render_page, path, None, 1, timeout_s=PATIENCE_S)
    except QuireError as error:
        return error
    return found


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_reader_answers_in_words_or_safely_when_a_file_is_hostile(
    pool: ChildPool, case: Hostile, tmp_path: Path
) -> None:
    path = tmp_path / "document"
    await asyncio.to_thread(lambda: path.write_bytes(case.make()))
    found = await outcome(pool, str(path))
    if isinstance(found, QuireError):
        assert isinstance(found, DocumentError | TooLargeError | UnsupportedTypeError | PageError), found
        assert found.public.endswith("."), found.public
        assert SECRET not in found.public
    else:
        assert not case.refused, f"this should have been refused: {found.block[:200]!r}"
        texts = [found.block[page.offset : page.offset + page.length] for page in found.pages]
        text = b"".join(texts).decode()
        assert SECRET not in text
        assert "<script" not in text.lower()
    assert not await asyncio.to_thread(Path("/tmp/quire-slipped").exists)
