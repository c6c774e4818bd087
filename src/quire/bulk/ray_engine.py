"""The Ray engine: actors on the nodes of a Ray cluster read shards. Only numbers of shards and counts go through Ray.

An actor parses nothing itself: it has killable reader processes, as a local worker has. Ray's own retries are off: a
shard is tried again by the queue. Credentials and limits come from the environment of each node.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import Any

import msgspec

from quire.bulk.page_rows import ShardStats
from quire.bulk.ray_cluster import RayCluster
from quire.bulk.shard_plan import Plans
from quire.bulk.shard_queue import ShardQueue
from quire.bulk.shard_reader import ShardReader
from quire.bulk.worker_messages import WorkerConfig, WorkerReport, clouds_of
from quire.bulk.worker_process import read_shard, shard_options
from quire.errors import QuireError, SettingsError
from quire.objects.bulk_locations import BulkLocation
from quire.settings import load

_CPUS_AN_ACTOR = 2
_SHARDS_AHEAD = 2
_POLL_S = 1.0
_DEATHS_IN_A_ROW = 20
_LONGEST_PAUSE_S = 5.0
_PATIENCE_S = 900.0
"""How long the driver waits while no actor has room on any node."""

OnStats = Callable[[ShardStats], None]


class ShardActor:
    """Runs in a process of Ray, in its event loop."""

    def __init__(self, config: bytes) -> None:
        self._config = msgspec.json.decode(config, type=WorkerConfig)
        self._reader: ShardReader | None = None
        self._plans: Plans | None = None
        self._contexts: list[Any] = []

    async def open(self) -> str:
        """Starts the reader processes. Returns why the node can't be used: a setting; '' if it can."""
        try:
            settings = load(os.environ)
            clouds = clouds_of(settings)
            source = BulkLocation.open(self._config.source, clouds)
            target = BulkLocation.open(self._config.target, clouds)
            self._plans = await Plans.load(target)
        except QuireError as error:
            return error.public
        context = ShardReader.open(source, target, shard_options(self._config, settings))
        self._contexts.append(context)  # it is open as long as the actor lives
        self._reader = await context.__aenter__()
        return ""

    async def read(self, number: int) -> tuple[bytes, dict[str, Any]]:
        """Returns the report of the shard and the counts of its documents. The actor must be open."""
        if self._reader is None or self._plans is None:
            raise SettingsError("The reader processes could not be started.")
        stats = ShardStats()
        report = await read_shard(self._plans, self._reader, number, stats)
        return msgspec.json.encode(report), asdict(stats)


class RayEngine:
    """Reads all shards of a queue on a Ray cluster: the one at `address`, or a new one on this machine."""

    def __init__(self, config: WorkerConfig, workers: int | None, address: str | None) -> None:
        self._config = config
        self._workers = workers
        self._address = address

    async def __aenter__(self) -> RayEngine:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Nothing is left open between runs: `run` leaves the cluster."""

    async def run(self, queue: ShardQueue, on_stats: OnStats) -> None:
        """Raises SettingsError where Ray is missing or its cluster can't be reached, QuireError where it is lost."""
        async with RayCluster.joined(self._address) as cluster:
            sizes = actor_sizes(await cluster.node_cpus(), self._workers)
            await RayDrive(cluster, self._config, queue, on_stats, sizes).run()


def actor_sizes(node_cpus: Iterable[int], workers: int | None) -> list[int]:
    """Returns the CPUs of each actor: at most two, and never more than a node has, or Ray could not place it.

    Nodes take turns, so that a few `workers` are on different nodes. Workers beyond the cluster's CPUs wait for nodes.
    """
    rows = []
    for cpus in node_cpus:
        rows.append([_CPUS_AN_ACTOR] * (cpus // _CPUS_AN_ACTOR) + [1] * (cpus % _CPUS_AN_ACTOR))
    found = [size for row in zip_longest(*rows, fillvalue=0) for size in row if size]
    if workers is None:
        return found or [1]
    chosen: list[int] = []
    for size in found:
        if sum(chosen) < workers:
            chosen.append(min(size, workers - sum(chosen)))
    return chosen + [1] * (workers - sum(chosen))


@dataclass(slots=True)
class _Seat:
    """The place of one actor: the one that is there now, and the next one if it dies."""

    cpus: int
    actor: Any = None
    opening: Any = None
    is_open: bool = False
    held: dict[Any, int] = field(default_factory=dict)
    """Calls and the shards that they read."""
    deaths: int = 0
    start_at: float = 0.0

    @property
    def calls(self) -> list[Any]:
        return [*self.held] if self.is_open else [self.opening] if self.opening is not None else []


class RayDrive:
    """One run of a queue. An actor gets shards when it is open, so an actor that no node has room for holds none."""

    def __init__(
        self,
        cluster: RayCluster,
        config: WorkerConfig,
        queue: ShardQueue,
        on_stats: OnStats,
        sizes: Iterable[int],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._queue = queue
        self._on_stats = on_stats
        self._seats = [_Seat(size) for size in sizes]
        self._deaths = 0
        self._waited_s = 0.0

    async def run(self) -> None:
        while not self._queue.is_done:
            await self._start_actors()
            self._feed()
            by_call = {call: seat for seat in self._seats for call in seat.calls}
            if not by_call:  # every actor has just died
                await self._wait(_POLL_S)
                continue
            ready = await self._cluster.first_of(list(by_call), _POLL_S)
            for call in ready:
                await self._settle(by_call[call], call)
            if not ready:
                self._count_waiting(_POLL_S)

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._count_waiting(seconds)

    def _count_waiting(self, seconds: float) -> None:
        self._waited_s = 0.0 if any(seat.is_open for seat in self._seats) else self._waited_s + seconds
        if self._waited_s > _PATIENCE_S:
            raise QuireError(
                "No node of the Ray cluster has had room for a worker for 15 minutes. Check it with `ray status`, "
                "then run the same command again to go on."
            )

    async def _start_actors(self) -> None:
        for seat in self._seats:
            if seat.actor is None and time.monotonic() >= seat.start_at:
                config = msgspec.structs.replace(self._config, processes=seat.cpus)
                seat.actor = await self._cluster.start(
                    ShardActor, seat.cpus, _SHARDS_AHEAD + 1, msgspec.json.encode(config)
                )
                seat.opening = seat.actor.open.remote()

    def _feed(self) -> None:
        for seat in self._seats:
            while seat.is_open and len(seat.held) < _SHARDS_AHEAD:
                shard = self._queue.take()
                if shard is None:
                    return
                seat.held[seat.actor.read.remote(shard)] = shard

    async def _settle(self, seat: _Seat, call: Any) -> None:
        """Takes the result of a call that has ended."""
        try:
            result = await self._cluster.result(call)
        except self._cluster.actor_error:
            self._bury(seat)
            return
        except self._cluster.any_error as error:
            shard = seat.held.pop(call, None)
            if shard is None:
                self._bury(seat)
            else:
                self._queue.fail(shard, f"Ray failed: {type(error).__name__}.")
                self._count_death()
            return
        if call == seat.opening:
            if result:
                raise QuireError(f"A node of the Ray cluster can't be used: {result}")
            seat.opening, seat.is_open = None, True
            return
        del seat.held[call]
        raw, stats = result
        self._count(seat, msgspec.json.decode(raw, type=WorkerReport))
        self._on_stats(ShardStats(**stats))

    def _count(self, seat: _Seat, report: WorkerReport) -> None:
        if report.finished is not None:
            self._deaths = seat.deaths = 0
            self._queue.finish()
        elif report.failed is not None:
            self._queue.fail(report.failed, report.error, retryable=report.retryable)

    def _bury(self, seat: _Seat) -> None:
        """Puts the shards of a dead actor back; the next actor of the seat is started after a pause."""
        for shard in seat.held.values():
            self._queue.fail(shard, "Its worker died each time.")
        seat.deaths += 1
        pause_s = min(_LONGEST_PAUSE_S, 0.1 * 2 ** min(seat.deaths, 10))
        seat.actor, seat.opening, seat.is_open, seat.held = None, None, False, {}
        seat.start_at = time.monotonic() + pause_s
        self._count_death()

    def _count_death(self) -> None:
        self._deaths += 1
        if self._deaths >= _DEATHS_IN_A_ROW and not self._queue.is_done:
            raise QuireError(
                "Workers in the Ray cluster end as soon as they are started. Check that this version of Quire is "
                "installed on its nodes, and look at the logs of Ray there."
            )
