"""One bulk run: plans what is new, finds the shards that have no part yet, has an engine read them, and reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from quire.bulk.page_rows import ShardStats, read_stats
from quire.bulk.plan_options import PlanOptions
from quire.bulk.shard_plan import PlanHeader, Plans, finished_shards, part_name
from quire.bulk.shard_queue import FailedShard, ShardQueue
from quire.clock import Clock
from quire.errors import DamagedError, RequestError, StateConflictError
from quire.objects.bulk_locations import BulkLocation

_TAIL_BYTES = 64 << 10
_PARTS_AT_ONCE = 32


class BulkEngine(Protocol):
    """Reads all shards of a queue; `on_stats` counts documents as they are done.

    Within `async with` its workers may start before the queue is known, and are ended.
    """

    async def __aenter__(self) -> BulkEngine: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def run(self, queue: ShardQueue, on_stats: OnStats) -> None: ...


class OnStats(Protocol):
    def __call__(self, stats: ShardStats, /) -> None: ...


@dataclass(frozen=True, slots=True)
class ShardShare:
    """The shards of one machine among several that run without a driver: those whose number leaves `index`."""

    index: int = 0
    count: int = 1

    def has(self, shard: int) -> bool:
        return shard % self.count == self.index


@dataclass(slots=True)
class RunOutcome:
    """What a run did. `total` counts all parts of the target, `now` only what this run has read."""

    shards: int
    finished_before: int
    failed: list[FailedShard]
    now: ShardStats
    total: ShardStats
    seconds: float
    damaged_parts: list[str] = field(default_factory=list)
    ai_shards: dict[int, int] = field(default_factory=dict)
    """The shards with pages that AI would read better, and how many."""

    @property
    def is_complete(self) -> bool:
        return not self.failed


class BulkRun:
    """A run on one target."""

    def __init__(self, source: BulkLocation, target: BulkLocation, options: PlanOptions) -> None:
        self._source = source
        self._target = target
        self._options = options

    async def plan(self, clock: Clock) -> tuple[Plans, PlanHeader | None]:
        """Adds a plan of what is new. Raises RequestError as `check` does."""
        from quire.bulk.shard_planner import Planner  # loads numpy, meanwhile the workers start

        plans = await self.plans()
        try:
            return plans, await Planner(self._source, self._target, plans, self._options).run(clock)
        except StateConflictError:  # another driver was quicker: its plan is as good
            return await self.plans(), None

    async def plans(self) -> Plans:
        """Returns the plans that are stored. Raises RequestError as `check` does."""
        plans = await Plans.load(self._target)
        self.check(plans)
        return plans

    def check(self, plans: Plans) -> None:
        """Raises RequestError where the target belongs to another source or other options."""
        for header in plans.headers[:1]:
            if header.source != self._source.url:
                raise RequestError(
                    f"{self._target.url} holds the rows of {header.source}. Use another target for {self._source.url}."
                )
            if header.row_options != self._options.row_options:
                raise RequestError(
                    f"{self._target.url} was begun with {_shown(header.row_options)}, now it is "
                    f"{_shown(self._options.row_options)}. Use the same options, or another target."
                )

    async def waiting(self, plans: Plans, share: ShardShare) -> tuple[ShardQueue, dict[int, int]]:
        """Returns the shards that are to be read, and those that have a part, with its size."""
        done = await finished_shards(self._target)
        mine = [one for one in range(plans.shard_count) if share.has(one)]
        return ShardQueue(one for one in mine if one not in done), {
            one: done[one] for one in mine if one in done
        }

    async def read(
        self, engine: BulkEngine, queue: ShardQueue, share: ShardShare, on_stats: OnStats
    ) -> RunOutcome:
        """Has the engine read the queue, then counts what the parts of this share hold."""
        began = time.monotonic()
        now = ShardStats()

        def count(stats: ShardStats) -> None:
            now.merge(stats)
            on_stats(stats)

        if not queue.is_done:
            await engine.run(queue, count)
        seconds = time.monotonic() - began
        outcome = RunOutcome(queue.total, 0, queue.failed, now, ShardStats(), seconds)
        outcome.finished_before = await self.count_parts(outcome, share) - queue.finished
        return outcome

    async def count_parts(self, outcome: RunOutcome, share: ShardShare) -> int:
        """Counts anew what the parts of this share hold, and returns their number."""
        sizes = {one: size for one, size in (await finished_shards(self._target)).items() if share.has(one)}
        outcome.total, outcome.damaged_parts, outcome.ai_shards = ShardStats(), [], {}
        async for number, stats in self._stats_of(sizes):
            if stats is None:
                outcome.damaged_parts.append(part_name(number))
                continue
            outcome.total.merge(stats)
            if stats.ai_pages:
                outcome.ai_shards[number] = stats.ai_pages
        return len(sizes)

    async def _stats_of(self, sizes: dict[int, int]) -> AsyncIterator[tuple[int, ShardStats | None]]:
        """What the metadata of parts says, some parts at a time; None for a damaged part."""
        shards = sorted(sizes)
        for start in range(0, len(shards), _PARTS_AT_ONCE):
            numbers = shards[start : start + _PARTS_AT_ONCE]
            asked = (part_stats(self._target, part_name(one), sizes[one]) for one in numbers)
            for number, stats in zip(numbers, await asyncio.gather(*asked), strict=True):
                yield number, stats


async def part_stats(target: BulkLocation, name: str, size: int) -> ShardStats | None:
    """Returns the stats of a part; None if it is damaged. Only its end is fetched."""
    start = max(0, size - _TAIL_BYTES)
    tail = await target.read_range(name, start, size)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if tail[-4:] != b"PAR1":
        return None
    if length > len(tail):
        tail = await target.read_range(name, max(0, size - length), size)
    try:
        # The footer is read alone: the offsets in it are not followed.
        return read_stats(b"PAR1" + tail[-length:])
    except DamagedError:
        return None


def _shown(options: dict[str, str]) -> str:
    return ", ".join(f"{name}={value or 'none'}" for name, value in options.items()) or "no options"
