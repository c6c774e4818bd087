"""A unit is removed by the claim that did it, and by no earlier one."""

from __future__ import annotations

from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim, NewJob
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Hint, Queues
from quire.domain.job import JobOptions, VaultLink, new_job_id
from quire.errors import PageError
from tests.support.clocks import ShiftedClock


async def test_unit_made_anew_by_the_end_of_its_job_stays_when_the_claim_before_is_done(
    connection: RedisConnection, queues: Queues, clock: ShiftedClock
) -> None:
    """A document whose early text was being filed when its conversion ended was never classified."""
    jobs = JobStore(connection, queues, clock, ttl_s=3600)
    new = NewJob(
        new_job_id(), "team", JobOptions(), {"kind": "upload"}, "a.pdf", content_ref="jobs/x/original",
        vault=VaultLink("team", "document", 1),
    )  # fmt: skip
    assert await jobs.create(new) is None

    async def claimed(unit: str, token: str) -> Claim:
        claim = await jobs.claim(Hint(new.id, unit, 1), "worker", token)
        assert isinstance(claim, Claim)
        return claim

    split = await claimed("split", "a")
    assert await jobs.early.file(split)
    filing_early_text = await claimed("vault", "b")
    assert await jobs.fail(split, PageError("The file can't be read."))
    filing_the_end = await claimed("vault", "c")

    await jobs.drop_unit(filing_early_text)
    assert await jobs.lost.check_claims([filing_early_text, filing_the_end]) == [False, True]
    await jobs.drop_unit(filing_the_end)
    assert await jobs.lost.check_claims([filing_the_end]) == [False]
