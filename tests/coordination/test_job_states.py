"""Any order of events, any duplicate, any late result: each page once, one merge an epoch, always an end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quire.coordination.connection import RedisConnection
from quire.coordination.job_records import Claim, NewJob, PageOutcome, Refused
from quire.coordination.job_store import JobStore
from quire.coordination.streams import Hint, Queues
from quire.domain.job import (
    JobOptions,
    JobStatus,
    PageRecord,
    UnitKind,
    chunk_places,
    new_job_id,
    unit_page,
)
from quire.domain.page import PageSource
from tests.support.clocks import MovableClock
from tests.support.coordination_servers import plain_server

WORKERS = ("one", "two", "three")
WINDOW = 4


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with plain_server() as (url, _port):
        yield url


class JobStates(RuleBasedStateMachine):
    """A job in the hands of workers that are slow, doubled, interrupted, dead, or alive after all."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = MovableClock()
        self.connection = RedisConnection.open(self.url)
        self.queues = Queues(self.connection, self.clock)
        self.jobs = JobStore(self.connection, self.queues, self.clock, ttl_s=86_400)
        self.id = new_job_id()
        self.hints: list[Hint] = []
        self.claims: list[Claim] = []
        self.first_results: dict[tuple[int, int], str] = {}
        self.merges: dict[int, int] = {}
        self.dead: set[str] = set()

    def do(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def collect(self) -> None:
        """Takes whatever stands in the queues, so that the machine decides when it is worked on."""
        for kind in UnitKind:
            found = self.do(self.queues.read(kind, "collector", 1000, 0))
            self.hints += [hint for hint in found if hint.job_id == self.id]
            for hint in found:
                self.do(self.queues.done(hint))

    @initialize(pages=st.integers(1, 12), chunk=st.integers(1, 3), timed=st.booleans())
    def make(self, pages: int, chunk: int, timed: bool) -> None:
        self.total, self.chunk = pages, chunk
        self.do(self.connection.command("FLUSHALL"))
        self.do(self.queues.ensure_groups(UnitKind))
        options = JobOptions(timeout_s=1000.0 if timed else None)
        new = NewJob(self.id, "team", options, {"kind": "upload"}, "a.pdf", content_ref="jobs/x/original")
        assert self.do(self.jobs.create(new)) is None
        again = self.do(self.jobs.create(new))
        assert again is not None
        self.collect()

    def job(self):
        job = self.do(self.jobs.get(self.id))
        assert job is not None
        return job

    # ---- what may happen, in any order ----

    @precondition(lambda self: self.hints)
    @rule(data=st.data(), worker=st.sampled_from(WORKERS), keep=st.booleans())
    def claim(self, data, worker: str, keep: bool) -> None:
        """`keep` leaves the hint there: it will be delivered again."""
        hint = data.draw(st.sampled_from(self.hints))
        answer = self.do(self.jobs.claim(hint, worker, f"{worker}-{self.clock.time}-{len(self.claims)}"))
        if isinstance(answer, Refused) and answer.why == "held" and answer.owner in self.dead:
            token = f"{worker}-{self.clock.time}-{len(self.claims)}-again"
            answer = self.do(self.jobs.claim(hint, worker, token, dead=answer.owner))
        if isinstance(answer, Claim):
            self.claims.append(answer)
            self.dead.discard(worker)
        elif not keep and answer.why != "early":
            self.hints.remove(hint)

    @rule(data=st.data(), rounds=st.integers(1, 4))
    def work(self, data, rounds: int) -> None:
        """A worker does what there is to do; what it had in hand may be reported again later."""
        for _ in range(rounds):
            hints, self.hints = self.hints, []
            for hint in hints:
                token = f"w-{self.clock.time}-{len(self.claims)}-{hint.unit}-{hint.epoch}"
                answer = self.do(self.jobs.claim(hint, "one", token))
                if isinstance(answer, Claim):
                    self.claims.append(answer)
                    self.finish_claim(answer, lambda: data.draw(st.sampled_from("dsssdf")))
            self.collect()

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), forget=st.booleans())
    def finish(self, data, forget: bool) -> None:
        """A claim is finished, perhaps for the second time, perhaps long after somebody else took over."""
        claim = data.draw(st.sampled_from(self.claims))
        self.finish_claim(claim, lambda: data.draw(st.sampled_from("ddfs")))
        if forget:
            self.claims.remove(claim)
        self.collect()

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), wait=st.integers(0, 30), failed=st.booleans())
    def park(self, data, wait: int, failed: bool) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.claims.remove(claim)
        self.do(self.jobs.park(claim, self.clock.time + wait, failed=failed))

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: str) -> None:
        """The others think so, at least: its claims stay, and may yet be finished."""
        self.dead.add(worker)

    @rule(seconds=st.sampled_from((0.1, 5, 20, 400)))
    def time_passes(self, seconds: float) -> None:
        self.clock.time += seconds
        self.do(self.queues.move_all_due())
        self.collect()

    @precondition(lambda self: self.hints)
    @rule(data=st.data())
    def lose_a_hint(self, data) -> None:
        self.hints.remove(data.draw(st.sampled_from(self.hints)))

    @rule()
    def sweep(self) -> None:
        self.look_after()

    @rule()
    def work_to_the_end(self) -> None:
        self.drive_to_the_end()

    @rule(really=st.sampled_from((False, False, False, False, True)))
    def cancel(self, really: bool) -> None:
        if not really:
            return
        before = self.job().status
        status = self.do(self.jobs.cancel(self.id))
        assert status is (before if before.terminal else JobStatus.CANCELLED)
        self.collect()

    @rule(data=st.data(), what=st.sampled_from(("main", "page", "merge")))
    def retry(self, data, what: str) -> None:
        job = self.job()
        records = self.do(self.jobs.pages(self.id))
        restored = job.status is JobStatus.COMPLETED
        if restored:
            records = dict(self.last_pages)
            self.do(self.jobs.restore_pages(self.id, records.values()))
        numbers = range(1, (job.total_pages or 0) + 1)
        missing = [n for n in numbers if n not in records or not records[n].status.terminal]
        if not numbers or not records:
            answer = self.do(self.jobs.retry(job, "all", first="split"))
        else:
            wanted = {"main": [n for n in numbers if n not in records or records[n].could_be_better]}
            wanted["page"] = sorted({data.draw(st.sampled_from(list(numbers))), *missing})
            wanted["merge"] = missing
            pages = wanted[what]
            answer = self.do(self.jobs.retry(job, "pages" if pages else "merge", pages))
        assert answer == ("started" if job.status.terminal else "running")
        self.collect()

    # ---- what must hold at every moment ----

    @invariant()
    def counts_fit_records(self) -> None:
        if not hasattr(self, "total"):
            return
        job = self.job()
        if job.status is JobStatus.COMPLETED:
            assert self.do(self.jobs.pages(self.id)) == {}, "page records leave Redis with the merge"
            return
        records = self.do(self.jobs.pages(self.id))
        done = sum(record.status is JobStatus.COMPLETED for record in records.values())
        failed = sum(record.status is JobStatus.FAILED for record in records.values())
        if job.total_pages and not job.status.terminal:
            assert (job.pages_completed, job.pages_failed) == (done, failed)
            assert done + failed <= self.total

    @invariant()
    def the_window_holds(self) -> None:
        if not hasattr(self, "total"):
            return
        work = self.do(self.jobs.working(self.id))
        places = [chunk_places(unit) for unit in work if unit.startswith("c") and unit != "callback"]
        assert sum(last - first + 1 for first, last in places) < WINDOW + self.chunk
        assert sum(unit.startswith("p") for unit in work) <= max(WINDOW, self.chunk)

    @invariant()
    def one_merge_an_epoch(self) -> None:
        assert all(count == 1 for count in self.merges.values())

    # ---- and it ends ----

    def teardown(self) -> None:
        if hasattr(self, "total"):
            self.drive_to_the_end()
        self.do(self.connection.close())
        self.loop.close()

    def drive_to_the_end(self) -> None:
        """A healthy worker and the housekeeper finish the job, whatever state it was left in."""
        self.dead = set(WORKERS)
        for _ in range(60):
            if self.job().status.terminal:
                break
            self.clock.time += 40
            self.do(self.queues.move_all_due())
            self.look_after()
            self.collect()
            hints, self.hints = self.hints, []
            for hint in hints:
                answer = self.do(self.jobs.claim(hint, "healthy", f"healthy-{self.clock.time}-{hint.unit}"))
                if isinstance(answer, Refused) and answer.why == "held" and answer.owner in self.dead:
                    token = f"healthy-{self.clock.time}-{hint.unit}"
                    answer = self.do(self.jobs.claim(hint, "healthy", token, dead=answer.owner))
                if isinstance(answer, Claim):
                    self.claims.append(answer)
                    self.finish_claim(answer, lambda: "d")
            self.collect()
        job = self.job()
        assert job.status.terminal
        if job.status is JobStatus.COMPLETED:
            assert self.merges[job.epoch] == 1
            assert sorted(self.last_pages) == list(range(1, self.total + 1))
            assert all(record.status.terminal for record in self.last_pages.values())

    # ---- a worker's part ----

    def look_after(self) -> None:
        swept = self.do(self.jobs.sweep(self.id, 10))
        if swept.deadline_at is not None and swept.deadline_at <= self.clock.time:
            self.do(self.jobs.deadline(self.id, swept.epoch))
        lost = [one.unit for one in swept.suspects if not one.owner or one.owner in self.dead]
        self.do(self.jobs.requeue(self.id, swept.epoch, lost))
        self.collect()

    def finish_claim(self, claim: Claim, outcome) -> None:
        kind = claim.hint.kind
        if kind is UnitKind.SPLIT:
            self.do(
                self.jobs.split_done(claim, self.total, self.chunk, WINDOW, {"ranges": f"1-{self.total}"})
            )
        elif kind is UnitKind.MERGE:
            records = self.do(self.jobs.pages(self.id))
            if self.do(self.jobs.merged(claim, {"key": "k", "pages_key": "p", "metadata": {}})):
                self.merges[claim.hint.epoch] = self.merges.get(claim.hint.epoch, 0) + 1
                self.last_pages = records
                assert sorted(records) == list(range(1, self.total + 1))
                assert all(record.status.terminal for record in records.values())
        else:
            self.finish_pages(claim, outcome)

    def finish_pages(self, claim: Claim, outcome) -> None:
        unit = claim.hint.unit
        if claim.hint.kind is UnitKind.PAGE:
            numbers, letters = [unit_page(unit)], "df"
        else:
            first, last = chunk_places(unit)
            numbers, letters = list(range(first + 1, last + 2)), "dfs"
        stale = claim.hint.epoch != self.job().epoch
        before = self.do(self.jobs.pages(self.id))
        outcomes = []
        for number in numbers:
            letter = outcome()
            letter = letter if letter in letters else "d"
            status = {"d": JobStatus.COMPLETED, "f": JobStatus.FAILED, "s": JobStatus.QUEUED}[letter]
            source = PageSource.LOCAL if letter == "d" else None
            ref = None if letter == "f" else f"{claim.token}"
            outcomes.append(PageOutcome(PageRecord(number, status, source=source, ref=ref)))
        counted = self.do(self.jobs.pages_done(claim, outcomes))
        after = self.do(self.jobs.pages(self.id))
        if stale:
            assert counted == 0, "a result of an earlier epoch must not count"
            assert after == before
        for number, record in before.items():
            if record.status.terminal and number in after:
                assert after[number] == record, "the first result of a page must stand"


def test_any_history_ends_with_each_page_once_and_one_merge(server_url: str) -> None:
    JobStates.url = server_url
    runner = JobStates.TestCase()
    runner.settings = settings(
        max_examples=int(os.environ.get("STATES", "30")),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    runner.runTest()
