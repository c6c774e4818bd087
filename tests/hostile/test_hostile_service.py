"""The service under the whole hostile corpus: it stays up, answers, and says of each file what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.corpus import corpus
from tests.hostile.feeding import feed, prepare, watched
from tests.support.serving import Server, client_of
from tests.support.waiting import DEADLINE_S

PATIENCE_S = 4 * DEADLINE_S


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(
        tmp_path,
        READER_PROCESSES="2",
        READER_MEMORY_MB="384MB",
        READER_PAGE_TIMEOUT="1s",
        OCR_ENABLED="false",
        MAX_PAGES="500",
        MAX_ARCHIVE_MB="64MB",
        MAX_ATTACHMENTS="10",
        JOB_MAX_ATTEMPTS="1",  # a second attempt at a hostile page ends as the first
        RETRY_BASE_DELAY="20ms",
        RETRY_JITTER="0",
    ).wait_ready()
    yield found
    found.stop()


async def test_service_stays_up_and_answers_when_the_whole_corpus_comes(
    server: Server, tmp_path: Path
) -> None:
    made = await asyncio.to_thread(prepare, list(corpus()), tmp_path)
    async with client_of(server) as client:
        async with watched(client) as health:
            fed = await feed(client, made, PATIENCE_S)
        assert health.statuses
        assert set(health.statuses) == {200}
        for one in fed:
            if one.job is None:
                assert 400 <= one.answer.status < 500, one
                assert set(one.answer.json) >= {"error", "code", "retryable", "request_id"}
            elif one.job["status"] == "failed":
                assert one.job["error"]["code"] != "internal", one
                assert one.job["error"]["error"], one
            else:
                assert one.job["status"] == "completed", one
                assert not one.case.refused, one.case.name
                assert "/" not in one.job["filename"], one
                assert one.job["filename"].isprintable()
                assert len(one.job["filename"].encode()) <= 255
        fine = await client.upload(b"Plain words after the storm, nothing more.", wait=240)
        assert fine.status == 200
        assert "after the storm" in fine.json["result"]["markdown"]
    assert server.process.poll() is None
