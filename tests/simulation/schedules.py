"""Schedules: a seed draws documents, delays, lost messages, crashes, stalls, retries and the loss of the server's data.

The real worker, housekeeper, queues and scripts run on virtual time. Each schedule ends with an account: every document
is over, each unit was settled once in its epoch, no document was merged twice in an epoch, and the queues are empty.
No unit was claimed that another worker held; where nothing was late (no stall, no lost message or data), also none
whose holder was alive.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from quire.coordination import keys
from quire.coordination.housekeeping_records import HousekeepingRecords
from quire.coordination.job_records import Claim, NewJob, PageOutcome
from quire.coordination.job_store import JobStore
from quire.coordination.liveness import Workers
from quire.coordination.recovered_jobs import RecoveredJobs
from quire.coordination.streams import QUEUES, Queues
from quire.domain.job import JobOptions, JobStatus, PageRecord, UnitKind, chunk_places, unit_page
from quire.domain.page import PageSource
from quire.errors import CoordinationError, QuireError
from quire.pipeline.parts import Parts
from quire.pipeline.upkeep import dead_workers, housekeeper
from quire.pipeline.upkeep.housekeeper import Housekeeper
from quire.pipeline.worker import Worker
from quire.settings import load
from tests.simulation.simulated_network import SimulatedConnection, SimulatedServer
from tests.simulation.virtual_loop import VirtualClock, VirtualLoop

_WORKER_TTL_S = 2.0
_FAULTS_UNTIL_S = 5.0
_FAULTS_APART_S = 0.7
_STAGE_S = (0.01, 0.1, 0.5, 2.5)
_STALLS_S = (0.5, 1.0, 3.5)
"""The last of each is longer than the TTL of a worker. Short times make many schedules a minute."""
housekeeper._GRACE_S = housekeeper._SWEEP_AGAIN_S = 2.0
dead_workers._SCAN_EVERY_S = 2.0
"""The long waits of the housekeeper are shorter too; only their order with the TTL matters."""
_OVER_BY_S = 1800.0
_SLOTS = {UnitKind.SPLIT: 2, UnitKind.READ: 2, UnitKind.PAGE: 2, UnitKind.MERGE: 1}
_SETTINGS = load({"READER_CHUNK_PAGES": "2"})


class BrokenInvariantError(AssertionError):
    """What must never happen did; the message names the seed."""


@dataclass
class Account:
    """What one schedule did."""

    crashes: int = 0
    stalls: int = 0
    flushes: int = 0
    retries: int = 0
    virtual_s: float = 0.0
    settled: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    merged: Counter[tuple[str, int, int]] = field(default_factory=Counter)


class Process:
    """One process of the fleet: a worker and a housekeeper on a connection of its own."""

    def __init__(self, one: Schedule, number: int) -> None:
        self.connection = SimulatedConnection(one.server, one.chance, one.losses)
        clock = one.clock
        queues = Queues(self.connection, clock)
        self.jobs = JobStore(self.connection, queues, clock, ttl_s=86_400)
        self.recovered = RecoveredJobs(self.connection, queues, clock, 86_400)
        workers = Workers(self.connection, clock, _WORKER_TTL_S)
        reports = SimpleNamespace(
            meter=SimpleNamespace(unit_retried=lambda _kind: None), deadline_reached=lambda *_: None
        )
        parts = cast(
            Parts,
            SimpleNamespace(
                settings=_SETTINGS,
                clock=clock,
                jobs=self.jobs,
                queues=queues,
                workers=workers,
                reports=reports,
                objects=None,
                disk=SimpleNamespace(is_full=False, note_error=lambda _error: False),
                tracer=None,
                ai=None,
            ),
        )
        name = f"host{number}.{number}.0.{number}"
        self._worker = Worker(parts, name, _SLOTS, one.stages())
        self._keeper = Housekeeper(parts, HousekeepingRecords(self.connection, clock), name)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(one)) for one in (self._worker.run, self._keeper._run_rounds)
        ]

    async def _run(self, run: Any) -> None:
        """A process that can't reach the server at its start is started again by its supervisor."""
        while True:
            try:
                await run()
                return
            except* CoordinationError:
                await asyncio.sleep(1.0)

    async def crash(self) -> None:
        """Ends at once: nothing that it does from now on reaches the server."""
        self.connection.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


class Schedule:
    """One seed. `run` raises BrokenInvariantError."""

    def __init__(self, server: SimulatedServer, clock: VirtualClock, seed: int) -> None:
        self.server = server
        self.clock = clock
        self.seed = seed
        self.chance = random.Random(seed)
        self.losses = self.chance.choice((0.0, 0.0, 0.01, 0.05))
        self._had_losses = self.losses > 0
        self.account = Account()
        self._processes: list[Process] = []
        self._journal: dict[str, dict[str, str]] = {}
        self._generation = 0

    async def run(self) -> Account:
        self._started = 0
        for _ in range(self.chance.randint(2, 3)):
            self._start_process()
        user = Process(self, 0)  # never started: only its connection is used
        user.connection._lost_share = 0.0
        faults = asyncio.create_task(self._hurt(user))
        for _ in range(self.chance.randint(1, 2)):
            await self._hand_in(user)
        try:
            await faults
            self.losses = 0.0
            for one in self._processes:
                one.connection._lost_share = 0.0
            await self._until_over(user)
            await self._check(user)
        finally:
            for one in self._processes:
                await one.crash()
        self.account.virtual_s = self.clock.monotonic()
        return self.account

    def _start_process(self) -> None:
        self._started += 1
        one = Process(self, self._started)
        self._processes.append(one)
        one.start()

    async def _hand_in(self, user: Process) -> None:
        job_id = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        source = {"kind": "upload"}
        new = NewJob(job_id, "team", JobOptions(), source, "a.pdf", content_ref=f"jobs/{job_id}/o")
        fields: dict[str, str] = {}
        while (
            not fields
        ):  # a server that loses everything before the journal has it: the caller repeats the call
            await user.jobs.create(new)
            fields = await user.jobs.fields(job_id)
        self._journal[job_id] = fields

    # Faults

    async def _hurt(self, user: Process) -> None:
        while (now := self.clock.monotonic()) < _FAULTS_UNTIL_S:
            await asyncio.sleep(self.chance.expovariate(1 / _FAULTS_APART_S))
            kind = self.chance.choices(("crash", "stall", "retry", "flush", "none"), (4, 3, 2, 1, 2))[0]
            victim = self.chance.choice(self._processes)
            if kind == "crash":
                self.account.crashes += 1
                self._processes.remove(victim)
                await victim.crash()
                self._start_process()
            elif kind == "stall":
                self.account.stalls += 1
                victim.connection.stalled_until_s = now + self.chance.choice(_STALLS_S)
            elif kind == "retry":
                await self._retry(user)
            elif kind == "flush":
                await self._flush(user)

    async def _retry(self, user: Process) -> None:
        """A user cancels a document, or has it read again."""
        job_id = self.chance.choice(list(self._journal)) if self._journal else ""
        job = await user.jobs.get(job_id) if job_id else None
        if job is None:
            return
        self.account.retries += 1
        if not job.status.terminal:
            await user.jobs.cancel(job_id)
            job = await user.jobs.get(job_id)
        if job is not None:
            await user.jobs.retry(job, "all", first="split")

    async def _flush(self, user: Process) -> None:
        """The server loses everything; the reconciler puts back what the journal has."""
        self.account.flushes += 1
        self._generation += 1
        self.server.lose_everything()
        await asyncio.sleep(self.chance.uniform(0, 3))
        for job_id, fields in list(self._journal.items()):
            await user.recovered.restore_accepted(job_id, fields)

    # What the workers do

    def stages(self) -> dict[UnitKind, Any]:
        async def work() -> None:
            await asyncio.sleep(self.chance.choice(_STAGE_S))
            if self.chance.random() < 0.03 and self.clock.monotonic() < _FAULTS_UNTIL_S:
                raise QuireError("A stage failed.", retryable=True)

        async def split(claim: Claim, parts: Parts) -> None:
            await work()
            await parts.jobs.split_done(claim, 5, 2, 2, {"ranges": "1-5"})

        async def read(claim: Claim, parts: Parts) -> None:
            await work()
            first, last = chunk_places(claim.hint.unit)
            numbers = range(first + 1, min(last + 1, 5) + 1)
            slow = {number for number in numbers if number == 3}
            await self._settle(claim, parts, [_outcome(number, number in slow) for number in numbers])

        async def page(claim: Claim, parts: Parts) -> None:
            await work()
            await self._settle(claim, parts, [_outcome(unit_page(claim.hint.unit), False)])

        async def merge(claim: Claim, parts: Parts) -> None:
            await work()
            generation = self._generation  # the answer may arrive after the server has lost everything
            if await parts.jobs.merged(claim, {"key": "k", "pages_key": "p", "metadata": {}}):
                self.account.merged[claim.job.id, claim.hint.epoch, generation] += 1

        return {UnitKind.SPLIT: split, UnitKind.READ: read, UnitKind.PAGE: page, UnitKind.MERGE: merge}

    async def _settle(self, claim: Claim, parts: Parts, outcomes: list[PageOutcome]) -> None:
        generation = self._generation
        if await parts.jobs.pages_done(claim, outcomes):
            self.account.settled[claim.job.id, claim.hint.unit, claim.hint.epoch, generation] += 1

    # The account

    async def _until_over(self, user: Process) -> None:
        while True:
            jobs = [await user.jobs.get(job_id) for job_id in self._journal]
            open_jobs = [job for job in jobs if job is None or not job.status.terminal]
            if not open_jobs and not await self._left(user):
                return
            if self.clock.monotonic() > _OVER_BY_S:
                states = [(job.id, job.status, job.epoch) if job else None for job in open_jobs]
                work = [await user.jobs.working(job_id) for job_id in self._journal]
                raise self._broken(f"stuck: {states}, units {work}, left {await self._left(user)}")
            await asyncio.sleep(1.0)

    async def _left(self, user: Process) -> dict[str, int]:
        names = [(stream, "XLEN") for kind in _SLOTS for stream in QUEUES[kind].streams]
        names += [(QUEUES[kind].delayed, "ZCARD") for kind in _SLOTS] + [(keys.ACTIVE, "ZCARD")]
        found = await user.connection.commands([(command, name) for name, command in names])
        return {name: int(count) for (name, _), count in zip(names, found, strict=True) if int(count)}

    async def _check(self, user: Process) -> None:
        self.server.collect()
        if self.server.double_claims:
            raise self._broken(f"claimed twice: {self.server.double_claims}")
        is_prompt = not (self.account.stalls or self.account.flushes or self._had_losses)
        if is_prompt and self.server.taken_from_living:
            raise self._broken(f"claimed from the living: {self.server.taken_from_living}")
        if twice := [unit for unit, count in self.account.settled.items() if count > 1]:
            raise self._broken(f"settled twice: {twice}")
        if twice := [job for job, count in self.account.merged.items() if count > 1]:
            raise self._broken(f"merged twice: {twice}")
        for job_id in self._journal:
            job = await user.jobs.get(job_id)
            if job is None or job.status not in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED):
                raise self._broken(f"{job_id} is {job and job.status}")
            if job.status is JobStatus.COMPLETED and (job.pages_completed + job.pages_failed) != 5:
                raise self._broken(f"{job_id} has {job.pages_completed} pages completed")

    def _broken(self, text: str) -> BrokenInvariantError:
        return BrokenInvariantError(f"seed {self.seed}: {text}")


def _outcome(number: int, slow: bool) -> PageOutcome:
    if slow:
        return PageOutcome(PageRecord(number, JobStatus.QUEUED))
    return PageOutcome(PageRecord(number, JobStatus.COMPLETED, source=PageSource.LOCAL, ref="x"))


def run_schedule(server: SimulatedServer, seed: int) -> Account:
    """Runs one seed from an empty server. Raises BrokenInvariantError."""
    random.seed(seed)
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        clock = VirtualClock(loop)
        server.start(clock)
        return loop.run_until_complete(Schedule(server, clock, seed).run())
    finally:
        with suppress(Exception):
            for task in asyncio.all_tasks(loop):
                task.cancel()
        asyncio.set_event_loop(None)
        loop.close()
