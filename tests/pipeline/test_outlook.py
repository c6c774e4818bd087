"""The place of a document in the queue and its expected wait, while documents ahead of it end."""

from __future__ import annotations

from pathlib import Path

from quire.bootstrap import Runtime
from quire.coordination.ghost_records import Served
from quire.coordination.job_records import Claim
from quire.coordination.streams import Hint
from quire.errors import NotStartedError
from quire.pipeline.ghost_service import Ghost, Outlook
from tests.support.running import job_of, quire, upload


async def outlooks(one: Runtime, ids: list[str]) -> list[Outlook]:
    ghost = Ghost(one.parts, one.engine)
    return [(await ghost.state(await job_of(one, job_id))).outlook for job_id in ids]


async def test_position_and_wait_move_when_documents_ahead_end_or_are_cancelled(tmp_path: Path) -> None:
    async with quire(tmp_path, kinds=None) as one:
        jobs, names = one.parts.jobs, ["a", "b", "c", "d"]
        ids = [(await upload(one, b"%PDF-1.4 " + name.encode())).job_id for name in names]
        places = [1, 2, 3, 4]
        assert [found.position for found in await outlooks(one, ids)] == places
        assert {found.seconds for found in await outlooks(one, ids)} == {None}  # no worker is alive

        await one.parts.workers.beat(one.worker_id)
        assert {found.seconds for found in await outlooks(one, ids)} == {None}  # nothing was measured yet
        # Each of two documents took 4 s after 30 s behind three others.
        for _ in range(2):
            await jobs.ghost.add_served(Served(waited_s=30.0, ahead=3, service_s=4.0, pages=2))
        assert await outlooks(one, ids) == [Outlook(1, 4), Outlook(2, 14), Outlook(3, 24), Outlook(4, 34)]

        await jobs.cancel(ids[1])
        assert await outlooks(one, ids) == [Outlook(1, 4), Outlook(0, 0), Outlook(2, 14), Outlook(3, 24)]
        assert await jobs.end_unclaimed(ids[0], NotStartedError("No worker started the document."))
        assert await outlooks(one, ids) == [Outlook(0, 0), Outlook(0, 0), Outlook(1, 4), Outlook(2, 14)]

        claim = await jobs.claim(Hint(ids[2], "split", 1), one.worker_id, "token")
        assert isinstance(claim, Claim)
        assert [found.position for found in await outlooks(one, ids)] == [0, 0, 0, 2]
        await jobs.fail(claim, NotStartedError("It can't be read."))
        assert await outlooks(one, ids) == [Outlook(0, 0), Outlook(0, 0), Outlook(0, 0), Outlook(1, 4)]
