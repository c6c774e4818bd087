"""docs/protocol.md: an external dispatcher that knows only that page reads a document's pages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.ghost.asking import over, upload
from tests.api.ghost.conftest import TOKEN
from tests.support.coordination_servers import plain_server
from tests.support.environment import clean_environment
from tests.support.quire_processes import start_quire
from tests.support.serving import Server, client_of
from tests.support.submitted_documents import fresh
from tests.support.waiting import DEADLINE_S, until

STAND_IN = Path(__file__).with_name("standin_dispatcher.py")
FIELDS = {
    *("job_id", "doc_id", "page_id", "content_ref", "engine_pref", "model_hint", "force_fast", "opts"),
    *("attempt", "idempotency_key", "epoch", "unit"),
}


@dataclass(frozen=True)
class Setup:
    server: Server
    redis_url: str


@pytest.fixture(scope="module")
def setup(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """A service that leaves AI pages to others, a worker for the rest, and a Redis that all share."""
    with plain_server() as (url, _port):
        server = start_server(
            REDIS_URL=url, RUN_DISPATCHER="0", INTERNAL_TOKEN=TOKEN, OPENAI_API_KEY="any"
        ).wait_ready()
        log = tmp_path_factory.mktemp("worker") / "worker.log"
        with log.open("wb") as out:
            worker = start_quire(
                *("worker", "--queues", "download,split,read,merge,export"),
                env=clean_environment(
                    DATA_DIR=str(server.data_dir), REDIS_URL=url, READER_PROCESSES="1", OPENAI_API_KEY="any"
                ),
                stdout=out,
                stderr=out,
            )
        yield Setup(server, url)
        worker.terminate()
        worker.wait(60)
        server.stop()


@dataclass
class Printed:
    out: str = ""


@contextmanager
def running_stand_in(setup: Setup) -> Iterator[Printed]:
    """The dispatcher's process; what it printed is there once the block has ended."""
    printed = Printed()
    with subprocess.Popen(
        [sys.executable, "-I", str(STAND_IN), setup.redis_url, setup.server.url, TOKEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield printed
        finally:
            printed.out, _ = process.communicate("", timeout=DEADLINE_S)
    assert process.returncode == 0


def ask_redis(url: str, *command: str) -> Any:
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as one:
        return one.execute_command(*command)


def test_groups_exist_when_nothing_was_ever_queued(setup: Setup) -> None:
    high, low = "{jobs:ai:pages}:high", "{jobs:ai:pages}:low"
    for stream in (high, "jobs:ai:pages", low, "jobs:merge", "jobs:ai:classify"):
        groups = ask_redis(setup.redis_url, "XINFO", "GROUPS", stream)
        assert "workers:" in str(groups), stream


async def test_document_is_read_by_a_dispatcher_that_knows_only_the_protocol(
    setup: Setup, make_mixed: Callable[..., bytes]
) -> None:
    pdf = make_mixed(
        fresh("a page of text"), [fresh("first"), "local words"], None, [fresh("more"), "own words"]
    )
    with running_stand_in(setup) as dispatcher:
        async with client_of(setup.server) as client:
            fields = {"ai_engine": "ClaudeEngine", "force_fast": "true"}
            job_id = (await upload(client, pdf, "4711.pdf", **fields)).json["job_id"]
            done = await over(client, job_id)
            pages = (await client.get(f"/jobs/{job_id}/pages")).json["pages"]
    printed = dispatcher.out
    lines = [json.loads(line) for line in printed.splitlines()]
    entries = {int(line["entry"]["page_id"]): line["entry"] for line in lines}
    assert set(entries) == {2, 3, 4}
    assert all(line["answer"] == {**line["answer"], "status": 200, "accepted": True} for line in lines)
    for entry in entries.values():
        assert set(entry) >= FIELDS
        assert (entry["doc_id"], entry["attempt"], entry["epoch"]) == ("4711", "1", "1")
        assert json.loads(entry["engine_pref"]) == {"primary": "anthropic", "secondary": "openai"}
        assert json.loads(entry["force_fast"]) is True
        assert json.loads(entry["opts"])["media_type"] == "application/pdf"
        assert json.loads(entry["opts"])["deadline_at"] > 0
        assert "haiku" in entry["model_hint"]
    assert f"page 3 of {len(pdf)} bytes, attempt 1" in done["result"]
    assert [page["source"] for page in pages] == ["local", "mupdf_fallback", "ai", "mupdf_fallback"]
    assert "local words" in done["result"]
    assert (pages[2]["provider"], pages[2]["model"]) == ("anthropic", entries[3]["model_hint"])
    metadata = done["metadata"]
    assert (metadata["ai_pages"], metadata["ai_pages_completed"], metadata["pages_failed"]) == (3, 1, 2)
    assert (metadata["ai_pages_succeeded"], metadata["mupdf_fallback_pages"]) == (1, 2)
    assert ask_redis(setup.redis_url, "XLEN", "jobs:ai:pages") == 0


async def test_documents_of_every_priority_are_read_by_the_same_dispatcher(
    setup: Setup, make_mixed: Callable[..., bytes]
) -> None:
    priorities = ("low", "normal", "high")
    async with client_of(setup.server) as client:
        jobs = []
        for priority in priorities:
            pdf = make_mixed([fresh(priority), "words"])
            options = json.dumps({"priority": priority})
            jobs.append((await upload(client, pdf, options=options)).json["job_id"])

        def queued() -> bool:
            streams = ("{jobs:ai:pages}:low", "jobs:ai:pages", "{jobs:ai:pages}:high")
            return [ask_redis(setup.redis_url, "XLEN", one) for one in streams] == [1, 1, 1]

        await until(queued, "each page is in the stream of its priority")
        with running_stand_in(setup) as dispatcher:
            for job_id in jobs:
                assert (await over(client, job_id))["metadata"]["ai_pages_completed"] == 1
    order = [json.loads(line)["entry"]["job_id"] for line in dispatcher.out.splitlines()]
    assert order == jobs[::-1], "the highest priority is read first"


async def test_entries_are_queued_again_when_their_dispatcher_has_no_heartbeat(
    setup: Setup, make_mixed: Callable[..., bytes]
) -> None:
    async with client_of(setup.server) as client:
        job_id = (await upload(client, make_mixed([fresh("only page"), "words"]))).json["job_id"]
        taken: list[Any] = []

        def read() -> bool:
            command = (
                "XREADGROUP",
                "GROUP",
                "workers:images",
                "dead",
                "COUNT",
                "1",
                "STREAMS",
                "jobs:ai:pages",
                ">",
            )
            found = ask_redis(setup.redis_url, *command)
            taken.extend([found] if found else [])
            return bool(found)

        await until(read, "the entry is queued")
        await until(read, "the entry is queued again")
        assert all(job_id in str(found) for found in taken)
        done = await client.post(
            f"/internal/page_failed?job_id={job_id}&page_id=1", headers={"X-Internal-Token": TOKEN}
        )
        assert (done.status, done.json["accepted"]) == (200, True)
        assert (await over(client, job_id))["status"] == "success"
